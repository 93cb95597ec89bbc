"""Durations and sizes as people write them: 500us, 10s, 4MiB."""

from __future__ import annotations

import re

NS_PER_UNIT = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000}
BYTES_PER_UNIT = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")


def parse_duration(text: str) -> int:
    """Nanoseconds. A unit is needed (ns us ms s m h), except for 0; ``ValueError`` says what is wrong."""
    return _parse(text, NS_PER_UNIT, "10s or 500us")


def parse_bytes(text: str) -> int:
    """Bytes. A plain number is bytes; else B KiB MiB GiB (powers of 1024) or KB MB GB (of 1000)."""
    return _parse(text if not text.strip().isdigit() else f"{text.strip()}B", BYTES_PER_UNIT, "4MiB or 65536")


def format_duration(ns: int) -> str:
    """The shortest exact form that ``parse_duration`` reads back."""
    return _format(ns, NS_PER_UNIT, "s")


def format_bytes(n: int) -> str:
    """The shortest exact form that ``parse_bytes`` reads back."""
    return _format(n, {unit: size for unit, size in BYTES_PER_UNIT.items() if unit in ("B", "KiB", "MiB", "GiB")}, "B")


def _parse(text: str, units: dict[str, int], example: str) -> int:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a quantity; write for example {example}")
    number, unit = match.groups()
    if unit == "" and float(number) == 0:
        return 0
    if unit not in units:
        problem = f"has the unknown unit {unit!r}" if unit else "has no unit"
        raise ValueError(f"{text!r} {problem}; units are {', '.join(units)}, for example {example}")
    whole, _, fraction = number.partition(".")
    scaled, tenths = int(whole + fraction) * units[unit], int(10 ** len(fraction))
    if scaled % tenths:
        raise ValueError(f"{text!r} is finer than 1 {next(iter(units))}")
    return scaled // tenths


def _format(value: int, units: dict[str, int], zero_unit: str) -> str:
    if value == 0:
        return f"0{zero_unit}"
    unit, size = max(((u, s) for u, s in units.items() if value % s == 0), key=lambda pair: pair[1])
    return f"{value // size}{unit}"
