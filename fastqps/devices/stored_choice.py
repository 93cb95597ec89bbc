"""The choice of ``--quantization auto`` as a file beside the model: measured once, read by all that serve it.

A file holds choices for several circumstances (GPUs, versions of torch, sizes of steps), the newest last. It does not
belong to the checkpoint: no digest covers it, and deleting it only has the products measured again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastqps.host import machine
from fastqps.models.names import PACKAGED, packaged
from fastqps.ops.precision import EPILOGUES, Kind, Timed

FILE = "fastqps-precision.json"
CHOICES_MAX = 32  # in a file; the oldest go first
_FORMAT = 2  # to be raised when something else is measured: older files are then ignored
_BYTES_MAX = 1 << 20

Log = Callable[[str], None]


@dataclass(frozen=True)
class Circumstances:
    """The circumstances under which a stored choice is valid."""

    model: str  # version of the checkpoint
    device: str  # its make, not which one of several
    torch: str
    dtype: str
    rows: tuple[int, ...]  # the sizes of steps that were measured


@dataclass(frozen=True)
class Choice:
    """The measured products, and the time of measurement: ISO 8601, UTC."""

    measured: str
    products: tuple[Timed, ...]


def places(root: Path) -> list[Path]:
    """Where the choices for the model in ``root`` are looked for and stored, the preferred place first.

    The folder of a model that a Python package carries belongs to that package, so nothing is written there.
    """
    cache = machine.cache_folder("precision")
    beside = [] if root in [packaged(name) for name in PACKAGED] else [root / FILE]
    return beside + ([cache / f"{hashlib.sha256(str(root).encode()).hexdigest()[:16]}.json"] if cache else [])


def find_choice(paths: Sequence[Path], circumstances: Circumstances, log: Log) -> tuple[Path, Choice] | None:
    """The stored choice and its file. A file that cannot be used is logged and ignored."""
    for path in paths:
        try:
            found = _read(path).get(circumstances)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            log(f"quantization auto: warning: {path} holds no choices that can be used ({error}); it is ignored")
            continue
        if found:
            return path, found
    return None


def store_choice(paths: Sequence[Path], circumstances: Circumstances, choice: Choice, log: Log) -> None:
    """Writes the choice to the first of ``paths`` that takes it. Logs a warning if none does."""
    reason = "no folder of this user can be written to"
    for path in paths:
        try:
            kept = _read(path)
        except (OSError, ValueError):
            kept = {}
        kept.pop(circumstances, None)
        newest = dict([*kept.items(), (circumstances, choice)][-CHOICES_MAX:])
        try:
            _write(path, json.dumps({"format": _FORMAT, "choices": [_entry(*item) for item in newest.items()]}))
        except OSError as error:
            reason = f"{path}: {error.strerror}"
            continue
        log(f"quantization auto: choice stored in {path}")
        return
    log(f"quantization auto: warning: the choice cannot be stored ({reason}); the next start measures again")


def forget_choices(root: Path) -> None:
    """Deletes what is stored for a model, so that the next start measures again. ``OSError`` if that is not allowed."""
    for path in places(root):
        path.unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    """Replaces the file as a whole, for readers and other writers at the same time."""
    written = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    handle = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)  # less the umask
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(written, path)
    except OSError:
        with contextlib.suppress(OSError):
            written.unlink()
        raise


def _read(path: Path) -> dict[Circumstances, Choice]:
    """``OSError`` or ``ValueError`` where the file is not one of ours, unharmed and of this version."""
    with path.open("rb") as stream:
        text = stream.read(_BYTES_MAX + 1)
    if len(text) > _BYTES_MAX:
        raise ValueError(f"it has more than {_BYTES_MAX} bytes")
    try:
        found = json.loads(text)
        if found["format"] != _FORMAT:
            raise ValueError(f"its format is {found['format']}, not {_FORMAT}")
        return dict(_parsed(entry) for entry in found["choices"])
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not a file of fastqps: {error!r}") from None


def _entry(circumstances: Circumstances, choice: Choice) -> dict[str, Any]:
    products = [timed_json(timed) for timed in choice.products]
    return {**dataclasses.asdict(circumstances), "measured": choice.measured, "products": products}


def _parsed(entry: dict[str, Any]) -> tuple[Circumstances, Choice]:
    model, device, torch, dtype, measured = (
        _checked(entry[name], str) for name in ("model", "device", "torch", "dtype", "measured")
    )
    rows = tuple(_checked(n, int) for n in entry["rows"])
    products = tuple(timed_of(product) for product in entry["products"])
    if any(len(times) != len(rows) for timed in products for times in (timed.us, timed.quantised_us)):
        raise ValueError("a product has not as many times as there are sizes of steps")
    return Circumstances(model, device, torch, dtype, rows), Choice(measured, products)


def timed_json(timed: Timed) -> dict[str, Any]:
    """Converts a measurement to an object of JSON, for ``timed_of``."""
    rest = {"us": timed.us, "quantised_us": timed.quantised_us, "quantised": timed.quantised}
    return {**dataclasses.asdict(timed.kind), **rest}


def timed_of(found: dict[str, Any]) -> Timed:
    """Reads an object of ``timed_json``. Raises ``ValueError``, ``KeyError`` or ``TypeError`` for anything else."""
    if found["epilogue"] not in EPILOGUES:
        raise ValueError(f"no product has the epilogue {found['epilogue']!r}")
    outputs, inputs = (_checked(found[name], int) for name in ("outputs", "inputs"))
    fused, quantised = (_checked(found[name], bool) for name in ("fused", "quantised"))
    plain_us, quantised_us = (tuple(_time(us) for us in found[name]) for name in ("us", "quantised_us"))
    return Timed(Kind(outputs, inputs, fused, found["epilogue"]), plain_us, quantised_us, quantised)


def _time(us: Any) -> float:
    if type(us) not in (int, float) or not 0 <= us < math.inf:
        raise ValueError(f"{us!r} is not a time")
    return float(us)


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{value!r} is not of type {kind.__name__}")
    return value
