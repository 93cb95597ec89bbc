"""Measures the subjects of a part in turn, and makes the rows of its table from their medians.

A *subject* is a load on a server, another program, or a function in this process: whatever answers. A *claim* is a row:
a figure of a subject, or its ratio to that of a baseline, and what is asked of it.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bench.load import PREDICT, Load, h2load, loadgen
from bench.result_file import Row, number
from fastqps.bench.measure.processes import cpu_by_role
from fastqps.bench.measure.workload import write_messages
from fastqps.bench.results.result import BenchError
from fastqps.bench.statistics.intervals import mean_interval
from fastqps.process.server_process import ServerProcess
from fastqps.telemetry.live.remote import fetch_counts

if TYPE_CHECKING:
    from google.protobuf.message import Message

T = TypeVar("T")
Run = dict[str, float]  # the figures of one run, by name
Measure = Callable[[], Run]


def two_cpus() -> tuple[int, int]:
    """One CPU for the server, another one for the load. ``OSError`` where this process may use one only."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise OSError("the bench needs two CPUs: one for the server, one for the load")
    return allowed[0], allowed[1]


SERVER_CPU, LOAD_CPU = two_cpus()
ONE_OF_EACH = ("--model", "minilm", "--frontdoors", "1", "--dispatchers", "1")  # flags of most servers


@dataclass
class Subject:
    """``pid``: the process tree whose CPU time per answer is a figure of each run, ``cpu_us``, which needs ``answers``.
    Beside it stands the part of each role, such as ``frontdoor_us``."""

    name: str
    load: Measure
    pid: int | None = None
    runs: list[Run] = field(default_factory=list)

    def measure(self) -> None:
        """One run."""
        before = cpu_by_role(self.pid) if self.pid is not None else {}
        run = self.load()
        if self.pid is not None:
            spent_s = {role: s - before.get(role, 0.0) for role, s in cpu_by_role(self.pid).items()}
            by_role = {f"{role}_us": 1e6 * s / run["answers"] for role, s in spent_s.items()}
            run = run | by_role | {"cpu_us": sum(us for role, us in by_role.items() if role != "kernel_us")}
        self.runs.append(run)

    def values(self, figure: str = "rate") -> list[float]:
        """The figure of each run that has it."""
        return [run[figure] for run in self.runs if figure in run]

    def median(self, figure: str = "rate") -> float:
        """The median over all runs."""
        return statistics.median(self.values(figure))

    def count(self, figure: str) -> int:
        """The sum over all runs."""
        return round(sum(self.values(figure)))

    def as_json(self) -> dict[str, Any]:
        """The point in the result file."""
        figures = dict.fromkeys(figure for run in self.runs for figure in run)
        return {"name": self.name} | {figure: self.values(figure) for figure in figures}


Subjects = Mapping[str, Subject]


@dataclass(frozen=True)
class Claim:
    """A row of ``figure`` of a subject, times ``scale``; with ``baseline`` of its ratio to the baseline's, or of what
    ``combine`` makes of a run of each.

    ``of``: makes one figure of the rounds'; a ratio is always one of medians. ``spread``: the row has the 95 % interval
    of the rounds' mean. ``note``: text, or a function of all subjects. A ratio also notes what it is made of. Where a
    run of an open loop was not VALID, nothing is asked: its figures prove nothing.
    """

    name: str
    unit: str
    subject: str
    baseline: str = ""
    accept: float | None = None
    goal: float | None = None
    at_most: bool = False
    figure: str = "rate"
    scale: float = 1.0
    note: str | Callable[[Subjects], str] = ""
    combine: Callable[[Run, Run], float] | None = None
    of: Callable[[Sequence[float]], float] = statistics.median
    spread: bool = False

    def row(self, subjects: Subjects) -> Row:
        """The row of what was measured."""
        used = [subjects[name] for name in (self.subject, self.baseline) if name]
        if self.baseline and not self.combine:
            relative = ratio(*(subject.values(self.figure) for subject in used))
        else:
            values = used[0].values(self.figure)
            if self.combine:
                values = [self.combine(*runs) for runs in zip(*(subject.runs for subject in used), strict=True)]
            ends = mean_interval(values) if self.spread or self.combine else None
            relative = Ratio(self.of(values), (ends[0], ends[1]) if ends else None)
        note = ""
        if self.baseline:
            note = f"{' and '.join(number(subject.median(self.figure)) for subject in used)}; {relative}"
        notes = [note, self.note if isinstance(self.note, str) else self.note(subjects)]
        bound, not_valid = (
            sum(subject.count(figure) for subject in used) for figure in ("generator_bound", "not_valid")
        )
        notes += [f"loadgen was the limit in {bound} runs"] if bound else []
        notes += [f"{not_valid} open-loop runs were not VALID"] if not_valid else []
        interval = (self.scale * relative.interval[0], self.scale * relative.interval[1]) if relative.interval else None
        asked, note = (None, None) if not_valid else (self.accept, self.goal), "; ".join(filter(None, notes))
        return Row(self.name, self.scale * relative.value, self.unit, *asked, self.at_most, note, interval)


@dataclass(frozen=True)
class Ratio:
    """A ratio, or another figure of rounds. ``interval``: 95 %, of a ratio that of the mean log ratio of a round; None
    where there was one round only, or none is wanted."""

    value: float
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        return f"{self.interval[0]:.3g} to {self.interval[1]:.3g}" if self.interval else "one round: no interval"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """The ratio of the medians of figures that were measured in turn. A disturbance of both in a round, such as a
    slower machine, does not widen the interval."""
    logs = mean_interval([math.log(a / b) for a, b in zip(ours, theirs, strict=True)])
    value = statistics.median(ours) / statistics.median(theirs)
    return Ratio(value, (math.exp(logs[0]), math.exp(logs[1])) if logs else None)


def apart(name: str, ours: str, theirs: str, accept: float, note: str = "") -> Claim:
    """How far two rates are apart in a round, in percent, and at most may be."""
    distance: Callable[[Run, Run], float] = lambda a, b: 100 * abs(a["rate"] / b["rate"] - 1)  # noqa: E731
    return Claim(name, "%", ours, theirs, accept, at_most=True, combine=distance, note=note)


@dataclass
class Bench:
    """One run of a part: ``folder`` takes its files, ``stack`` ends its servers; ``rows``, ``points`` and ``facts``, of
    the environment, grow."""

    folder: Path
    repetitions: int
    seconds: float  # of each run
    stack: ExitStack
    rows: list[Row] = field(default_factory=list)
    points: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    _files: int = 0

    def start(self, process: AbstractContextManager[T]) -> T:
        """Starts a program that ends with the part."""
        return self.stack.enter_context(process)

    def server(self, *flags: str, cpus: Sequence[int] = (SERVER_CPU,)) -> ServerProcess:
        """Starts a server."""
        return self.start(ServerProcess(*flags, cpus=cpus))

    def write(self, messages: Iterable[Message]) -> Path:
        """Writes payloads for loadgen."""
        self._files += 1
        return write_messages(self.folder / f"payloads-{self._files}", messages)

    def profile(self, name: str, launch_us: float = 0.0, **step: float) -> Path:
        """Writes a modelled device for ``--device sim:PATH``. ``step``: what its steps take, as ``fixed_us``."""
        path = self.folder / f"{name}.toml"
        head = [f'name = "{name}"', 'status = "estimated"', 'source = "chosen"', 'task = "embed"', "[step]"]
        steps = [f"{key} = {value}" for key, value in {"per_token_us": 0.0, **step}.items()]
        path.write_text("\n".join([*head, *steps, "[host]", f"launch_us = {launch_us}"]) + "\n")
        return path

    def measure(self, subjects: Iterable[Subject], claims: Iterable[Claim] = ()) -> Subjects:
        """Each subject in turn, ``repetitions`` times, beginning with another one in each round; then the rows."""
        order = list(subjects)
        for number_ in range(self.repetitions):
            first = number_ % len(order)
            for subject in order[first:] + order[:first]:
                subject.measure()
        self.points += [subject.as_json() for subject in order]
        by_name = {subject.name: subject for subject in order}
        self.rows += [claim.row(by_name) for claim in claims]
        return by_name

    def grpc(
        self, address: str, payloads: Path, load: Load, method: str = PREDICT, *, items: int = 1,
        rate: float | None = None, cpu: int | None = LOAD_CPU, samples: Path | None = None, may_fail: bool = False,
    ) -> Measure:  # fmt: skip
        """Runs of loadgen, whose rate is of items. Open loop with ``rate``."""
        timed = replace(load, seconds=self.seconds)

        def run() -> Run:
            results = loadgen(address, method, payloads, timed, cpu, rate=rate, samples=samples, may_fail=may_fail)
            return figures(results, items)

        return run

    def h2load(self, address: str, body: Path, load: Load, scheme: str = "http") -> Measure:
        """Runs of h2load. Its answers include those of the warm-up, nearly."""
        timed = replace(load, seconds=self.seconds)

        def run() -> Run:
            rate = h2load(address, PREDICT, body, timed, LOAD_CPU, scheme=scheme)
            return {"rate": rate, "answers": rate * (timed.seconds + timed.warmup_s)}

        return run

    def calls(self, call: Callable[[], int]) -> Measure:
        """Calls in this process for ``seconds``, at least one; each returns how many answers it gave."""

        def run() -> Run:
            began, done = time.perf_counter(), 0
            while not done or time.perf_counter() - began < self.seconds:
                done += call()
            return {"rate": done / (time.perf_counter() - began)}

        return run


def figures(results: Mapping[str, Any], items: int = 1) -> Run:
    """The figures of a run of loadgen."""
    run = {"rate": items * results["rate"], "answers": float(items * sum(results["status_with_warmup"].values()))}
    for key in ("service", "response"):
        run |= {f"{key}_{which}_us": results[f"{key}_time_us"][which] for which in ("p50", "p99", "mean")}
    run["own_lateness_p99_us"] = results["own_lateness_us"]["p99"]
    run["failed"] = sum(count for status, count in results["status_with_warmup"].items() if status != "OK")
    open_loop = results["loop"] == "open"
    return run | {"not_valid" if open_loop else "generator_bound": float(results["verdict"] != "VALID")}


def counted(server: ServerProcess, load: Measure) -> Measure:
    """A load with the answers that the server itself counted. ``BenchError`` if one was not OK."""

    def run() -> Run:
        before = fetch_counts(server.admin)["codes"]
        results = load()
        codes = {code: count - before[code] for code, count in fetch_counts(server.admin)["codes"].items()}
        if strange := {code for code, count in codes.items() if count} - {"OK"}:
            raise BenchError(f"the server answered with {', '.join(sorted(strange))}")
        return results | {"answers": codes["OK"]}

    return run
