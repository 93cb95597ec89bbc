"""Durations and rates as people write them: 500us, 10s; 2000, 2.5k, 1M."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from loadgen.errors import UsageError

NS_PER_UNIT = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000}
DURATION_NS_MAX = 168 * NS_PER_UNIT["h"]
_SCALE = {"": 1, "k": 1_000, "K": 1_000, "M": 1_000_000}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")


def duration_ns(text: str) -> int:
    """Nanoseconds of ``10s``, ``1.5ms`` or 0; a unit is needed (ns us ms s m h)."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or (match[2] not in NS_PER_UNIT and not (match[2] == "" and float(match[1]) == 0)):
        raise UsageError(f"{text!r} is no duration; write for example 10s or 500us (units: {', '.join(NS_PER_UNIT)})")
    duration = round(Fraction(match[1]) * NS_PER_UNIT.get(match[2], 0))
    if duration > DURATION_NS_MAX:
        raise UsageError(f"{text} is too long; durations are at most {DURATION_NS_MAX // NS_PER_UNIT['h']}h")
    return duration


def rate(text: str) -> float:
    """Calls per second of ``2000``, ``2.5k`` or ``1M``: finite and above 0."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in _SCALE:
        raise UsageError(f"{text!r} is no rate; write calls per second above 0, for example 2000 or 2.5k")
    per_s = float(match[1]) * _SCALE[match[2]]
    if not 0 < per_s < math.inf:
        raise UsageError(f"a rate of {text} makes no calls; write calls per second above 0")
    return per_s


def number(text: str, what: str, lowest: float = 0.0, highest: float = math.inf, above: bool = False) -> float:
    """A finite number from ``lowest`` (above it, if ``above``) to ``highest``; the error names it as ``what``."""
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{what} is {text!r}, which is no number") from None
    if not math.isfinite(value) or value < lowest or value > highest or (above and value == lowest):
        bound = f"{'above' if above else 'at least'} {lowest:g}"
        bound += f" and at most {highest:g}" if highest < math.inf else ""
        raise UsageError(f"{what} is {text}; it must be {bound}")
    return value


def format_duration(ns: float) -> str:
    """Nanoseconds in the unit that suits them: 812 µs, 18.3 ms, 1.20 s."""
    us = ns / 1e3
    if abs(us) < 999.5:
        return f"{three_digits(us)} µs"
    return f"{three_digits(us / 1e3)} ms" if abs(us) < 999.5e3 else f"{three_digits(us / 1e6)} s"


def three_digits(value: float) -> str:
    """0.81, 1.20, 18.3, 1,204; 0 without digits behind the point."""
    size = abs(value)
    digits = 0 if size >= 99.95 or not size else 1 if size >= 9.995 else 2
    return f"{value:,.{digits}f}"
