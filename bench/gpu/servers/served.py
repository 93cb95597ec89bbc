"""A server under load, by the product's own bench: points with duty cycle, idle reasons, stages, CPU and GPM."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.gpu.run import Run
from bench.gpu.servers.observations import start_stages
from fastqps.bench.measure.context import Context, Progress
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.pinning import Pinning
from fastqps.bench.measure.target import Server, Settings, Target
from fastqps.bench.measure.workload import Payloads
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import BenchError, Result
from fastqps.host import machine

SETTLE_S = 2.0  # of load in front of the first point with other limits: a server captures graphs that its steps want

# Settings that a running server can change, with their names in /limits: one start serves many points.
LIMITS = {"lanes": "lanes", "max-running": "running", "max-batch-items": "items"}
ANSWER_S = 10.0
Limits = dict[str, Any]  # by /limits' name


class Served:
    """A context manager: a server of one model, started when it is first measured.

    Lanes, running sequences and items that ``base`` holds are the most of them: points with fewer
    run on the same server (``limits``). ``slow``: a request takes a good part of a second, so shorter points would be
    of beginnings and ends.
    """

    def __init__(self, run: Run, base: Settings, payloads: Payloads, *, slow: bool = False) -> None:
        self._run, self._base = run, dict(base)
        self.seconds = run.seconds if run.dry or not slow else 4.0
        self.point_s = 7.0 if slow else 4.5  # about what a point takes, with warm-up and the answers behind the end
        self._warm_s = min(2.0 if slow else 1.0, self.seconds / 2)
        self._stack = contextlib.ExitStack()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fastqps-gpu-")))
        self._target = self._stack.enter_context(Target(base))
        cpus = machine.allowed_cpus()
        threads = max(1, len(cpus) // 4)
        self._context = Context(
            argparse.Namespace(), self._target, payloads, LoadSpec(in_flight=1), None,
            Pinning(cpus[:-threads], cpus[-threads:]), threads, folder, Progress(), Result("gpu-check"),
        )  # fmt: skip
        self._pid: int | None = None  # of the server that runs
        self.start_s, self.stages = 0.0, ""  # of its start, and the longest of its dispatchers' stages
        self._limits = limits_of(self._base, {})  # it runs with these
        self._settled: list[Limits] = []  # it was measured with these

    def measure(self, settings: Settings, in_flight: int | None = None, *, rate: float | None = None) -> Point:
        """A closed loop of so many calls, or an open one of this rate, with these of its limits."""
        wanted, warm_s = limits_of(self._base, settings), self._warm_s
        self._prepare(wanted)
        if wanted not in self._settled:
            self._settled.append(wanted)
            warm_s += 0.0 if self._run.dry else SETTLE_S
        load = LoadSpec(in_flight=in_flight or 1, duration_s=self.seconds, warmup_s=warm_s, connections=64)
        load = load.at_rate(rate, streams=1024, connections=32) if rate else load
        began_s = time.monotonic()
        point = self._measure(load)
        first, *others = point.devices or [{"device": self._run.device, "duty_cycle": point.duty_cycle}]
        devices = [{**first, "clocks": self._run.gpu.between(began_s + warm_s, time.monotonic())}, *others]
        return dataclasses.replace(point, settings=dict(settings), devices=devices)

    @property
    def started(self) -> bool:
        """It has been measured before."""
        return self._pid is not None

    @property
    def address(self) -> str:
        """HOST:PORT of the server."""
        self._prepare(self._limits)
        return self._use(self._context.pinning.server).address

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _prepare(self, wanted: Limits) -> None:
        """The server runs with ``wanted``."""
        server = self._use(self._context.pinning.server)
        if server.pid != self._pid:
            self._run.say(f"a server has started in {server.ready_after_s:.1f} s")
            self.start_s, self.stages = server.ready_after_s, start_stages(server.admin)
            self._pid, self._limits, self._settled = server.pid, limits_of(self._base, {}), []
        if wanted != self._limits:
            self._post(server, wanted)
            self._limits = wanted

    def _use(self, cpus: Sequence[int]) -> Server:
        return self._target.use({}, cpus)

    def _post(self, server: Server, wanted: Limits) -> None:
        post_limits(server.admin, wanted)

    def _measure(self, load: LoadSpec) -> Point:
        return self._context.measure({}, load)


def limits_of(base: Settings, settings: Settings) -> Limits:
    """The limits of a server that started with ``base``: those of ``LIMITS`` that ``base`` holds.

    ``ValueError`` for settings that it can only start with.
    """
    if strange := [key for key in settings if key not in LIMITS or key not in base]:
        raise ValueError(f"a running server cannot change {', '.join(strange)}")
    return {name: settings.get(key, base[key]) for key, name in LIMITS.items() if key in base}


def post_limits(admin: str, limits: Limits) -> None:
    """Sets them on the server's model. ``BenchError`` where it does not run with just these then."""
    request = urllib.request.Request(f"{admin}/limits", json.dumps(limits).encode(), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            now = json.load(answer)
    except urllib.error.HTTPError as error:
        raise BenchError(f"/limits {limits}: {error.read().decode(errors='replace').strip()}") from None
    except (OSError, ValueError) as error:
        raise BenchError(f"/limits {limits}: {error}") from None
    if other := {key: now.get(key) for key, value in limits.items() if now.get(key) != value}:
        raise BenchError(f"/limits: {limits} were asked for, and the server runs with {other}")
