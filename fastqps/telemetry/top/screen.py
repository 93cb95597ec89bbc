"""The view as a terminal shows it. Everything follows from the width and height that there are at the moment."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fastqps.telemetry.live.spread import Spread
from fastqps.telemetry.live.view import Model, View
from fastqps.telemetry.top.cells import DIM, NONE, bar_of, count, listed, percent, single, span, uptime
from fastqps.telemetry.top.device_time import device_time, rows, upstream_table
from fastqps.telemetry.top.watch import Ticks, Watch

FRAME = 2  # rows of a panel's border
LATE_S = 3.0  # the head warns if the newest numbers are older
NAME_MOST = 16
DRAWS_PER_S = 4  # how soon it follows a new size, and updates how long a server has been silent


class Screen:
    """Renders the state of ``watch`` on demand. ``live``: within the terminal's height."""

    def __init__(self, watch: Watch, interval_s: float, *, live: bool) -> None:
        self._watch = watch
        self._interval_s = interval_s
        self._live = live
        self._address = watch.admin.removeprefix("http://").rstrip("/")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Head, then the panels from the most to the least urgent."""
        view = self._watch.view
        yield self._head(view)
        if view is None:
            yield Text(f"measuring for {self._interval_s:g} s …", DIM)
            return
        yield from panels(view, console, options, options.size.height if self._live else None)

    def _head(self, view: View | None) -> RenderableType:
        row = Table.grid(expand=True, padding=(0, 2))
        row.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        row.add_column(no_wrap=True, justify="right", overflow="ellipsis")
        title = Text.assemble(("fastqps", "bold"))
        if view:
            title.append(f" {view.version}  {self._address}  up {uptime(view.up_s)}  {view.device}")
        else:
            title.append(f"  {self._address}")
        row.add_row(title, self._state())
        return row

    def _state(self) -> Text:
        watch = self._watch
        if watch.trouble:
            return Text(f"{watch.trouble} (numbers {watch.age_s:.0f} s old)", "bold red")
        if watch.age_s > self._interval_s + LATE_S:
            return Text(f"no answer for {watch.age_s:.0f} s", "bold yellow")
        if watch.restarted:
            return Text("restarted", "bold yellow")
        return Text("Ctrl-C ends" if self._live else "", DIM)


def panels(view: View, console: Console, options: ConsoleOptions, height: int | None) -> RenderResult:
    """From the most to the least urgent. Where the terminal is low, stages lose first, then dispatchers. The devices of
    an edge are its upstreams."""
    colour = not console.no_color and console.color_system is not None
    width = options.max_width - 4
    traffic, models = _traffic(view, bar_of(width // 4), colour), _models(view.models, width)
    devices = view.upstreams or view.dispatchers
    used = 1 + FRAME + traffic.row_count + FRAME + 1 + models.row_count + FRAME + (1 if view.upstreams else rows(view))
    room = len(devices) if height is None else max(1, height - used)
    yield _panel(traffic, "traffic")
    yield _panel(models, "models")
    if view.upstreams:
        yield _panel(upstream_table(view.upstreams, width, room), "upstreams")
    else:
        yield _panel(device_time(view, width, colour, room), "device time")
    used += min(len(devices), room)
    for columns in (1, 2):
        stages = _stages(view.stages, columns, width, colour)
        if height is None or stages.row_count + FRAME <= height - used:
            yield _panel(stages, "stages, on average")
            return


def _panel(content: RenderableType, title: str) -> Panel:
    return Panel(content, title=title, title_align="left", border_style=DIM)


def _traffic(view: View, bar: int, colour: bool) -> Table:
    grid = _grid(9)
    codes = {"OK": 0.0, **view.codes}
    rate = Text.assemble((f"{count(sum(codes.values()))} items/s", "bold"))
    rate.append(f"   {listed(codes, always='OK')}", "red" if len(codes) > 1 else "green")
    grid.add_row("rate", rate)
    latency = Text.assemble((f"p50 {span(view.latency.p50)}   p99 {span(view.latency.p99)}", "bold"))
    latency.append(f"   {count(view.calls)} calls/s", DIM)
    grid.add_row("latency", latency)
    held = Text(f"{count(view.in_flight)} on average")
    held.append(f"   now {view.running:,} running, {view.slots_used:,} of {view.slots:,} slots", DIM)
    grid.add_row("in flight", held)
    if load := view.load:
        full = load["saturation"] >= 1
        line = single(load["saturation"], bar, "red" if full else "green", colour=colour)
        line.append(f" {percent(load['saturation'])}", "bold red" if full else "bold")
        known = f" of {count(load['capacity'])} requests/s" if load["capacity"] is not None else ""
        room = f"; room for {count(load['headroom'])}/s more" if load["headroom"] is not None else ""
        line.append(f"{known} in 10 s, by {load['cause'].replace('_', ' ')}{room}", DIM)
        grid.add_row("saturation", line)
    if lost := listed({**view.refused, "expired": view.expired}):
        grid.add_row("refused", Text(lost, "red"))
    if any(view.restarts.values()):
        grid.add_row("restarts", Text(", ".join(f"{n} × {role}" for role, n in view.restarts.items() if n), "yellow"))
    return grid


def _models(models: Sequence[Model], width: int) -> Table:
    name_width = min(NAME_MOST, max((len(model.name) for model in models), default=0))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=DIM)
    table.add_column("", no_wrap=True, overflow="ellipsis", min_width=name_width, max_width=NAME_MOST)
    width -= name_width + 2
    columns = [c for c in COLUMNS if not c.of_generators or any(model.cache_slots for model in models)]
    while sum(column.width for column in columns) > width and len(columns) > 2:
        columns.pop()
    for column in columns:
        table.add_column(column.title, justify="right", no_wrap=True, min_width=column.width - 2)
    for model in models:
        table.add_row(Text(model.name, "bold"), *(column.cell(model) for column in columns))
    return table


class _Column(NamedTuple):
    """A column of the models' table. ``width`` includes the gap behind it."""

    title: str
    width: int
    of_generators: bool
    cell: Callable[[Model], Text]


COLUMNS = (  # the last ones give way first
    _Column("waiting", 9, False, lambda m: Text(f"{m.waiting:,}", "yellow" if m.waiting else "")),
    _Column("oldest", 9, False, lambda m: Text(span(m.oldest or None), "bold yellow" if m.oldest > 1e6 else "")),
    _Column("high, normal, low", 19, False, lambda m: Text(_by_class(m))),
    _Column("items/batch", 13, False, lambda m: Text(count(m.batch_items))),
    _Column("tokens/s", 10, True, lambda m: Text(count(m.tokens_made))),
    _Column("cache slots", 16, True, lambda m: Text(_cache(m))),
    _Column("fill", 13, False, lambda m: Text(percent(m.fill))),
    _Column("tokens/batch", 14, False, lambda m: Text(count(m.batch_tokens))),
)


def _by_class(model: Model) -> str:
    """The waiting items of each class. Suspects count as high: they run first."""
    by = model.waiting_by_class
    counts = (by.get("high", 0) + by.get("suspect", 0), by.get("normal", 0), by.get("low", 0))
    return ", ".join(f"{count:,}" for count in counts) if any(counts) else NONE


def _cache(model: Model) -> str:
    return f"{model.cache_used:,} of {model.cache_slots:,}" if model.cache_slots else NONE


def _stages(stages: Mapping[str, Spread], columns: int, width: int, colour: bool) -> Table:
    """The stages in one column with their tails, or in two columns, which take half the height."""
    table = Table.grid(padding=(0, 1))
    bar = bar_of(width // columns - (38 if columns == 1 else 21))
    longest = max((spent.mean or 0.0 for spent in stages.values()), default=0.0) or 1.0
    rows = -(-len(stages) // columns)
    for _ in range(columns):
        table.add_column(no_wrap=True, min_width=8)
        table.add_column(no_wrap=True, justify="right", min_width=7)
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for row in range(rows):
        cells: list[RenderableType] = []
        for name, spent in [*stages.items()][row::rows]:
            line = single((spent.mean or 0.0) / longest, bar, "white", colour=colour)
            cells += [name, Text(span(spent.mean)), line]
        tail = spent.p99 if columns == 1 else None
        table.add_row(*cells, Text(f"p99 {span(tail)}" if tail else "", DIM))
    return table


def _grid(width: int) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True, min_width=width, style=DIM)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    return grid


def show(watch: Watch, interval_s: float, console: Console) -> None:
    """Draws until Ctrl-C or SIGTERM, as ``KeyboardInterrupt``; the terminal is then as it was before."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    screen = Screen(watch, interval_s, live=True)
    ticks = Ticks(interval_s)
    with Live(screen, console=console, screen=True, refresh_per_second=DRAWS_PER_S, vertical_overflow="crop"):
        while True:
            ticks.wait()
            watch.look()


def show_once(watch: Watch, interval_s: float, console: Console) -> None:
    """One look, all of it. Raises ``FetchError`` if it fails."""
    ticks = Ticks(interval_s)
    while watch.view is None:  # a restart in between takes another look
        ticks.wait()
        watch.look(raising=True)
    console.print(Screen(watch, interval_s, live=False))
