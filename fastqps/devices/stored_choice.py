"""The choice of ``--quantization auto`` as it is stored: the quantised products, with their times."""

from __future__ import annotations

from dataclasses import dataclass

from fastqps.devices.choice_file import ChoiceFile
from fastqps.ops.precision import Timed


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


def _check(where: Circumstances, choice: Choice) -> None:
    for times in (times for timed in choice.products for times in (timed.us, timed.quantised_us)):
        if len(times) != len(where.rows):
            raise ValueError("a product has not as many times as there are sizes of steps")
        if min(times, default=0) < 0:
            raise ValueError(f"{min(times):g} is not a time")


PRECISION = ChoiceFile("quantization auto", "precision", 3, Circumstances, Choice, _check)
