"""N dispatchers on one GPU under MPS against one: with a host as slow as Python, and with ours.

The arms, with the same work running in all of an arm's lanes and dispatchers, and the same calls in flight:

* A: one dispatcher, one lane, synchronous steps, each prepared as slowly as the Python reference prepares it here;
* B: two and four of A under MPS;
* C: one dispatcher as it is served, with the better number of lanes;
* D: two of C under MPS, over one copy of the weights.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from bench import gather, prepare
from bench.gpu.models.payloads import decoder_payloads
from bench.gpu.plan import START_S
from bench.gpu.run import Run
from bench.gpu.servers.modelled import open_server
from bench.gpu.servers.observations import clocks, refusals, trend
from bench.gpu.servers.preparation import Preparation
from bench.gpu.servers.served import Served, answered, brief
from bench.gpu.steps import decoder, encoder
from fastqps.bench.measure.workload import Payloads
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import BenchError
from fastqps.errors import ConfigError
from fastqps.supervisor.gpu.mps import PROGRAM, find_program

SLOW_HOST = 85.0  # % of the time that the device is busy at most, where the host is the limit


@dataclass(frozen=True)
class Arm:
    """``slow``: synchronous steps of a host as slow as Python."""

    name: str
    dispatchers: int
    lanes: int
    slow: bool


A, B2, B4 = (Arm(name, count, 1, True) for name, count in (("A", 1), ("B2", 2), ("B4", 4)))
C1, C2, D = Arm("C, 1 lane", 1, 1, False), Arm("C, 2 lanes", 1, 2, False), Arm("D", 2, 1, False)
RATIOS = {  # what each compares
    "B2 ÷ A": "2 dispatchers under MPS over one, a host as slow as Python",
    "B4 ÷ A": "4 dispatchers under MPS over one, a host as slow as Python",
    "D ÷ C": "2 dispatchers under MPS over a tuned one",
    "A ÷ C": "one dispatcher, a host as slow as Python over ours",
}


@dataclass(frozen=True)
class Subject:
    """A model and its load. ``total``: sequences or items that run in all, divided by the setting ``divided``.

    ``python_us``: what the Python reference takes to prepare a step of so many. ``point_s``: about what a point takes.
    """

    name: str
    target: str
    base: dict[str, Any]
    payloads: Payloads
    divided: str
    total: int
    in_flight: int
    python_us: Callable[[int], float]
    seconds: float
    point_s: float
    slow: bool


def measure(run: Run) -> None:
    """A, C and their rivals by turns: the first turns of A and C are needed, all else as the time allows."""
    with TemporaryDirectory() as folder, Preparation(folder) as preparation:
        subject = (_encoder if run.shape(run.argument).kind == "encoder" else _decoder)(run, folder)
        with _Arms(run, subject, preparation) as arms:
            arms.turn(A)
            one = max((C1, C2), key=lambda arm: arms.turn(arm) or 0.0)
            if not arms.tell(one):
                raise BenchError(f"{subject.name}: no point of one dispatcher to compare with")
            if not _has_mps(run):
                run.leave_out(f"dispatchers under MPS: {PROGRAM} is not here")
            else:
                for arm in (B2, D, D, one, A):  # C D D C, and A B2 A: what drifts meanwhile hits both alike
                    arms.turn(arm)
                    arms.tell(one)
                arms.close()  # one daemon at a time
                arms.turn(B4)
            arms.tell(one)


def _has_mps(run: Run) -> bool:
    """A dry run needs none."""
    return run.dry or find_program() is not None


def _decoder(run: Run, folder: str) -> Subject:
    total = 8 if run.dry else 2048
    payloads = decoder_payloads(Path(folder) / "prompts", decoder.prompts(run, run.argument), decoder.tokens_out(run))
    base = decoder.settings_of(run, run.argument, total)
    del base["dispatchers"], base["max-running"]
    return Subject(
        run.argument, "dispatchers", base, payloads, "max-running", total, 2 * total,
        lambda running: prepare.python_us(running, max(1, running // decoder.tokens_out(run))),
        run.seconds if run.dry else decoder.SECONDS, decoder.POINT_S, True,
    )  # fmt: skip


def _encoder(run: Run, folder: str) -> Subject:
    total = 8 if run.dry else 512
    base = encoder.settings_of(run) | {"max-batch-tokens": max(512, total * encoder.TOKENS)}
    base.pop("max-batch-items", None)
    return Subject(
        run.argument, "dispatchers-encoder", base, encoder.encoder_texts(run, folder), "max-batch-items", total,
        16 if run.dry else 4096, gather.python_us, run.seconds, 2 + run.seconds, False,
    )  # fmt: skip


class _Arms:
    """The servers that run, one for each number of dispatchers, and the turns of each arm."""

    def __init__(self, run: Run, subject: Subject, preparation: Preparation) -> None:
        self._run, self._subject, self._preparation = run, subject, preparation
        self._stack = contextlib.ExitStack()
        self._servers: dict[int, Served] = {}
        self._points: dict[str, list[Point]] = {}
        self._python_us: dict[str, float] = {}

    def turn(self, arm: Arm) -> float | None:
        """Measures it once more; the rate, or None where it could not be. Raises for A, without which nothing is."""
        start_s = 0.0 if arm.dispatchers in self._servers else START_S[arm.dispatchers]
        what = f"{self._subject.name}, {arm.name}"
        if self._points and not self._run.enough(start_s + self._subject.point_s, what):
            return None
        try:
            point = self._measure(arm)
        except (BenchError, ConfigError) as error:
            if not self._points:
                raise
            self._run.leave_out(f"{what}: {error}")
            return None
        self._points.setdefault(arm.name, []).append(point)
        turns = {name: [brief(one) for one in points] for name, points in self._points.items()}
        self._run.raw("turns", turns)
        self._run.say(f"{what}: {self._state(arm.name)}")
        return point.rate

    def tell(self, one: Arm) -> bool:
        """The ratios that are known, and whether the spread of the turns leaves them open. ``one``: the better C.

        False: nothing was measured of that one.
        """
        if A.name in self._points:
            busy = fmean(100 * (point.duty_cycle or 0.0) for point in self._points[A.name])
            reached = "the host is the limit" if busy < SLOW_HOST else f"not below {SLOW_HOST:g} %: nothing to hide"
            note = f"{reached}; a step is prepared in {self._python_us[A.name]:,.0f} µs more; {self._state(A.name)}"
            self._run.figure(f"{self._subject.name}, A: device busy", busy, "%", note)
        spread = self._spread()
        names = {"C": one.name}
        for ratio, what in RATIOS.items():
            over, under = (names.get(name, name) for name in ratio.split(" ÷ "))
            if over in self._points and under in self._points:
                self._ratio(ratio, what, over, under, spread)
        return one.name in self._points

    def close(self) -> None:
        """Ends the servers that run."""
        self._servers.clear()
        self._stack.close()

    def _measure(self, arm: Arm) -> Point:
        """With its part of the work on each lane."""
        subject, part = self._subject, max(1, self._subject.total // (arm.dispatchers * arm.lanes))
        if arm.slow and arm.name not in self._python_us:
            self._python_us[arm.name] = subject.python_us(part)
            self._run.raw("Python, µs a step", self._python_us)
        self._preparation.set(self._python_us[arm.name] if arm.slow else 0)
        settings = {"lanes": arm.lanes, subject.divided: part, "async-steps": not arm.slow}
        return answered(self._served(arm).measure(settings, subject.in_flight, seconds=subject.seconds))

    def _served(self, arm: Arm) -> Served:
        """Its server starts with the most that any arm with as many dispatchers runs."""
        if arm.dispatchers not in self._servers:
            many = {"mps": "on", "share-weights": True} if arm.dispatchers > 1 else {"mps": "off"}
            most = {"lanes": 1 if arm.dispatchers > 1 else C2.lanes, "async-steps": True}
            base = self._subject.base | {"dispatchers": arm.dispatchers} | many | most
            base[self._subject.divided] = max(1, self._subject.total // arm.dispatchers)
            served = open_server(self._run, base, self._subject.payloads, slow=self._subject.slow)
            self._servers[arm.dispatchers] = self._stack.enter_context(served)
        return self._servers[arm.dispatchers]

    def _ratio(self, ratio: str, what: str, over: str, under: str, spread: float | None) -> None:
        found = self._rate(over) / self._rate(under)
        if spread is None:
            verdict, interval = "inconclusive: no arm had two turns", None
        else:
            interval = found * (1 - 2 * spread), found * (1 + 2 * spread)
            verdict = f"twice the spread of the turns is {200 * spread:.1f} %: {_verdict(found, spread)}"
        note = f"{verdict}; {self._state(over)}; {self._state(under)}"
        if ratio == "D ÷ C":
            self._run.target(self._subject.target, found, note, interval)
        else:
            self._run.figure(f"{self._subject.name}: {what} ({ratio})", found, "×", note, interval)

    def _rate(self, name: str) -> float:
        return fmean(point.rate for point in self._points[name])

    def _spread(self) -> float | None:
        """The largest, as a share of the mean; None where no arm had two turns."""
        rates = [[point.rate for point in points] for points in self._points.values() if len(points) > 1]
        return max(((max(of) - min(of)) / fmean(of) for of in rates), default=None)

    def _state(self, name: str) -> str:
        points = self._points[name]
        turns = f"{len(points)} turn{'s' if len(points) > 1 else ''}"
        told = [f"{name} {self._rate(name):,.0f}/s ({turns})", refusals(points[-1]), trend(points[-1])]
        if points[-1].duty_cycle is not None:
            told.append(f"device busy {100 * points[-1].duty_cycle:.1f} %")
        return ", ".join(filter(None, [*told, clocks(points[-1])]))

    def __enter__(self) -> _Arms:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _verdict(ratio: float, spread: float) -> str:
    if abs(ratio - 1) <= 2 * spread:
        return "inconclusive"
    return "a win" if ratio > 1 else "a loss"
