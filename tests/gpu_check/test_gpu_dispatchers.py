"""The GPU suite's comparison of N dispatchers with one, on servers that are formulas."""

from __future__ import annotations

import dataclasses
import itertools
import os
from importlib import import_module
from typing import Any

import fake_cuda
import pytest
from dry_steps import measured

from bench.gpu.servers.modelled import ModelledServer
from bench.gpu.targets import TARGETS
from fastqps.bench.results.point import Point

pytestmark = pytest.mark.compute


@pytest.fixture
def dispatchers(dry: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The step's module, on formulas with a Python that takes 150 µs to prepare a step of 8, and less of fewer."""
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    monkeypatch.setattr("bench.prepare.python_us", lambda running, new: 150 * running / 8)
    return import_module("bench.gpu.steps.dispatchers")


def test_n_dispatchers_are_compared_with_one(dry: Any, dispatchers: Any) -> None:
    """A step of 8 takes 180 µs, of 4 140, of 2 120; the host 20 µs more than Python."""
    run = dry("dispatchers:smollm2-135m")
    found = measured(run)
    a, b2, b4, c, d = 8 / 350, 4 / 140, 2 / 120, 8 / 180, 4 / 140
    ratios = {name.rpartition("(")[2].rstrip(")"): row["measured"] for name, row in found.items() if "÷" in name}
    assert ratios == pytest.approx({"B2 ÷ A": b2 / a, "B4 ÷ A": b4 / a, "A ÷ C": a / c})
    assert found[TARGETS["dispatchers"].name]["measured"] == pytest.approx(d / c)
    busy = found["smollm2-135m, A: device busy"]
    assert busy["measured"] == pytest.approx(100 * 180 / 350)
    assert "the host is the limit; a step is prepared in 150 µs more" in busy["bound_by"]
    raw = run.results.read()["raw"][run.step]
    assert {arm: len(points) for arm, points in raw["turns"].items()} == {
        "A": 2, "C, 1 lane": 2, "C, 2 lanes": 1, "B2": 1, "D": 2, "B4": 1
    }  # fmt: skip
    on_each_lane = {arm: points[0]["settings"]["max-running"] for arm, points in raw["turns"].items()}
    assert on_each_lane == {"A": 8, "C, 1 lane": 8, "C, 2 lanes": 4, "B2": 4, "D": 4, "B4": 2}, "8 run in all"
    assert run.results.read()["steps"][run.step]["starts"] == 3
    assert "FASTQPS_TEST_PREPARE" not in os.environ


@pytest.mark.parametrize(
    ("drift", "said"), [(0.0, "twice the spread of the turns is 0.0 %: a win"), (0.2, "%: inconclusive")]
)
def test_a_win_is_beyond_the_spread_of_the_turns(
    dry: Any, dispatchers: Any, monkeypatch: pytest.MonkeyPatch, drift: float, said: str
) -> None:
    """Each point of a machine that drifts is slower than the one before."""
    formula, points = ModelledServer._measure, itertools.count()

    def measure(self: ModelledServer, *words: Any) -> Point:
        point = formula(self, *words)
        return dataclasses.replace(point, rate=point.rate * (1 - drift) ** next(points))

    monkeypatch.setattr(ModelledServer, "_measure", measure)
    found = measured(dry("dispatchers:smollm2-135m"))
    [row] = [row for name, row in found.items() if "B2 ÷ A" in name]
    assert said in row["bound_by"]
    assert (row["interval"][0] > 1) == (drift == 0)


def test_without_mps_one_dispatcher_is_measured_alone(
    dry: Any, dispatchers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = dry("dispatchers:smollm2-135m")
    assert dispatchers._has_mps(run)
    monkeypatch.setattr(dispatchers, "_has_mps", lambda run: False)
    assert [name for name in measured(run) if "÷" in name] == [
        "smollm2-135m: one dispatcher, a host as slow as Python over ours (A ÷ C)"
    ]
    assert run.results.read()["steps"][run.step]["left_out"] == [
        "dispatchers under MPS: nvidia-cuda-mps-control is not here"
    ]


def test_what_an_arm_has_no_time_for_is_named(dry: Any, dispatchers: Any) -> None:
    """One server is needed, and A and a C on it."""
    run = dry("dispatchers:smollm2-135m", limit_s=10.0)
    measured(run)
    left_out = run.results.read()["steps"][run.step]["left_out"]
    assert [what.partition(":")[0] for what in left_out] == [f"smollm2-135m, {arm}" for arm in ("B2", "D", "D", "B4")]
