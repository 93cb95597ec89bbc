"""The runner: turns, figures of a run, ratios with their intervals, and what of a claim is decided."""

from __future__ import annotations

import math
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench.result_file import Row
from bench.runner import Bench, Claim, Ratio, Run, Subject, apart, figures, ratio


def test_a_ratio_is_one_of_medians_with_an_interval_from_rounds() -> None:
    # Three rounds: log ratios log 2, log 2, log 4; t for 2 degrees of freedom is 4.303.
    found = ratio([20, 200, 40], [10, 100, 10])
    assert found.value == 4
    middle, deviation = math.log(2) * 4 / 3, math.log(2) / math.sqrt(3)
    half = 4.3027 * deviation / math.sqrt(3)
    assert found.interval == pytest.approx((math.exp(middle - half), math.exp(middle + half)), rel=1e-3)
    assert ratio([3], [2]) == Ratio(1.5, None)
    assert str(ratio([3], [2])) == "one round: no interval"
    # A machine that slows down in a round slows both down.
    assert ratio([20, 2], [10, 1]).interval == pytest.approx((2, 2))


ROUNDS = {"a": [1.0, 2.0, 6.0], "b": [1.0, 1.0, 4.0]}
AWAY: dict[str, Any] = {"subject": "a", "baseline": "b", "combine": lambda a, b: a["rate"] - b["rate"]}


@pytest.mark.parametrize(
    ("claim", "measured", "interval"),
    [
        (Claim("x", "", "a"), 2, None),
        (Claim("x", "", "a", of=max, scale=10), 60, None),
        (Claim("x", "", "a", spread=True, scale=10), 20, (30 - 65.73, 30 + 65.73)),
        (Claim("x", "", **AWAY), 1, (1 - 2.484, 1 + 2.484)),
        (apart("x", "b", "a", 5), 100 / 3, (-35.47, 91.02)),
    ],
)
def test_a_figure_of_rounds(claim: Claim, measured: float, interval: tuple[float, float] | None) -> None:
    subjects = {name: Subject(name, dict, runs=[{"rate": r} for r in rates]) for name, rates in ROUNDS.items()}
    row = claim.row(subjects)
    assert row.measured == pytest.approx(measured)
    assert row.interval == (pytest.approx(interval, rel=1e-3) if interval else None)


@pytest.mark.parametrize(
    ("measured", "interval", "at_most", "verdict", "accepted"),
    [
        (0.8, None, False, "yes", True),
        (0.8, (0.71, 0.95), False, "yes", True),
        (0.95, (0.91, 0.99), False, "goal", True),
        (0.8, (0.6, 0.95), False, "inconclusive", None),
        (0.6, (0.5, 0.69), False, "NO", False),
        (None, None, False, "NO", False),
        (0.6, (0.5, 0.69), True, "goal", True),
        (0.8, (0.6, 0.95), True, "inconclusive", None),
        (0.8, (0.75, 0.95), True, "NO", False),
    ],
)
def test_a_row_is_as_sure_as_its_interval(
    measured: float | None, interval: tuple[float, float] | None, at_most: bool, verdict: str, accepted: bool | None
) -> None:
    goal = 0.9 if not at_most else 0.7
    row = Row("x", measured, "", 0.7, goal, at_most, interval=interval)
    assert (row.verdict, row.accepted) == (verdict, accepted)


def test_subjects_take_turns_and_each_begins_a_round(tmp_path: Path) -> None:
    order: list[str] = []

    def load(name: str) -> Run:
        order.append(name)
        return {"rate": float(len(order))}

    with ExitStack() as stack:
        bench = Bench(tmp_path, 2, 1.0, stack)
        claim = Claim("a over b", "×", "a", "b", 2, note="of both")
        bench.measure([Subject(name, lambda name=name: load(name)) for name in "ab"], [claim])  # type: ignore[misc]
    assert order == ["a", "b", "b", "a"]
    assert bench.points == [{"name": "a", "rate": [1, 4]}, {"name": "b", "rate": [2, 3]}]
    [row] = bench.rows
    assert (row.name, row.measured, row.accepted) == ("a over b", 1.0, None)
    assert row.note.startswith("2.5 and 2.5; ") and row.note.endswith("; of both")


def test_cpu_time_of_a_process_is_one_of_an_answer() -> None:
    subject = Subject("x", lambda: {"answers": 10.0}, os.getpid())
    subject.measure()
    [run] = subject.runs
    roles = [us for figure, us in run.items() if figure.endswith("_us") and figure not in ("cpu_us", "kernel_us")]
    assert run["cpu_us"] == sum(roles) >= 0 and run["kernel_us"] >= 0


@pytest.mark.parametrize(
    ("runs", "accept", "note"),
    [
        ([{"rate": 3.0}], 1, ""),
        ([{"rate": 3.0, "generator_bound": 1.0}], 1, "loadgen was the limit in 1 runs"),
        ([{"rate": 3.0, "not_valid": 1.0}, {"rate": 3.0, "not_valid": 0.0}], None, "1 open-loop runs were not VALID"),
    ],
)
def test_nothing_is_asked_of_an_open_loop_that_is_not_valid(runs: list[Run], accept: float | None, note: str) -> None:
    row = Claim("x", "/s", "x", accept=1).row({"x": Subject("x", dict, runs=runs)})
    assert (row.accept, row.note) == (accept, note)


@pytest.mark.parametrize(("loop", "flag"), [("open", "not_valid"), ("closed", "generator_bound")])
def test_figures_of_a_run_of_loadgen(loop: str, flag: str) -> None:
    times = {"p50": 1.0, "p99": 2.0, "mean": 1.5}
    found: dict[str, Any] = {f"{kind}_us": times for kind in ("service_time", "response_time", "own_lateness")}
    found |= {"loop": loop, "verdict": "INVALID", "rate": 5.0, "status_with_warmup": {"OK": 8, "UNAVAILABLE": 2}}
    run = figures(found, items=64)
    assert (run["rate"], run["answers"], run["failed"], run[flag]) == (320, 640, 2, 1)
    assert run["response_p99_us"] == 2 and run["service_mean_us"] == 1.5
