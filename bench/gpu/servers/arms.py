"""The arms of a step, measured in turns, and the claims that are made of their figures after every turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

from bench.gpu.plan import START_S
from bench.gpu.run import Run
from bench.gpu.servers.modelled import open_server
from bench.gpu.servers.observations import answered, bound_by, brief, times, within
from bench.gpu.servers.served import Served
from bench.result_file import number
from bench.runner import ratio
from fastqps.bench.measure.target import Settings
from fastqps.bench.measure.workload import Payloads
from fastqps.bench.results.point import Point

SHARES = (0.92, 0.8, 0.65, 0.5, 0.35)  # of the peak, in search of a rate within a limit of p99


@dataclass(frozen=True)
class Arm:
    """A load on a server. ``server``: what it starts with, beside what all arms of the step have in common.

    ``limits``: what it runs with. The server starts with the most that any arm on it has.
    """

    name: str
    limits: Settings
    in_flight: int
    server: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A row: a figure of the arm ``over``, or its ratio to that of ``under``. A name with * at its end stands for the
    fastest of the arms that begin so.

    ``target``: its key in TARGETS, which has name and unit then. ``p99_us``: of arms within this limit only.
    """

    over: str
    under: str = ""
    target: str = ""
    name: str = ""
    unit: str = "×"
    value: Callable[[Point], float] = lambda point: point.rate
    p99_us: float = math.inf


class Arms:
    """A context manager: servers of one step that run until its end, and the points of each arm."""

    def __init__(self, run: Run, subject: str, unit: str, claims: Sequence[Claim] = ()) -> None:
        self._run, self._subject, self._unit, self._claims = run, subject, unit, claims
        self._points: dict[str, list[Point]] = {}
        self._servers: dict[tuple[tuple[str, Any], ...], Served] = {}
        self._stack = ExitStack()
        self.floor: Callable[[float], str] = lambda rate: ""  # what of the device's time a rate needs at least
        self.ceiling: float | None = None  # of the transport

    def take(self, name: str, measure: Callable[[], Point], needs_s: float) -> Point | None:
        """One more turn of an arm. None: no time was left, or it failed; both are named. The first has its time."""
        what = f"{self._subject}, {name}"
        if self._points and not self._run.enough(needs_s, what):
            return None
        point = self._run.attempt(what, lambda: answered(measure()))
        if point is not None:
            points = self._points.setdefault(name, [])
            points.append(point)
            self._run.raw(name, {"turns": [brief(each) for each in points]})
            self._run.figure(what, self.rate(name), self._unit, self._note(name))
            for claim in self._claims:
                self._tell(claim)
        return point

    def serve(self, arms: Sequence[Arm], base: Settings, payloads: Payloads, *, slow: bool = False) -> None:
        """Prepares servers for these arms, each of which starts at its first turn."""
        settings_by_server: dict[tuple[tuple[str, Any], ...], dict[str, Any]] = {}
        for arm in arms:
            settings = settings_by_server.setdefault(_key(arm), {**base, **arm.server})
            settings |= {key: max(value, settings.get(key, value)) for key, value in arm.limits.items()}
        for key, settings in settings_by_server.items():
            self._servers[key] = open_server(self._run, settings, payloads, slow=slow)
            self._stack.enter_context(self._servers[key])

    def turn(self, arm: Arm, rate: float | None = None) -> Point | None:
        """One more turn of an arm on its server, or an open loop of this rate with its settings."""
        served = self._servers[_key(arm)]
        start_s = 0.0 if served.started else START_S[arm.server.get("dispatchers", 1)]
        measure = partial(served.measure, arm.limits, arm.in_flight, rate=rate)
        name = f"{'open loop of ' + number(rate) + '/s at ' if rate else ''}{arm.name}"
        return self.take(name, measure, start_s + served.point_s)

    def served(self, arm: Arm) -> Served:
        """Its server."""
        return self._servers[_key(arm)]

    def search(self, arm: Arm, p99_us: float) -> None:
        """Open loops below the rate of the arm, until one holds the limit."""
        peak = self.rate(arm.name)
        for share in SHARES[:1] if self._run.dry else SHARES:
            point = self.turn(arm, share * peak)
            if point is None or within(point, p99_us):
                return

    def fastest(self, name: str, p99_us: float = math.inf) -> str:
        """The arm of a claim; "" where none was measured, or none is within the limit."""
        names = [each for each in self._points if _stands_for(name, each)]
        held = [each for each in names if p99_us == math.inf or within(self._points[each][-1], p99_us)]
        return max(held, key=self.rate, default="")

    def rate(self, name: str) -> float:
        """The median of its turns."""
        return median(point.rate for point in self._points[name])

    def __enter__(self) -> Arms:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _note(self, name: str) -> str:
        points = self._points[name]
        turns = f"{len(points)} turn{'s' if len(points) > 1 else ''}"
        bound = bound_by(points[-1], self.floor(points[-1].rate), self.ceiling)
        return ", ".join(filter(None, [turns, times(points[-1]), f"bound by {bound}"]))

    def _tell(self, claim: Claim) -> None:
        """The row, as far as its arms were measured."""
        over, under = (self.fastest(name, claim.p99_us) for name in (claim.over, claim.under))
        value, note, interval = 0.0, f"no rate that was tried held p99 < {claim.p99_us / 1000:g} ms", None
        if over and under:
            turns = [[claim.value(point) for point in self._points[name]] for name in (over, under)]
            together = min(map(len, turns))
            relative = ratio(*(values[:together] for values in turns))
            value, interval = relative.value, relative.interval
            note = f"{_verdict(interval)}; {over} {self.rate(over):,.0f}/s, {self._note(over)}; "
            note += f"{under} {self.rate(under):,.0f}/s, {self._note(under)}"
        elif over and not claim.under:
            value = median(claim.value(point) for point in self._points[over])
            note = f"{over}: {self.rate(over):,.0f}/s, {self._note(over)}"
        elif claim.under or not any(_stands_for(claim.over, name) for name in self._points):
            return
        if claim.target:
            self._run.target(claim.target, value, note, interval)
        else:
            self._run.figure(f"{self._subject}: {claim.name}", value, claim.unit, note, interval)


def _key(arm: Arm) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(arm.server.items()))


def _stands_for(name: str, arm: str) -> bool:
    return arm.startswith(name[:-1]) if name.endswith("*") else arm == name


def _verdict(interval: tuple[float, float] | None) -> str:
    """The interval of a ratio in words: a win, a loss or inconclusive."""
    if interval is None:
        return "one turn: no interval"
    if interval[0] <= 1 <= interval[1]:
        return f"inconclusive: {interval[0]:.3g} to {interval[1]:.3g}"
    return f"a {'win' if interval[0] > 1 else 'loss'}: {interval[0]:.3g} to {interval[1]:.3g}"


def duty(point: Point) -> float:
    """The device's, in percent."""
    return 100 * (point.duty_cycle or 0.0)
