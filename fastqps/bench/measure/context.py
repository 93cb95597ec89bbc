"""The context of a mode: it measures the points that the mode asks for."""

from __future__ import annotations

import argparse
import dataclasses
import time
from functools import partial
from pathlib import Path
from typing import Any

from fastqps.bench.measure import server_side
from fastqps.bench.measure.generator import run_generator
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.pinning import Pinning
from fastqps.bench.measure.server_side import Looks
from fastqps.bench.measure.slo import Slo, format_us, goodput
from fastqps.bench.measure.target import Server, Settings, Target
from fastqps.bench.measure.workload import Payloads
from fastqps.bench.results.point import FAILED, INVALID, UNSTABLE, Point, with_samples_only
from fastqps.bench.results.result import BenchError, Result, ServerGone
from fastqps.bench.statistics.intervals import p99_interval_us, rate_interval
from fastqps.host.machine import now_utc
from fastqps.telemetry.metrics.gpm import Gpm


class Progress:
    """Tells whoever waits (``report.terminal.RunProgress``); this one says nothing."""

    def expect(self, points: int) -> None:
        """So many more points, as far as is known now."""

    def begin(self, name: str, duration_s: float) -> None:
        """A point starts, and should take so long, its warm-up included."""

    def tick(self, elapsed_s: float, now: str) -> None:
        """The point that runs: for how long, and what it shows at the moment."""

    def end(self, point: Point) -> None:
        """A point is done."""

    def say(self, line: str) -> None:
        """Something else happens: a server starts, a search narrows."""


@dataclasses.dataclass
class Context:
    """``options``: the mode's own flags among them. ``load``: what the flags say, to be varied with ``at_rate`` and
    ``closed``. ``result``: to be filled; ``measure`` appends to its points."""

    options: argparse.Namespace
    target: Target
    payloads: Payloads
    load: LoadSpec
    slo: Slo | None
    pinning: Pinning
    load_threads: int
    folder: Path
    progress: Progress
    result: Result

    def __post_init__(self) -> None:
        self._gpm = Gpm.open() if self.target.local else None
        self.aside: list[Point] = []  # measured, but not kept among the result's points

    def measure(self, settings: Settings, load: LoadSpec, *, name: str = "", keep: bool = True) -> Point:
        """Measures ``load`` on a server with ``settings`` (beside those of the target), started or used again.

        ``keep``: append it to the result's points. Ctrl-C keeps what was measured, marked as interrupted, and goes on
        as KeyboardInterrupt; a server that goes away does so as ``ServerGone``. Raises ``BenchError`` where nothing
        could be measured.
        """
        point = self._measure_once(settings, load, name or default_name(load))
        (self.result.points if keep else self.aside).append(point)  # at once: Ctrl-C may come at any time
        self.progress.end(point)
        if point.interrupted:
            raise KeyboardInterrupt
        if point.verdict == FAILED:
            raise ServerGone(point.reasons[0])
        return point

    def measured(self) -> list[Point]:
        """All points so far, those that the mode did not keep included."""
        return self.result.points + self.aside  # so that the index of the best one holds

    def server(self, settings: Settings | None = None) -> Server:
        """The server with these settings, for requests that are not part of the load."""
        return self.target.use(settings or {}, self.pinning.server)

    def note(self, text: str) -> None:
        """A sentence for the result and for whoever waits."""
        self.result.notes.append(text)
        self.progress.say(text)

    def _measure_once(self, settings: Settings, load: LoadSpec, name: str) -> Point:
        server = self.server(settings)
        point = Point(name, dict(settings), load.describe(self.payloads.call), started=now_utc())
        looks = Looks(partial(server_side.look, server.admin, server.pid, self._gpm))
        self.progress.begin(name, load.warmup_s + load.duration_s)
        flags = ["--target", server.address, *self.target.access.generator_flags, *load.flags(self.payloads)]
        flags += ["--threads", str(self.load_threads)]
        watch = _Watch(self.progress, looks, load)
        try:
            run = run_generator(flags, cpus=self.pinning.load, on_line=watch.line)
        except BenchError:
            if not (gone := self.target.gone(server, ask=True)):
                raise
            point.verdict, point.reasons = FAILED, [gone]
            return point
        finally:
            taken = looks.finish()
        fill_in(point, run.results, self.slo)
        point.interrupted = run.interrupted
        if not point.interrupted and (gone := self.target.gone(server, ask=_in_doubt(point))):
            point.verdict, point.reasons = FAILED, [gone]
        if taken:
            server_side.describe(point, *taken)
            if self._gpm:
                server_side.describe_gpus(point, self._gpm, *taken)
        return point


class _Watch:
    """Reads the generator's progress: when measuring begins and ends, and how it goes."""

    def __init__(self, progress: Progress, looks: Looks, load: LoadSpec) -> None:
        self._progress, self._looks, self._load = progress, looks, load
        self._began_s = time.monotonic()

    def line(self, event: dict[str, Any]) -> None:
        if event.get("phase") == "start":
            begin_ns, end_ns = event["measure_from_monotonic_ns"], event["measure_until_monotonic_ns"]
            self._began_s = begin_ns * 1e-9 - self._load.warmup_s
            self._looks.between(begin_ns, end_ns)
            return
        p99_us, length_s = event.get("p99_us"), event.get("length_s") or 1.0
        now = f"{event.get('ok', 0) / length_s:,.0f}/s" + (f"  p99 {format_us(p99_us)}" if p99_us else "")
        self._progress.tick(time.monotonic() - self._began_s, now)


def _in_doubt(point: Point) -> bool:
    """True if the server, not the generator, may have been the reason for what the generator says."""
    ok = [second.get("ok", 0) for second in point.timeline]
    return point.verdict == INVALID or not point.status.get("OK") or not all(ok[-2:])


def default_name(load: LoadSpec) -> str:
    """The default name of a point."""
    if load.in_flight is not None:
        return f"{load.in_flight} in flight"
    if load.rate is not None:
        return f"{load.rate:,.0f}/s"
    name = Path(load.trace).name
    return name if load.speedup == 1 else f"{name}, {load.speedup:g} × as fast"


# ---- what the generator saw


_COPIED = ("reasons", "spectrum", "timeline", "status")
_SUMMARIES = ("response_time_us", "service_time_us", "lateness_us")
_OPTIONAL = {"first_message_us": "first_message_us", "refusal_time_us": "failed_time_us"}
_GENERATOR = ("cpu", "connections", "waiting_max", "verified", "environment", "seeds", "command", "own_lateness_us")


def fill_in(point: Point, results: dict[str, Any], slo: Slo | None) -> None:
    """Fills in what the generator saw. What it does not say stays unknown."""
    point.verdict = results.get("verdict", point.verdict)
    status = results.get("status") or {}
    if status and not status.get("OK"):
        point.verdict = UNSTABLE  # one answer had come before: this load is more than the server bears
    for name in _COPIED:
        setattr(point, name, results.get(name) or getattr(point, name))
    for name in _SUMMARIES:
        setattr(point, name, with_samples_only(results.get(name) or {}))
    for name, key in _OPTIONAL.items():
        if (results.get(key) or {}).get("count"):
            setattr(point, name, with_samples_only(results[key]))
    point.offered_rate = results.get("offered_rate")
    point.achieved_rate = results.get("achieved_rate")
    point.rate = float(results.get("rate") or 0.0)
    point.p50_us, point.p99_us = point.response_time_us.get("p50"), point.response_time_us.get("p99")
    point.p99_interval_us = p99_interval_us(point)
    point.rate_interval = rate_interval([s["ok"] / (s.get("length_s") or 1.0) for s in point.timeline if "ok" in s])
    point.goodput = goodput(point, slo) if slo else None
    cpu = results.get("cpu") or {}
    point.generator = {"cpu_fraction": cpu.get("fraction"), **{k: results[k] for k in _GENERATOR if k in results}}
