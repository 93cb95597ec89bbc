"""The terminal output of a run: a progress bar on stderr while it measures, then its table and verdict on stdout.

Where nobody watches (a pipe, a file, CI), the bar becomes one plain line for each point, without control codes."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table as RichTable
from rich.text import Text

from fastqps.bench.measure.context import Progress
from fastqps.bench.report import wording
from fastqps.bench.report.points import rate_of, response_us, verdict_of
from fastqps.bench.report.run_facts import labels_of
from fastqps.bench.report.summary import facts_of, severity
from fastqps.bench.report.tables import Table, tables_of
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result

_STYLES = {"good": "bold green", "doubtful": "bold yellow", "bad": "bold red"}
_PLAIN_WIDTH = 200  # of tables that go into a file


class RunProgress(Progress):
    """Shows the progress of a run in points. A context manager; every method is cheap, and none raises for odd values.

    >>> with RunProgress("sweep") as progress:
    ...     progress.expect(10)  # more points; may change later
    ...     progress.begin("1,000/s", 12.0)
    ...     progress.tick(3.0, "998/s  p99 4.1 ms")
    ...     progress.end(point)
    """

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self._console = _console(stream or sys.stderr)
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[now]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
            transient=True,
            refresh_per_second=2,  # more would take CPU time from what is measured
        )
        self._title = wording.one_line(title)
        self._task: TaskID = self._bar.add_task(self._title, total=None, now="")
        self._points_expected = 0
        self._points_done = 0
        self._point_s = 0.0  # how long the point that runs should take

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def expect(self, points: int) -> None:
        self._points_expected = self._points_done + points
        self._update("")

    def begin(self, name: str, duration_s: float) -> None:
        self._point_s = duration_s
        self._points_expected = max(self._points_expected, self._points_done + 1)
        self._update(wording.one_line(name))

    def tick(self, elapsed_s: float, now: str) -> None:
        share = min(1.0, elapsed_s / self._point_s) if self._point_s > 0 else 0.0
        self._update(wording.one_line(now), share)

    def end(self, point: Point) -> None:
        """A point is done: it becomes a line that stays."""
        self._points_done += 1
        done = f"{self._points_done}/{self._points_expected}  " if self._points_expected > 1 else ""
        self._console.print(Text(done).append_text(_point_line(point)), soft_wrap=True)
        self._update("")

    def say(self, line: str) -> None:
        """A line that stays, above the bar: a server starts, a search narrows."""
        self._console.print(Text(wording.one_line(line)), soft_wrap=True)

    def _update(self, now: str, share: float = 0.0) -> None:
        total = self._points_expected or None
        text = f"{self._title} {self._points_done}/{total}" if total else self._title
        self._bar.update(self._task, total=total, completed=self._points_done + share, description=text, now=now)


def print_result(result: Result, stream: TextIO | None = None) -> None:
    """The table of points, notes, and the verdict as the last line."""
    console = _console(stream or sys.stdout)
    for table in tables_of(result):
        console.print(_drawn(table, console.width))
        console.print()
    for label in labels_of(result):
        console.print(Text(f"{label.title}: {label.text}", style="yellow"), soft_wrap=True)
    for note in result.notes:
        console.print(Text(wording.one_line(note)), soft_wrap=True)
    verdict = Text(result.verdict, style=_STYLES[severity(result.verdict)])
    console.print(Text.assemble(verdict, "  ", "  ".join(map(wording.one_line, facts_of(result)))), soft_wrap=True)


_LEFT_OUT = ("offered", "goodput", "p50", "in flight", "expired", "failed", "refused")  # in this order


def _fitting(table: Table, width: int) -> list[int]:
    """The columns without those of least interest, until a line has room for the rest. The page has all of them."""
    kept = [at for at, head in enumerate(table.heads) if head.brief]
    for least in _LEFT_OUT:
        texts = [[table.heads[at].text, *(row.cells[at].text for row in table.rows)] for at in kept]
        if sum(max(map(len, column)) + 2 for column in texts) <= width + 2:
            break
        kept = [at for at in kept if table.heads[at].text != least]
    return kept


def _drawn(table: Table, width: int) -> RichTable:
    kept = _fitting(table, width)
    drawn = RichTable(box=None, pad_edge=False, header_style="bold")
    for at in kept:
        drawn.add_column(Text(table.heads[at].text), justify="left" if table.heads[at].left else "right", no_wrap=True)
    for row in table.rows:
        cells = [Text(row.cells[at].text, style="dim" if row.cells[at].void else "") for at in kept]
        doubt = "" if row.severity in ("", "good") else _STYLES[row.severity].removeprefix("bold ")
        drawn.add_row(*cells, style=doubt or ("bold" if row.best else ""))
    return drawn


def _point_line(point: Point) -> Text:
    """``1,000/s: VALID  998/s answered OK  p99 4.10 ms  duty cycle 83.1 %``."""
    verdict = verdict_of(point)
    facts = [f"{wording.rate(rate_of(point))} answered OK", f"p99 {wording.time(response_us(point, 'p99'))}"]
    if point.duty_cycle is not None:
        facts.append(f"duty cycle {wording.percent(point.duty_cycle)}")
    tail = f"  ({wording.one_line('; '.join(point.reasons))})" if point.reasons else ""
    name = wording.one_line(point.name) or "point"
    return Text.assemble(f"{name}: ", (verdict, _STYLES[severity(verdict)]), "  ", "  ".join(facts), tail)


def _console(stream: TextIO) -> Console:
    """Plain text for what is no terminal, whatever the environment asks for."""
    terminal = stream.isatty()
    return Console(
        file=stream,
        force_terminal=terminal,
        no_color=not terminal or None,
        highlight=False,
        markup=False,
        emoji=False,
        width=None if terminal else _PLAIN_WIDTH,
        legacy_windows=False,
    )
