"""The arms of the GPU suite's steps, and the claims that are made of them, on servers that are formulas."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

import fake_cuda
import pytest
from dry_steps import measured

from bench.gpu.arms import Arms, Claim
from bench.gpu.run import Run
from bench.gpu.targets import TARGETS
from fastqps.bench.results.point import INVALID, UNSTABLE, Point
from fastqps.bench.results.result import BenchError

pytestmark = pytest.mark.compute


@pytest.fixture(autouse=True)
def formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    """All servers are formulas, and Python takes 150 µs to prepare a step of 8, and less of fewer."""
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    monkeypatch.setattr("bench.gpu.servers.modelled.SERVED", ())
    monkeypatch.setattr("bench.prepare.python_us", lambda running, new: 150 * running / 8)


def give(arms: Arms, name: str, rate: float, **more: Any) -> Point | None:
    return arms.take(name, lambda: Point("", rate=rate, **{"status": {"OK": 9}, "p99_us": 900.0} | more), 0.0)


def row(run: Run, name: str) -> dict[str, Any]:
    """One of the table."""
    return next(row for row in run.results.read()["table"] if row["name"] == f"model: {name}" or row["target"] == name)


@pytest.mark.parametrize(
    ("rates", "value", "said"),
    [
        ({"A": [100.0], "B": [50.0]}, 2.0, "one turn: no interval; A 100/s, 1 turn, "),
        ({"A": [100.0, 100.0], "B": [50.0, 50.0]}, 2.0, "a win: 2 to 2; "),
        ({"A": [50.0, 50.0, 50.0], "B": [100.0, 100.0]}, 0.5, "a loss: 0.5 to 0.5; "),
        ({"A": [100.0, 130.0], "B": [100.0, 100.0]}, 1.15, "inconclusive: "),
        ({"A": [100.0], "B1": [50.0], "B2": [80.0]}, 1.25, "B2 80/s"),
    ],
)
def test_a_ratio_and_its_verdict(dry: Any, rates: dict[str, list[float]], value: float, said: str) -> None:
    """Of the fastest arm that a claim may mean; a win lies beyond what the turns leave open."""
    run = dry("decoder_peers")
    with Arms(run, "model", "/s", [Claim("A", "B*", name="A over B")]) as arms:
        for name, turns in rates.items():
            for rate in turns:
                give(arms, name, rate)
    found = row(run, "A over B")
    assert found["measured"] == pytest.approx(value) and said in found["bound_by"]


@pytest.mark.parametrize(
    ("points", "measured"),
    [
        ([{"p99_us": 999.0}], 100.0),
        ([{"p99_us": 1001.0}], 0.0),
        ([{"p99_us": 1001.0}, {"rate": 80.0}], 80.0),
        ([{"offered_rate": 102.0}], 0.0),
        ([{"offered_rate": 100.5, "status": {"OK": 9999, "INTERNAL": 1}}], 0.0),
        ([{"offered_rate": 100.5, "verdict": INVALID}], 100.0),
        ([{"verdict": UNSTABLE}], 0.0),
    ],
)
def test_a_rate_within_a_limit(dry: Any, points: list[dict[str, Any]], measured: float) -> None:
    """0 where none of those that were tried held it. A generator that was late makes times longer, never shorter."""
    run = dry("decoder_peers")
    with Arms(run, "model", "/s", [Claim("open*", name="within", p99_us=1000)]) as arms:
        for number, point in enumerate(points):
            give(arms, f"open {number}", **{"rate": 100.0} | point)
    assert row(run, "within")["measured"] == measured


def test_an_arm_that_fails_or_has_no_time_hides_no_other(dry: Any) -> None:
    run = dry("decoder_peers", limit_s=10.0)

    def broken() -> Point:
        raise BenchError("it does not start")

    with Arms(run, "model", "/s", [Claim("B", "A", name="B over A")]) as arms:
        assert arms.take("A", broken, 999.0) is None
        assert give(arms, "A", 100.0), "the first always"
        assert arms.take("slow", broken, 999.0) is None
        give(arms, "B", 120.0)
    assert row(run, "B over A")["measured"] == pytest.approx(1.2)
    [left_out] = run.results.read()["steps"][run.step]["left_out"]
    assert left_out.startswith("model, slow: ")
    with pytest.raises(RuntimeError, match="model, A: BenchError: it does not start"):
        run.finish()


@pytest.mark.parametrize(
    ("step", "expected"),
    [  # a step of 4 on the formula's device takes 140 µs, of 8 180, of 16 260; 1.3 times as fast in FP8
        ("decoder:qwen2.5-0.5b", {"decoder-0.5b": 0.92 * 8e6 / 180, "duty": 100, "fp8-0.5b": 1.3}),
        ("decoder:llama-1b", {"fp8": 1.3, "llama-1b: --quantization auto over bf16": 1.4}),
        (
            "decoder:smollm2-135m",
            {
                "decoder-135m": 16e6 / 260, "running": (16 / 260) / (2 / 120), "start": 0,
                "smollm2-135m: FP8 over bf16": 1.3,
            },
        ),
    ],
)  # fmt: skip
def test_decoders(dry: Any, step: str, expected: dict[str, float]) -> None:
    """Their settings are those of a server on the fake device; what they make of the figures is known."""
    found = measured(dry(step))
    rows = {row["target"] or name: row for name, row in found.items()}
    assert {name: rows[name]["measured"] for name in expected} == pytest.approx(expected)
    if "duty" in expected:
        assert "bound by the device" in rows["decoder-0.5b"]["bound_by"]
    if "start" in expected:
        assert "smollm2-135m, FP8, 1 × 4,096" in found, "at the fastest place of bf16"


def test_n_dispatchers_are_compared_with_one(dry: Any) -> None:
    """A step of 8 takes 180 µs, of 4 140, of 2 120; the host 20 µs more than Python."""
    run = dry("dispatchers:smollm2-135m")
    found = measured(run)
    a, b2, b4, c, d = 8 / 350, 4 / 140, 2 / 120, 8 / 180, 4 / 140
    ratios = {name.rpartition("(")[2].rstrip(")"): row["measured"] for name, row in found.items() if "÷" in name}
    assert ratios == pytest.approx({"B2 ÷ A": b2 / a, "B4 ÷ A": b4 / a, "A ÷ C": a / c})
    assert found[TARGETS["dispatchers"].name]["measured"] == pytest.approx(d / c)
    assert found["smollm2-135m: A: device busy"]["measured"] == pytest.approx(100 * 180 / 350)
    raw = run.results.read()["raw"][run.step]
    assert raw["Python, µs a step"] == {"A": 150, "B2": 75, "B4": 37.5}
    turns = {name: made["turns"] for name, made in raw.items() if "turns" in made}
    assert {name: len(points) for name, points in turns.items()} == {
        "A": 2, "C, 1 lane": 2, "C, 2 lanes": 1, "B2": 1, "D": 2, "B4": 1
    }  # fmt: skip
    on_each_lane = {name: points[0]["settings"]["max-running"] for name, points in turns.items()}
    assert on_each_lane == {"A": 8, "C, 1 lane": 8, "C, 2 lanes": 4, "B2": 4, "D": 4, "B4": 2}, "8 run in all"
    assert "FASTQPS_TEST_PREPARE" not in os.environ


@pytest.mark.parametrize(
    ("limit_s", "mps", "left_out"),
    [
        (120.0, False, ["dispatchers under MPS"]),
        (6.0, True, [f"smollm2-135m, {arm}" for arm in ("C, 1 lane", "C, 2 lanes")]),
        (7.5, True, [f"smollm2-135m, {arm}" for arm in ("B2", "D", "D", "B4")]),
    ],
)
def test_arms_that_cannot_run_are_named(
    dry: Any, monkeypatch: pytest.MonkeyPatch, limit_s: float, mps: bool, left_out: list[str]
) -> None:
    step = import_module("bench.gpu.steps.dispatchers")
    monkeypatch.setattr(step, "_has_mps", lambda run: mps)
    run = dry("dispatchers:smollm2-135m")
    clock: Callable[[Run], float] = lambda run: limit_s  # noqa: E731
    monkeypatch.setattr(Run, "left_s", property(clock))
    measured(run)
    told = run.results.read()["steps"][run.step]["left_out"]
    assert [what.partition(":")[0] for what in told] == left_out
