"""Modes of ``fastqps bench`` on servers that are formulas: a function makes up what is measured."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from fastqps.bench.flags import add_common, read_common
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.pinning import Pinning
from fastqps.bench.measure.target import Target
from fastqps.bench.measure.workload import Call, Payloads
from fastqps.bench.modes import mode
from fastqps.bench.results.environment import OTHERS
from fastqps.bench.results.point import INVALID, UNSTABLE, VALID, Point, with_samples_only
from fastqps.bench.results.result import Result

TOLD = {"model": "m", "version": "0123456789ab", "device": "null", "settings": {}}


class Asked(NamedTuple):
    """What a mode wants to be measured."""

    name: str
    settings: dict[str, Any]
    load: LoadSpec


Answer = Callable[[Asked], Point]


class Played(Context):
    """A context whose points ``answer`` makes up. ``asked``: all of them; ``said``, ``left``: what it tells."""

    answer: Answer

    def __post_init__(self) -> None:
        super().__post_init__()
        self.asked: list[Asked] = []
        self.said: list[str] = []
        self.left: list[int] = []
        self.progress = SimpleNamespace(expect=self.left.append, say=self.said.append, end=lambda point: None)  # type: ignore[assignment]

    def _measure_once(self, settings: Any, load: LoadSpec, name: str) -> Point:
        self.asked.append(Asked(name, dict(settings), load))
        point = self.answer(self.asked[-1])
        point.name, point.settings, point.load = name, dict(settings), load.describe(self.payloads.call)
        return point

    def server(self, settings: Any = None) -> Any:
        return SimpleNamespace(pid=None)

    @property
    def loads(self) -> list[LoadSpec]:
        return [asked.load for asked in self.asked]

    @property
    def notes(self) -> str:
        return " ".join(self.result.notes)


def prepared(folder: Path, name: str, answer: Answer, flags: str = "", **base: Any) -> Played:
    """A mode that is about to run with these flags. ``base``: settings of the server that are in no flag."""
    parser = argparse.ArgumentParser()
    add_common(parser)
    mode(name).add_arguments(parser)
    options = parser.parse_args(flags.split())
    common = read_common(options)
    mode(name).check(options, common)
    settings = {} if options.address else {"model": ["minilm"], "device": "null", **common.settings, **base}
    result = Result(name, started="2026-11-20T16:30:00Z", target=dict(TOLD), environment={OTHERS: 0.4})
    result.slo = common.slo.as_json() if common.slo else None
    found = Played(
        options=options,
        target=Target(settings, address=options.address),
        payloads=Payloads(folder / "payloads", Call("predict", "/x/Predict", "unary"), b"", 1),
        load=common.load,
        slo=common.slo,
        pinning=Pinning(server=(0, 1, 2, 3)),
        load_threads=1,
        folder=folder,
        progress=None,  # type: ignore[arg-type]
        result=result,
    )
    found.answer = answer
    return found


def play(folder: Path, name: str, answer: Answer, flags: str = "", **base: Any) -> Played:
    """The same when it has run."""
    found = prepared(folder, name, answer, flags, **base)
    mode(name).run(found)
    return found


class Queue:
    """An M/M/1 queue of ``capacity`` that sheds what is too much, and a generator that can do ``generator``. ``change``
    gets each point of an open loop."""

    def __init__(
        self, capacity: float = 10_000.0, generator: float = 1e9, change: Callable[[Point], None] = lambda point: None
    ) -> None:
        self.capacity, self.generator, self._change = capacity, generator, change

    def __call__(self, asked: Asked) -> Point:
        load = asked.load
        if load.in_flight is not None:
            rate = self.capacity * load.in_flight / (load.in_flight + 10)
            return Point("", rate=rate, status={"OK": 1000})
        rate = load.rate or 0.0
        ok = min(rate, 0.98 * self.capacity)
        mean_us = 1e6 / max(self.capacity - rate, 0.02 * self.capacity)
        count = ok * load.duration_s
        known = with_samples_only(
            {"mean": mean_us, "p50": mean_us * math.log(2), "p99": mean_us * math.log(100), "count": count}
        )
        point = Point(
            asked.name,
            verdict=INVALID if rate > self.generator else UNSTABLE if rate > 3 * self.capacity else VALID,
            offered_rate=rate,
            achieved_rate=min(rate, self.generator),
            rate=ok,
            status={"OK": round(count), "RESOURCE_EXHAUSTED": round((rate - ok) * load.duration_s)},
            p50_us=known["p50"],
            p99_us=known["p99"],
            response_time_us=known,
            refusal_time_us={"p50": 40.0, "p99": 90.0, "count": 1.0} if rate > ok else None,
            timeline=_timeline(load),
        )
        self._change(point)
        return point


def _timeline(load: LoadSpec) -> list[dict[str, Any]]:
    """Steps come back within two seconds of calm."""
    rows = []
    for k in range(round(load.duration_s)):
        calm = not load.arrivals.startswith("step") or k >= load.duration_s / 2 + 2
        rows.append({"t_s": k + 1.0, "ok": load.rate, "p50_us": 100.0, "p99_us": 500.0 if calm else 90_000.0})
    return rows
