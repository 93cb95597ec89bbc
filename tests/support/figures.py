"""The fixture ``perf`` of tests marked ``perf``: it records figures and holds each against its bounds.

A run lists its figures at its end and appends them to build/perf.jsonl as one line of JSON.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import pytest
from paths import ROOT

from fastqps.bench.results.environment import Others, commit, environment

LOG = ROOT / "build/perf.jsonl"
PAUSE_S = 0.001


class Unmeasured(Exception):
    """A try gave no figure: the load generator had too little of a CPU, or all took too long."""


@dataclass(frozen=True)
class Figure:
    """A measured value. ``None``: it has no such bound."""

    name: str
    value: float
    at_least: float | None
    at_most: float | None
    unit: str = "ratio"

    def excess(self) -> float:
        """How far it lies outside its bounds; 0: within."""
        if math.isnan(self.value):
            return math.inf
        below = 0.0 if self.at_least is None else self.at_least - self.value
        above = 0.0 if self.at_most is None else self.value - self.at_most
        return max(0.0, below, above)

    def row(self) -> tuple[str, ...]:
        bounds = [
            f"{sign} {bound:g}" for sign, bound in (("≥", self.at_least), ("≤", self.at_most)) if bound is not None
        ]
        return self.name, f"{self.value:.4g}", ", ".join(bounds), self.unit, "no" if self.excess() else "yes"


class Run:
    """The figures of one run of pytest."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self.others = Others()

    def table(self) -> list[str]:
        rows = [("figure", "value", "bound", "unit", "within"), *(figure.row() for figure in self.figures)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]

    def line(self) -> str:
        found = [asdict(figure) | {"within": not figure.excess()} for figure in self.figures]
        made = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit()}
        return json.dumps(made | {"machine": environment(), "others": round(self.others.share(), 3), "figures": found})


RUN = pytest.StashKey[Run]()


class Perf:
    """Records figures of one test. A figure outside its bounds fails the test."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __call__(
        self,
        name: str,
        value: float | Callable[[], float],
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        unit: str = "ratio",
        tries: int = 4,
    ) -> None:
        """Records a value; a function is called until its value is within the bounds. If no try is, the nearest counts:
        other programs on the machine can only spoil a figure."""
        assert at_least is not None or at_most is not None, "a figure needs a bound"
        found: list[Figure] = []
        spoiled: list[Unmeasured] = []
        while len(found) + len(spoiled) < (tries if callable(value) else 1):
            try:
                found.append(Figure(name, value() if callable(value) else value, at_least, at_most, unit))
            except Unmeasured as error:
                spoiled.append(error)
                continue
            if not found[-1].excess():
                break
        assert found, f"{name}: no try gave a figure: {spoiled}"
        nearest = min(found, key=Figure.excess)
        self._run.figures.append(nearest)
        assert not nearest.excess(), " ".join(nearest.row()[:4])


def p99_s(call: Callable[[], None], seconds: float) -> float:
    """Of calls one after the other, a millisecond between them."""
    times: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        call()
        times.append(time.monotonic() - start)
        time.sleep(PAUSE_S)
    return sorted(times)[len(times) * 99 // 100]


@pytest.fixture
def perf(pytestconfig: pytest.Config) -> Perf:
    """``perf(name, value, at_most=2)``, or ``perf(name, measure, at_least=0.9)`` for the best of several tries."""
    return Perf(pytestconfig.stash.setdefault(RUN, Run()))


@pytest.hookimpl(tryfirst=True)  # before any is deselected
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """No figure decides in the gate, and no test without figures hides from it."""
    for item in items:
        if ("perf" in getattr(item, "fixturenames", ())) != any(item.iter_markers("perf")):
            raise pytest.UsageError(
                f"{item.nodeid}: a test has the mark perf if, and only if, it uses the fixture perf"
            )


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> Iterator[None]:
    yield
    run = config.stash.get(RUN, None)
    if run is None:
        return
    terminalreporter.section(f"figures; other programs took {run.others.share():.0%} of the CPUs")
    for row in run.table():
        terminalreporter.write_line(row)
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("a") as file:
        file.write(run.line() + "\n")
