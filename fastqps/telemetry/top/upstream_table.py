"""The servers that an edge sends to: the state of each, what it has, and how many items it answers."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from fastqps.telemetry.live.view import Upstream
from fastqps.telemetry.metrics.upstream_rows import SERVING
from fastqps.telemetry.top.bars import DIM
from fastqps.telemetry.top.words import count, cut, listed, percent, span

NAME_LEAST, NAME_MOST = 12, 40
TITLES = ("state", "answered", "in flight", "saturation", "round trip", "")  # the last ones give way first


def upstream_table(upstreams: Sequence[Upstream], width: int, room: int) -> Table:
    """The upstreams in ``room`` rows below the head. Those that do not fit are counted."""
    table = Table.grid(padding=(0, 2))
    name = min(NAME_MOST, max(NAME_LEAST, width // 3))
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=name)
    for title in TITLES:
        table.add_column(no_wrap=True, overflow="ellipsis", justify="right" if title not in ("", "state") else "left")
    table.add_row("", *(Text(title, DIM) for title in TITLES))
    shown = upstreams if len(upstreams) <= room else upstreams[: max(0, room - 1)]
    for each in shown:
        table.add_row(Text(cut(each.name, name), "bold"), *_cells(each))
    if more := upstreams[len(shown) :]:
        serving = sum(each.state == SERVING for each in more)
        table.add_row(f"{len(more)} more", Text(f"{serving} serve", DIM))
    return table


def _cells(each: Upstream) -> tuple[Text, ...]:
    trouble = {event: rate for event, rate in each.rates.items() if event in ("refused", "lost")}
    return (
        Text(each.state, "green" if each.state == SERVING else "bold red"),
        Text(f"{count(each.rates.get('answered', 0.0))}/s"),
        Text(f"{each.in_flight:,} of {each.window:,}"),
        Text(percent(each.utilization), "bold red" if each.utilization >= 1 else ""),
        Text(span(each.rtt)),
        Text(listed(trouble), "red"),
    )
