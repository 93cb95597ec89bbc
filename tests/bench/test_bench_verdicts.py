"""One rule for the verdicts of all modes: each fault is planted in each mode, on servers that are formulas."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from formulas import Asked, Played, prepared

from fastqps.bench import modes
from fastqps.bench.modes import MODES
from fastqps.bench.modes.session import run_to_the_end
from fastqps.bench.report.run_facts import labels_of
from fastqps.bench.report.terminal import print_result
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Outcome, Result, ServerGone
from fastqps.bench.verdict import _WORST_FIRST, ANSWERS_MIN, STEPS_MIN, conclude

pytestmark = pytest.mark.compute

ONE_KNOB = "--try lanes=1 --try max-batch-items=64 --try max-batch-tokens=4096 --try max-batch-delay=0us"
FLAGS = {
    "rate": "--rate 50",
    "sweep": "--rates 40,60",
    "find-max": "--start 50 --slo p50=1s",
    "tune": f"--try dispatchers=1,2 {ONE_KNOB}",
    "breakdown": "--concurrency 1,2",
    "overload": "--capacity 50",
    "soak": "--rate 50 --duration 60s",
}
Plant = Callable[[Point, int], None]  # changes a sound point; by how many have been measured before
Run = Callable[[str, Plant], Played]


def valid(asked: Asked) -> Point:
    """Up to 100/s."""
    rate = min(asked.load.rate or 100.0, 100.0)
    us: dict[str, float | None] = {"mean": 900.0, "p50": 800.0 if rate < 95 else 2e6, "p99": 9000.0, "count": 1e4}
    point = Point(asked.name, rate=rate, offered_rate=asked.load.rate, achieved_rate=asked.load.rate)
    point.status, point.steps, point.response_time_us, point.service_time_us = {"OK": 10_000}, 500.0, us, us
    point.p50_us, point.p99_us = us["p50"], us["p99"]
    point.stages_us = {"device": {"mean": 900.0, "p50": 900.0, "p99": 900.0, "count": 1e4}}
    point.timeline = [{"t_s": k + 1.0, "ok": rate, "p50_us": 800.0, "p99_us": 9000.0} for k in range(60)]
    return point


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a mode to its end, however that is."""

    def to_the_end(name: str, plant: Plant) -> Played:
        def answer(asked: Asked) -> Point:
            plant(point := valid(asked), len(played.asked) - 1)
            return point

        played = prepared(tmp_path, name, answer, FLAGS[name])
        with contextlib.suppress(ServerGone):
            run_to_the_end(played)
        print_result(played.result)
        return played

    return to_the_end


def sound(point: Point, before: int) -> None: ...


def late(point: Point, before: int) -> None:
    point.verdict, point.reasons = "INVALID", ["generator-bound"]


def few_answers(point: Point, before: int) -> None:
    point.status = {"OK": ANSWERS_MIN - 1}
    point.response_time_us = {"p50": None, "p99": None, "count": 1.0}


def no_answer(point: Point, before: int) -> None:
    point.verdict, point.reasons, point.rate, point.status = "INVALID", ["no call was due"], 0.0, {}
    point.response_time_us, point.p50_us, point.p99_us = {}, None, None


def few_steps(point: Point, before: int) -> None:
    point.steps = STEPS_MIN - 1


def test_every_mode_is_planted() -> None:
    assert {*FLAGS} == {*MODES}


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize(
    ("plant", "verdict", "says"),
    [
        (sound, "VALID", ""),
        (late, "INVALID", "generator"),
        (few_answers, "INCONCLUSIVE", "answers"),
        (no_answer, "INCONCLUSIVE", "answer"),
        (few_steps, "INCONCLUSIVE", f"fewer than {STEPS_MIN} steps decide nothing"),
    ],
)
def test_a_verdict_is_as_good_as_the_points_it_rests_on(
    name: str, plant: Plant, verdict: str, says: str, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(name, plant).result
    assert result.verdict == verdict, result.notes
    assert says in " ".join(result.notes)
    assert "Busy machine" in [label.title for label in labels_of(result)]
    assert "Busy machine: other programs took 40.0 %" in capsys.readouterr().out


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("before", [0, 1, 2, 5])
def test_a_run_that_ends_early_leaves_all_that_was_measured(name: str, before: int, run: Run) -> None:
    whole = len(run(name, sound).asked)

    def interrupted(point: Point, runs: int) -> None:
        point.interrupted = runs == before

    def killed(point: Point, runs: int) -> None:
        if runs == before:
            point.verdict, point.reasons = "FAILED", ["the server ended with exit code -9"]

    for plant, verdict in ((interrupted, "INTERRUPTED"), (killed, "FAILED")):
        found = run(name, plant)
        result = found.result
        if before >= whole:
            assert result.verdict == "VALID"
        elif name == "tune" and plant is killed and before > 0:
            assert result.verdict == "INCONCLUSIVE" and "exit code -9" in " ".join(result.notes)  # it goes on
        else:
            assert result.verdict == verdict and "had been measured" in result.notes[-1]
            assert sum(max(1, len(point.repetitions)) for point in result.points) == before + 1 == len(found.asked)
            assert "Interrupted" in [label.title for label in labels_of(result)]


def test_the_best_point_stays_the_best_when_the_rest_is_interrupted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """find-max knows its rate before it measures lower ones; the peak that it began with was set aside."""

    def interrupted(point: Point, runs: int) -> None:
        point.interrupted = point.name.startswith("0.5 ×")

    monkeypatch.setitem(FLAGS, "find-max", "--slo p50=1s")
    result = run("find-max", interrupted).result
    assert result.verdict == "INTERRUPTED" and result.best_point and result.best_point.name.endswith(", again")
    assert "peak, 64 in flight" in [point.name for point in result.points]


def test_one_late_point_among_others_is_enough() -> None:
    """In the order of what is worse; the points that a mode's answer does not rest on are not asked."""
    for words, found, verdict in (
        ("VALID INVALID", "VALID", "INVALID"),
        ("INVALID FAILED UNSTABLE", "SLO_NOT_MET", "FAILED"),
        ("UNSTABLE", "SLO_NOT_MET", "SLO_NOT_MET"),
        ("UNSTABLE", "INCONCLUSIVE", "UNSTABLE"),
        ("VALID", "INCONCLUSIVE", "INCONCLUSIVE"),
    ):
        points = [Point(word, verdict=word, status={"OK": 100}) for word in words.split()]  # type: ignore[arg-type]
        conclude(result := Result("rate"), points, found)  # type: ignore[arg-type]
        assert result.verdict == verdict
    conclude(result := Result("overload"), [Point("x", verdict="UNSTABLE", status={"OK": 100})])
    assert (result.verdict, result.notes) == ("VALID", [])  # it is what the mode is for
    assert {*_WORST_FIRST, "INTERRUPTED"} == {*get_args(Outcome)}


def test_no_mode_sets_a_verdict_by_itself() -> None:
    for file in Path(modes.__file__).parent.glob("*.py"):
        assert not re.search(r"\bresult\.verdict(, \S+)* = ", file.read_text()), file
