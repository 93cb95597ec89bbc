"""Bars of a given width in a terminal, with and without colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.text import Text


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
