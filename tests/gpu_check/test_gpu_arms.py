"""The arms of the GPU suite's steps, and the claims that are made of them, on servers that are formulas."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import fake_cuda
import pytest

from bench.gpu.run import Run
from bench.gpu.servers.arms import Arms, Claim
from fastqps.bench.results.point import INVALID, UNSTABLE, Point
from fastqps.bench.results.result import BenchError

pytestmark = pytest.mark.compute


@pytest.fixture(autouse=True)
def formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    """All servers are formulas."""
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    monkeypatch.setattr("bench.gpu.servers.modelled.SERVED", ())


def measured(run: Run) -> dict[str, dict[str, Any]]:
    """The table by name, after the step has run."""
    import_module(f"bench.gpu.steps.{run.step.partition(':')[0]}").measure(run)
    return {row["name"]: row for row in run.results.read()["table"]}


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


def test_two_dispatchers_are_compared_with_one(dry: Any) -> None:
    """A step of 8 takes 180 µs, of 4 140."""
    run = dry("dispatchers:smollm2-135m")
    [target] = (row for row in measured(run).values() if row["target"] == "dispatchers")
    assert target["measured"] == pytest.approx((4 / 140) / (8 / 180))
    raw = run.results.read()["raw"][run.step]
    turns = {name: [point["settings"]["max-running"] for point in made["turns"]] for name, made in raw.items()}
    expected = {"one dispatcher, 1 lane": [8, 8], "one dispatcher, 2 lanes": [4], "two dispatchers": [4, 4]}
    assert turns == expected, "8 run in all"


@pytest.mark.parametrize(
    ("left_s", "mps", "left_out"),
    [
        (120.0, False, ["two dispatchers under MPS"]),
        (6.0, True, ["smollm2-135m, one dispatcher, 2 lanes", *["smollm2-135m, two dispatchers"] * 2]),
        (7.5, True, ["smollm2-135m, two dispatchers"] * 2),
    ],
)
def test_arms_that_cannot_run_are_named(
    dry: Any, monkeypatch: pytest.MonkeyPatch, left_s: float, mps: bool, left_out: list[str]
) -> None:
    step = import_module("bench.gpu.steps.dispatchers")
    monkeypatch.setattr(step, "_has_mps", lambda run: mps)
    run = dry("dispatchers:smollm2-135m")
    monkeypatch.setattr(Run, "left_s", left_s)
    measured(run)
    told = [what.partition(":")[0] for what in run.results.read()["steps"][run.step]["left_out"]]
    assert [what for what in told if not what.endswith("1 lane")] == left_out
