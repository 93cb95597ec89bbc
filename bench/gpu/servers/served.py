"""Servers under load, by the product's own bench: points with duty cycle, idle reasons, stages, CPU and GPM."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.gpu.run import Run
from bench.gpu.servers import limits
from bench.gpu.servers.observations import by_second, clocks, refusals, refused, start_stages, trend
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.pinning import Pinning
from fastqps.bench.measure.target import Server, Settings, Target
from fastqps.bench.measure.workload import Payloads
from fastqps.bench.results.point import INVALID, UNSTABLE, Point
from fastqps.bench.results.result import BenchError, Result
from fastqps.host import machine

KEPT_UP = 0.99  # of the offered rate: as many Poisson arrivals as a few seconds may have
SHARES = (0.92, 0.8, 0.65, 0.5, 0.35)  # of the peak, in search of a rate within a limit of p99


SETTLE_S = 2.0  # of load in front of the first point with other limits: a server captures graphs that its steps want
FAILED_MOST = 0.001  # share of the calls that is not worth a word


class Served:
    """A context manager: servers of one model, started as settings ask for them. ``threads``: the generator's.

    A server starts with ``base``. Lanes, running sequences, items and asynchronous steps that ``base`` holds are the
    most of them: points with fewer run on the same server (``limits``). Points with other settings start another one.
    ``slow``: a request takes a good part of a second, so shorter points would be of beginnings and ends.
    """

    def __init__(
        self, run: Run, base: Settings, payloads: Payloads, threads: int | None = None, *, slow: bool = False
    ) -> None:
        self._run, self._base = run, dict(base)
        self._probe_s, self._warm_s = (4.0, 2.0) if slow else (1.5, 1.0)
        self._stack = contextlib.ExitStack()
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fastqps-gpu-")))
        self._target = self._stack.enter_context(Target(base))
        cpus = machine.allowed_cpus()
        self.threads = max(1, min(threads or len(cpus) // 4, len(cpus) - 1))
        self.cores = len(cpus) - self.threads
        self._payloads = payloads
        self._contexts: dict[tuple[int, int], Context] = {}
        self._last: tuple[Settings, Sequence[int]] | None = None
        self._pid: int | None = None  # of the server that runs
        self.start_s, self.stages = 0.0, ""  # of its start, and the longest of its dispatchers' stages
        self._limits: limits.Limits = {}  # it runs with these
        self._settled: list[limits.Limits] = []  # it was measured with these

    def measure(
        self, settings: Settings, in_flight: int | None = None, *, rate: float | None = None,
        seconds: float | None = None, repetitions: int = 1, threads: int | None = None,
    ) -> Point:  # fmt: skip
        """A closed loop of so many calls, or an open one of this rate; the median of ``repetitions``."""
        seconds = seconds or self._run.seconds
        context = self._context(threads or self.threads, repetitions)
        start, wanted = limits.split(self._base, settings)
        self._last = start, context.pinning.server
        self._prepare(start, wanted)
        warm = min(self._warm_s, seconds / 2)
        if wanted not in self._settled:
            self._settled.append(wanted)
            warm += 0.0 if self._run.dry else SETTLE_S
        load = LoadSpec(
            in_flight=in_flight or 1, duration_s=seconds, warmup_s=warm, connections=64 if in_flight else 32
        )
        load = load.at_rate(rate, streams=1024) if rate else load
        began_s = time.monotonic()
        point = self._measure(context, start, load)
        first, *others = point.devices or [{"device": self._run.device, "duty_cycle": point.duty_cycle}]
        devices = [{**first, "clocks": self._run.gpu.between(began_s + warm, time.monotonic())}, *others]
        return dataclasses.replace(point, settings=dict(settings), devices=devices)

    def peak(self, settings: Settings, levels: Sequence[int]) -> tuple[Point, int]:
        """The best of short closed loops, and its calls in flight; more are tried only while they bring more."""
        best, at = None, levels[0]
        for level in levels:
            point = self.measure(settings, level, seconds=min(self._probe_s, self._run.seconds))
            self._run.say(f"{describe(settings)}, {level} in flight: {point.rate:,.0f}/s ({point.verdict})")
            if best and point.rate < 1.05 * best.rate:
                break
            best, at = point, level
        assert best
        return best, at

    def within(self, settings: Settings, peak: float, p99_us: float) -> tuple[Point | None, list[dict[str, Any]]]:
        """The highest of some rates below the peak at which all is answered within the limit, in an open loop; and all
        that were tried. Calls that the generator sent late were answered later for it: a limit that holds all the same
        holds."""
        tried: list[dict[str, Any]] = []
        for part in SHARES[:1] if self._run.dry else SHARES:
            if not self._run.enough(2 + 2 * self._run.seconds, f"an open loop of {part * peak:,.0f}/s or less"):
                break
            point = self.measure(settings, rate=part * peak, repetitions=1)
            tried.append(brief(point))
            self._run.say(
                f"{part * peak:,.0f}/s offered: {point.rate:,.0f}/s, p99 {point.p99_us or 0:,.0f} µs ({point.verdict})"
            )
            kept_up = point.verdict != UNSTABLE and point.rate >= KEPT_UP * part * peak and not point.error_ratio
            if kept_up and point.p99_us and point.p99_us <= p99_us:
                return point, tried
        return None, tried

    @property
    def address(self) -> str:
        """HOST:PORT of the server that was measured last; of one with ``base`` where none was."""
        if self._last is None:
            self._last = self._base, self._context(self.threads, 1).pinning.server
            self._prepare(*limits.split(self._base, {}))
        return self._use(*self._last).address

    def close(self) -> None:
        """Ends the server."""
        self._stack.close()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepare(self, start: Settings, wanted: limits.Limits) -> None:
        """A server that was started with ``start`` and runs with ``wanted``."""
        assert self._last is not None
        server = self._use(*self._last)
        if server.pid != self._pid:
            self._run.count_start()
            self.start_s, self.stages = server.ready_after_s, start_stages(server.admin)
            self._pid, self._limits, self._settled = server.pid, limits.split(start, {})[1], []
        if wanted != self._limits:
            self._post(server, wanted)
            self._limits = wanted

    def _use(self, start: Settings, cpus: Sequence[int]) -> Server:
        return self._target.use(start, cpus)

    def _post(self, server: Server, wanted: limits.Limits) -> None:
        limits.post(server.admin, wanted)

    def _measure(self, context: Context, start: Settings, load: LoadSpec) -> Point:
        return context.measure(start, load)

    def _context(self, threads: int, repetitions: int) -> Context:
        key = threads, repetitions
        if key not in self._contexts:
            cpus = machine.allowed_cpus()
            pins = Pinning(cpus[:-threads], cpus[-threads:])
            self._contexts[key] = Context(
                argparse.Namespace(), self._target, self._payloads, LoadSpec(in_flight=1), None, pins, threads,
                repetitions, self._folder, _Silent(), Result("gpu-check"),
            )  # fmt: skip
        return self._contexts[key]


class _Silent:
    """Progress that nobody watches."""

    def expect(self, points: int) -> None: ...
    def begin(self, name: str, duration_s: float) -> None: ...
    def tick(self, elapsed_s: float, now: str) -> None: ...
    def end(self, point: Point) -> None: ...
    def say(self, line: str) -> None: ...


def open_loop(point: Point) -> str:
    """Its p99, for people, and how late the generator was where that is in it."""
    late = (point.lateness_us.get("p99") or 0.0) / 1000
    told = f"p99 {(point.p99_us or 0) / 1000:,.1f} ms, open loop"
    return told + (f" with a generator that was {late:.1f} ms late" if point.verdict == INVALID else "")


def describe(settings: Settings) -> str:
    """For people."""
    return ", ".join(f"{key} {value}" for key, value in settings.items()) or "defaults"


def brief(point: Point) -> dict[str, Any]:
    """A point without what is long: histograms, spectra, timelines."""
    found = point.as_json()
    for key in ("spectrum", "timeline", "histograms", "generator"):
        found.pop(key, None)
    return found | {"by_second": [round(rate) for rate in by_second(point)]}


def answered(point: Point) -> Point:
    """The point. ``BenchError`` where calls failed, or all were refused: its rate would be of nothing.

    Where some were refused, the rate is that of the answered ones, and ``bound_by`` names their share.
    """
    if point.error_ratio - refused(point) > FAILED_MOST or not point.rate:
        raise BenchError(f"{100 * point.error_ratio:.1f} % of the calls failed: {point.status} {point.items_status}")
    return point


def bound_by(point: Point, floor: str = "", ceiling: float | None = None) -> str:
    """What limits a point, from what was measured of it; each figure is named.

    Refused calls and a rising rate are named first. Then, in this order: the generator where it says so itself; the
    device where it is busy 95 % of the time; the transport where the rate is 80 % of ``ceiling``, the null device's;
    else the host, by its busiest role and the device's commonest reason for idling. ``floor`` says how much of the
    device's time is needed at least.
    """
    told = [text for text in (refusals(point), trend(point)) if text]
    busy = point.duty_cycle
    if point.verdict == INVALID:
        told.append("the load generator (INVALID): " + "; ".join(point.reasons)[:120])
    elif busy is not None and busy >= 0.95:
        told.append("the device")
    elif ceiling and point.rate >= 0.8 * ceiling:
        told.append("the transport")
    else:
        told.append("the host")
    if busy is not None:
        told.append(f"device busy {100 * busy:.1f} %")
    if point.idle_reasons:
        reason, share = max(point.idle_reasons.items(), key=lambda item: item[1])
        told.append(f"idle for {reason} {100 * share:.1f} %")
    if ceiling:
        told.append(f"{100 * point.rate / ceiling:.0f} % of the transport's ceiling")
    if point.server_cpu:
        roles = {role: cores for role, cores in point.server_cpu.items() if cores >= 0.05}
        told.append("cores: " + ", ".join(f"{role} {cores:.1f}" for role, cores in roles.items()))
    if point.batch and point.batch.get("items"):
        told.append(f"batch {point.batch['items']:.0f} items")
    gpu = next((d for d in point.devices or [] if d.get("sm_utilization") is not None), None)
    if gpu:
        told.append(
            f"SM {100 * gpu['sm_utilization']:.0f} %, tensor {100 * (gpu.get('tensor_utilization') or 0):.0f} %"
        )
    return "; ".join(filter(None, [*told, clocks(point), floor]))
