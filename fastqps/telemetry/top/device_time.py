"""The devices of a server. The time of each: the union over its dispatchers, then each dispatcher with the reasons for
its gaps. The devices of an edge are the servers that it sends to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fastqps.telemetry.live.view import Dispatcher, Upstream, View
from fastqps.telemetry.metrics.upstreams import SERVING
from fastqps.telemetry.top.cells import (
    BUSY,
    DIM,
    IDLE,
    NONE,
    bar_of,
    count,
    cut,
    idle_part,
    listed,
    percent,
    single,
    span,
    stacked,
)

NAME_LEAST, NAME_MOST = 7, 24
PERCENT, GAPS = 5, 3  # columns


def rows(view: View) -> int:
    """The number of rows besides those of dispatchers: one for each device, and the legend."""
    return len(view.devices) + 1


def device_time(view: View, width: int, colour: bool, room: int) -> RenderableType:
    """The device time of dispatchers in ``room`` rows. Those that do not fit are summed up."""
    name = min(NAME_MOST, width // 5, max(NAME_LEAST, *map(len, view.devices), 0))
    bar = bar_of((width - name - PERCENT - GAPS) // 2)
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, width=name)
    table.add_column(no_wrap=True, width=PERCENT, justify="right")
    table.add_column(no_wrap=True, width=bar)
    table.add_column(no_wrap=True, overflow="ellipsis", width=max(1, width - name - PERCENT - bar - GAPS))
    cut_off = len(view.dispatchers) - (room if len(view.dispatchers) <= room else max(0, room - 1))
    shown = view.dispatchers[: len(view.dispatchers) - max(0, cut_off)]
    for device, active in view.devices.items():
        line = single(active, bar, "green", colour=colour)
        table.add_row(Text(cut(device, name), "bold"), percent(active), line, Text("any dispatcher's step", DIM))
        for d in (d for d in shown if d.device == device):
            table.add_row(*_row(d, bar, colour, d.model if len(view.models) > 1 else ""))
    if more := view.dispatchers[len(shown) :]:
        busy = [d.busy for d in more if d.busy is not None]
        mean = percent(sum(busy) / len(busy)) if busy else NONE
        table.add_row(f"{len(more)} more", mean, "", Text("busy on average", DIM))
    return Group(table, _legend(colour))


def _row(d: Dispatcher, bar: int, colour: bool, model: str) -> tuple[RenderableType, ...]:
    name, text = Text(f"  {d.index}"), Text(f"{model}  " if model else "")
    if not d.ready:
        return name, "", Text("not ready", "bold red"), text
    idle = {reason: d.idle[reason] for reason in (*IDLE, *(r for r in d.idle if r not in IDLE)) if reason in d.idle}
    parts = [(BUSY, d.busy or 0.0), *((idle_part(reason), share) for reason, share in idle.items())]
    why = sorted(((share, reason) for reason, share in idle.items() if share >= 0.005), reverse=True)
    text.append(f"{count(d.steps)} steps/s")
    text.append("".join(f"  {reason.replace('_', ' ')} {percent(share)}" for share, reason in why), DIM)
    return name, percent(d.busy), stacked(parts, bar, colour=colour), text


def _legend(colour: bool) -> Text:
    legend = Text(no_wrap=True, overflow="ellipsis")
    for part in (BUSY, *IDLE.values()):
        legend.append(part.shown(colour), part.style)
        legend.append(f" {part.name.replace('_', ' ')}  ", DIM)
    return legend


# ---- the devices of an edge


UPSTREAM_LEAST, UPSTREAM_MOST = 12, 40  # columns of a name
TITLES = ("state", "answered", "in flight", "saturation", "round trip", "")  # the last ones give way first


def upstream_table(upstreams: Sequence[Upstream], width: int, room: int) -> Table:
    """The upstreams in ``room`` rows below the head. Those that do not fit are counted."""
    table = Table.grid(padding=(0, 2))
    name = min(UPSTREAM_MOST, max(UPSTREAM_LEAST, width // 3))
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
