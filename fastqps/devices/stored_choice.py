"""The choice of ``--quantization auto`` as it is stored: the quantised products, with their times."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from fastqps.devices.choice_file import ChoiceFile, checked
from fastqps.ops.precision import EPILOGUES, Kind, Timed


@dataclass(frozen=True)
class Circumstances:
    """The circumstances under which a stored choice is valid for models of one shape."""

    device: str  # its make, not which one of several
    torch: str
    dtype: str
    rows: tuple[int, ...]  # the sizes of steps that were measured


@dataclass(frozen=True)
class Choice:
    """The measured products, and the time of measurement: ISO 8601, UTC."""

    measured: str
    products: tuple[Timed, ...]


def _entry(circumstances: Circumstances, choice: Choice) -> dict[str, Any]:
    products = [timed_json(timed) for timed in choice.products]
    return {**dataclasses.asdict(circumstances), "measured": choice.measured, "products": products}


def _parsed(entry: dict[str, Any]) -> tuple[Circumstances, Choice]:
    device, torch, dtype, measured = (checked(entry[name], str) for name in ("device", "torch", "dtype", "measured"))
    rows = tuple(checked(n, int) for n in entry["rows"])
    products = tuple(timed_of(product) for product in entry["products"])
    if any(len(times) != len(rows) for timed in products for times in (timed.us, timed.quantised_us)):
        raise ValueError("a product has not as many times as there are sizes of steps")
    return Circumstances(device, torch, dtype, rows), Choice(measured, products)


def timed_json(timed: Timed) -> dict[str, Any]:
    """Converts a measurement to an object of JSON, for ``timed_of``."""
    rest = {"us": timed.us, "quantised_us": timed.quantised_us, "quantised": timed.quantised}
    return {**dataclasses.asdict(timed.kind), **rest}


def timed_of(found: dict[str, Any]) -> Timed:
    """Reads an object of ``timed_json``. Raises ``ValueError``, ``KeyError`` or ``TypeError`` for anything else."""
    if found["epilogue"] not in EPILOGUES:
        raise ValueError(f"no product has the epilogue {found['epilogue']!r}")
    outputs, inputs = (checked(found[name], int) for name in ("outputs", "inputs"))
    fused, quantised = (checked(found[name], bool) for name in ("fused", "quantised"))
    plain_us, quantised_us = (tuple(_time(us) for us in found[name]) for name in ("us", "quantised_us"))
    return Timed(Kind(outputs, inputs, fused, found["epilogue"]), plain_us, quantised_us, quantised)


def _time(us: Any) -> float:
    if type(us) not in (int, float) or not 0 <= us < math.inf:
        raise ValueError(f"{us!r} is not a time")
    return float(us)


PRECISION = ChoiceFile("quantization auto", "precision", 3, _entry, _parsed)
