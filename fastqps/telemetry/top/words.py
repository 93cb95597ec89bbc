"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Mapping

NONE = "–"


def span(us: float | None) -> str:
    """80 µs, 1.25 ms, 3.4 s."""
    if us is None:
        return NONE
    for unit, size in (("µs", 1.0), ("ms", 1e3)):
        if us < 999.5 * size:
            return f"{_three(us / size)} {unit}"
    return f"{_three(us / 1e6)} s"


def count(value: float | None) -> str:
    """12,345; 8.25; 0.5."""
    if value is None:
        return NONE
    if value >= 100:
        return f"{value:,.0f}"
    text = _three(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float | None) -> str:
    """A share of 1: 4.2 %, 57 %."""
    if share is None:
        return NONE
    return f"{100 * share:.1f} %" if 0 < share < 0.0995 else f"{100 * share:.0f} %"


def uptime(seconds: float) -> str:
    """3m 12s, 5h 10m, 2d 4h."""
    rounded_s = int(seconds)
    for size, unit, part, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if rounded_s >= size:
            return f"{rounded_s // size}{unit} {rounded_s % size // part}{small}"
    return f"{rounded_s}s"


def listed(rates: Mapping[str, float], *, always: str = "") -> str:
    """Lists rates as ``OK 1,230/s, NOT_FOUND 3/s``: those above 0, and the one named ``always``."""
    return ", ".join(f"{name} {count(rate)}/s" for name, rate in rates.items() if rate or name == always)


def cut(name: str, width: int) -> str:
    """Shortens a long name in the middle, because its ends identify it."""
    if len(name) <= width:
        return name
    tail = max(0, (width - 1) // 3)
    return f"{name[: max(0, width - 1 - tail)]}…{name[len(name) - tail :]}"


def _three(value: float) -> str:
    """Three significant digits, or more in front of the point, fewer below 1."""
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}"
