"""Numbers as people read them, and bars of a given width in a terminal, with and without colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.text import Text

NONE = "–"


@dataclass(frozen=True)
class Part:
    """The meaning of a piece of a bar. ``glyph`` distinguishes it if there is no colour."""

    name: str
    style: str
    glyph: str

    def shown(self, colour: bool) -> str:
        """One cell of the part."""
        return ("█" if self.glyph != "·" else "─") if colour else self.glyph


LEAST, MOST = 8, 60
DIM = "bright_black"
BUSY = Part("busy", "green", "█")
FREE = Part("", "bright_black", "·")
IDLE = {
    part.name: part
    for part in (
        Part("gather", "yellow", "g"),
        Part("launch", "magenta", "l"),
        Part("scatter", "cyan", "s"),
        Part("shared", "white", "o"),
        Part("batch_delay", "blue", "d"),
        Part("no_work", "bright_black", "·"),
    )
}


def bar_of(width: int) -> int:
    """So many cells for a bar, where there are ``width``."""
    return min(MOST, max(LEAST, width))


def idle_part(reason: str) -> Part:
    """The part of an idle reason, also of an unknown one from a newer server."""
    return IDLE.get(reason, Part(reason, "red", reason[:1]))


def stacked(parts: Sequence[tuple[Part, float]], width: int, *, colour: bool) -> Text:
    """Draws shares of 1 one after another; the rest is free."""
    cells = _cells([share for _, share in parts], width)
    bar = Text()
    for (part, _), n in zip((*parts, (FREE, 0.0)), (*cells, width - sum(cells)), strict=True):
        bar.append(part.shown(colour) * n, part.style)
    return bar


def single(share: float, width: int, style: str, *, colour: bool) -> Text:
    """One share of 1."""
    return stacked([(Part("", style, "█"), min(1.0, max(0.0, share)))], width, colour=colour)


def _cells(shares: Sequence[float], width: int) -> list[int]:
    """Whole cells of each share: rounded at the ends of the pieces, so that they never make more than the bar."""
    ends, total = [0], 0.0
    for share in shares:
        total += max(0.0, share)
        ends.append(min(width, round(width * total)))
    return [end - start for start, end in pairwise(ends)]


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
