"""Objectives, intervals and drift: figures against literal tables and known distributions."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastqps.bench.measure.context import fill_in
from fastqps.bench.measure.processes import Usage
from fastqps.bench.measure.slo import Judgement, Slo, duration_flag, format_us, goodput, share_within
from fastqps.bench.modes.overload import recovery_s
from fastqps.bench.modes.soak import of_processes, sample
from fastqps.bench.modes.sweep import is_hopeless, knee, shares
from fastqps.bench.results.capacity import read_rate, write_capacity
from fastqps.bench.results.point import Point, median_point, with_samples_only
from fastqps.bench.results.result import EXIT_CODES, Result
from fastqps.bench.statistics.intervals import blocks, drift, mean_interval, p99_interval_us, rate_interval
from fastqps.errors import ConfigError
from fastqps.telemetry.capacity import read_capacity

pytestmark = pytest.mark.compute

# ---- objectives


@pytest.mark.parametrize(
    ("text", "limits_us", "errors", "answers_min"),
    [
        ("p99=20ms", {"p99": 20_000}, None, 1000),
        ("p99=20ms,err=0.1%", {"p99": 20_000}, 0.001, 1000),
        (" err = 0 , p50=500us", {"p50": 500}, 0.0, 20),
        ("err=0.1%", {}, 0.001, 10),
        ("p50=1ms,p999=1s,err=0.02", {"p50": 1000, "p999": 1e6}, 0.02, 10_000),
    ],
)
def test_objectives(text: str, limits_us: dict[str, float], errors: float | None, answers_min: int) -> None:
    slo = Slo.parse(text)
    assert (slo.limits_us, slo.error_ratio, slo.answers_min) == (limits_us, errors, answers_min)
    assert Slo.parse(str(slo)) == slo


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("20ms", "write p99=20ms"),
        ("p98=20ms", "p98=20ms"),
        ("p99=20", "has no unit"),
        ("p99=0ms", "no answer takes less than 1us"),
        ("p99=-3ms", "not a quantity"),
        ("p99=1ms,err=100%", "0 to less than 100%"),
        ("p99=1ms,err=-1%", "0 to less than 100%"),
        ("p99=1ms,err=few", "share of the calls"),
        ("p50=20ms,p99=10ms", "a higher percentile cannot have a lower limit"),
    ],
)
def test_objectives_that_cannot_be(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Slo.parse(text)


def test_a_judgement_names_what_was_missed() -> None:
    slo = Slo.parse("p99=20ms,err=1%")
    good = Point("x", response_time_us={"p99": 19_999.0, "count": 5000.0}, status={"OK": 995, "UNAVAILABLE": 5})
    assert slo.judge(good) == Judgement() and slo.judge(good).kept
    late = Point("x", response_time_us={"p99": 20_001.0, "count": 5000.0}, status={"OK": 980, "UNAVAILABLE": 20})
    assert slo.judge(late).broken == ["p99 20 ms is more than 20 ms", "2 % of the calls failed, more than 1 %"]
    assert not slo.judge(late).kept and not slo.judge(late).inconclusive
    assert Slo.parse("p99=1s").judge(late).kept  # nothing said about errors


def of_answers(count: int, over: int, failed: int = 0) -> Point:
    """``count`` OK answers, ``over`` of which took 30 ms and all others 1 ms."""
    within = 100 * (1 - over / count)
    spectrum = [[0.0, 1000.0], [within, 1000.0], *([[100.0, 30_000.0]] if over else [])]
    times = {"p50": 1000.0, "p99": 30_000.0 if over > 0.01 * count else 1000.0, "count": float(count)}
    return Point(
        "x",
        response_time_us=with_samples_only(times),
        spectrum={"response": spectrum},
        status={"OK": count, "UNAVAILABLE": failed},
    )


@pytest.mark.parametrize(
    ("slo", "count", "over", "failed", "says"),
    [
        ("p99=1ms", 1000, 0, 0, "kept"),
        ("p99=1ms", 1000, 11, 0, "broken"),
        ("p99=1ms", 999, 0, 0, "inconclusive"),
        ("p99=1ms", 63, 0, 0, "inconclusive"),  # also where the slowest of them is within the limit
        ("p99=1ms", 63, 5, 0, "inconclusive"),  # one hiccup
        ("p99=1ms", 63, 30, 0, "broken"),  # more than ten beyond the limit are beyond any p99 of so few
        ("p50=1ms,err=1%", 1000, 0, 0, "kept"),
        ("p50=1ms,err=1%", 1000, 0, 20, "broken"),
        ("p50=1ms,err=0.1%", 200, 0, 0, "inconclusive"),
        ("p50=1ms,err=0.1%", 200, 0, 1, "inconclusive"),
        ("p50=1ms,err=0.1%", 200, 0, 10, "broken"),
        ("p50=1ms,err=0", 20, 0, 1, "broken"),
        ("p50=1ms,err=0", 20, 0, 0, "kept"),
    ],
)
def test_what_is_not_known_decides_nothing(slo: str, count: int, over: int, failed: int, says: str) -> None:
    """A percentile takes answers beyond it, and a share of failures takes calls."""
    judged = Slo.parse(slo).judge(of_answers(count, over, failed))
    found = "kept" if judged.kept else "inconclusive" if judged.inconclusive else "broken"
    assert found == says, judged
    assert ("too few " in " ".join(judged.unknown)) == (says == "inconclusive")


def test_no_call_decides_nothing() -> None:
    judged = Slo.parse("p50=1ms,err=1%").judge(Point("x"))
    assert judged.inconclusive and len(judged.unknown) == 2


def test_how_long_it_takes_to_decide() -> None:
    assert Slo.parse("p99=20ms,err=0.01%").calls_min == 10_000
    assert Slo.parse("p99=20ms,err=1%").calls_min == 1000
    assert Slo.parse("p99=20ms").seconds(63) == pytest.approx(17.46, rel=1e-3)
    assert [duration_flag(s) for s in (0.11, 1.75, 17.46, 1100.0)] == [
        "--duration 0.2s", "--duration 1.8s", "--duration 18s", "--duration 1100s"
    ]  # fmt: skip


def test_goodput_is_what_came_in_time() -> None:
    spectrum = [[0.0, 100.0], [50.0, 1000.0], [90.0, 9000.0], [100.0, 20_000.0]]
    assert [share_within(spectrum, us) for us in (50, 1000, 5000, 20_000, 1e9)] == [0.0, 0.5, 0.7, 1.0, 1.0]
    point = Point("x", rate=1000.0, spectrum={"response": spectrum})
    assert goodput(point, Slo.parse("p50=1ms,p99=5ms")) == pytest.approx(700)
    assert goodput(Point("x", rate=1000.0), Slo.parse("p99=5ms")) == 0


def test_times_are_written_with_their_unit() -> None:
    assert [format_us(us) for us in (0.5, 850, 18_340, 1_200_000)] == ["0.5 µs", "850 µs", "18.3 ms", "1.2 s"]


# ---- points


def test_percentiles_need_samples_beyond_them() -> None:
    summary = {"p50": 1.0, "p99": 9.0, "p999": 9.5, "max": 10.0, "count": 1000, "too_few": [], "note": "closed loop"}
    assert with_samples_only(summary) == {"p50": 1.0, "p99": 9.0, "p999": None, "max": 10.0, "count": 1000.0}
    assert with_samples_only(summary | {"count": 999})["p99"] is None
    assert with_samples_only({"p50": 0, "max": 0, "count": 0}) == {"p50": None, "max": None, "count": 0.0}


def test_a_point_from_what_the_generator_saw() -> None:
    rows = [{"t_s": k + 1.0, "ok": 990 + k % 3, "p99_us": 900.0} for k in range(10)]
    found: dict[str, Any] = {
        "verdict": "VALID",
        "reasons": [],
        "offered_rate": 1000.0,
        "achieved_rate": 999.0,
        "rate": 990.0,
        "status": {"OK": 9900, "RESOURCE_EXHAUSTED": 100},
        "response_time_us": {"p50": 100.0, "p99": 900.0, "p999": 2000.0, "max": 9000.0, "mean": 150.0, "count": 9900},
        "failed_time_us": {"p50": 30.0, "p99": 60.0, "count": 100},
        "spectrum": {"response": [[0, 50], [50, 100], [99, 900], [100, 9000]]},
        "timeline": rows,
        "cpu": {"fraction": 0.3, "seconds": 3.0},
        "something_new": 1,
    }
    point = Point("x")
    fill_in(point, found, Slo.parse("p99=900us"))
    assert (point.p50_us, point.p99_us, point.response_time_us["p999"]) == (100.0, 900.0, None)
    assert point.refusal_time_us == {"p50": 30.0, "p99": None, "count": 100.0}
    assert point.error_ratio == pytest.approx(0.01) and point.goodput == pytest.approx(0.99 * 990)
    assert point.generator["cpu_fraction"] == 0.3
    low, high = point.rate_interval or [0, 0]
    assert 990 < low < 991 < high < 992
    low, high = point.p99_interval_us or [0, 0]
    assert 890 < low < 900 < high < 2500


def test_a_load_under_which_nothing_is_answered_is_no_fault_of_the_generator() -> None:
    point = Point("x")
    fill_in(point, {"verdict": "INVALID", "reasons": ["no call was answered OK"], "status": {"TIMEOUT": 100}}, None)
    assert point.verdict == "UNSTABLE" and point.error_ratio == 1
    fill_in(none := Point("x"), {"verdict": "INVALID", "reasons": ["no call was due"], "status": {}}, None)
    assert none.verdict == "INVALID"  # nothing was asked: that is no load that the server does not bear


def test_the_median_repetition_counts() -> None:
    points = [Point("x", rate=rate, p99_us=rate) for rate in (30.0, 10.0, 20.0)]
    point = median_point(points)
    assert point.rate == 20 and [r["rate"] for r in point.repetitions] == [30, 10, 20]
    assert median_point([*points, Point("x", rate=40.0)]).rate == 20  # of an even number the lower: no flattery


# ---- intervals


def test_intervals_against_tables() -> None:
    assert mean_interval([10.0, 12.0, 14.0]) == pytest.approx(
        [12 - 4.303 * 2 / 3**0.5, 12 + 4.303 * 2 / 3**0.5], rel=1e-3
    )
    assert mean_interval([1.0]) is None
    assert blocks([1.0, 3.0]) == [1.0, 3.0]
    assert blocks(list(map(float, range(25)))) == [0.5 + 2 * k for k in range(12)]
    assert rate_interval([5.0, 5.0, 5.0]) is None and rate_interval([5.0] * 4) == [5.0, 5.0]


def test_the_interval_of_p99_covers_it() -> None:
    """1,000 runs of 2,000 exponential times each: 95 % of the intervals hold the true percentile, give or take."""
    rng = random.Random(3)
    true_us, held, n = -1000 * math.log(0.01), 0, 2000
    for _ in range(400):
        times = sorted(rng.expovariate(1e-3) for _ in range(n))
        spectrum = [[p / 10, times[min(n - 1, int(p / 1000 * n))]] for p in range(1001)]
        point = Point(
            "x", response_time_us={"p99": times[int(0.99 * n)], "count": float(n)}, spectrum={"response": spectrum}
        )
        interval = p99_interval_us(point)
        assert interval is not None
        held += interval[0] <= true_us <= interval[1]
    assert 0.90 * 400 < held < 0.99 * 400


# ---- sweep, overload, soak


def test_a_sweep_is_closer_where_it_bends() -> None:
    found = shares()
    steps = [b - a for a, b in itertools.pairwise(found)]
    assert found[0] == pytest.approx(0.1) and found[-1] == pytest.approx(1.3)
    assert len(found) == 10 and steps == sorted(steps, reverse=True) and steps[-1] > 0.045


def test_the_knee() -> None:
    def at(rate: float, p99_us: float, verdict: Any = "VALID") -> Point:
        times: dict[str, float | None] = {"p99": p99_us, "count": 10_000.0}
        return Point("x", verdict=verdict, offered_rate=rate, rate=rate, p99_us=p99_us, response_time_us=times)

    points = [
        at(100, 1000),
        at(500, 1500),
        at(900, 6000),
        at(950, 30_000),
        at(1200, 900, "UNSTABLE"),
        at(99, 1, "INVALID"),
    ]
    assert knee(points, None) == 1
    assert knee(points, Slo.parse("p99=10ms")) == 2
    assert knee(points, Slo.parse("p99=500us")) is None
    assert [is_hopeless(p) for p in points[3:]] == [False, True, False]
    assert is_hopeless(Point("x", offered_rate=1000.0, rate=600.0))


def test_recovery_is_counted_from_the_end_of_the_storm() -> None:
    def rows(*p99s_ms: float) -> list[dict[str, Any]]:
        return [{"t_s": k + 1.0, "ok": 100, "p99_us": 1000 * ms} for k, ms in enumerate(p99s_ms)]

    storm = (900.0, 900.0, 900.0)
    assert recovery_s(rows(*storm, 1, 1, 1), 3, 100, 2000) == 0
    assert recovery_s(rows(*storm, 500, 9, 1, 1), 3, 100, 1000) == 2
    assert recovery_s(rows(*storm, 500, 1, 500, 1), 3, 100, 1000) == 3  # not before it stays so
    assert recovery_s(rows(*storm, 500, 400, 300), 3, 100, 1000) is None
    assert recovery_s(rows(*storm), 3, 100, 1000) is None


def test_drift() -> None:
    rng = random.Random(5)

    def series(start: float, per_s: float, noise: float) -> list[tuple[float, float]]:
        return [(float(t), start + per_s * t + rng.gauss(0, noise)) for t in range(120)]

    leak = drift("memory", "bytes", series(1e8, 1e5, 1e5), 0.05)
    assert leak.grows and leak.slope_per_hour == pytest.approx(3.6e8, rel=0.05) and "grew by 12 %" in str(leak)
    assert not drift("memory", "bytes", series(1e8, 1e4, 1e5), 0.05).grows  # surely, but by 1 % only
    assert not drift("p99", "us", series(1000, -5, 10), 0.05).grows
    assert not drift("p99", "us", [(float(t), 1.0) for t in range(9)], 0.05).grows  # too few to say
    false_alarms = sum(drift("p99", "us", series(1000, 0, 300), 0.05).grows for _ in range(200))
    assert false_alarms <= 12


def test_soak_adds_processes_up_by_role_and_finds_the_one_that_leaks() -> None:
    def processes(t_s: float) -> list[Usage]:
        leak = int(1e6 * t_s)
        return [
            Usage("fastqps: supervisor", 1.0, 0.1, 30 << 20, 10 << 20, 20),
            Usage("fastqps: dispatcher 0 (cpu)", 1.0, 0.1, (300 << 20) + leak, 100 << 20, 9),
            Usage("fastqps: dispatcher 1 (cpu)", 1.0, 0.1, (300 << 20) + leak, 100 << 20, 9),
        ]

    first = sample(processes(0.0), 0.0)
    assert first["memory_bytes"] == {"supervisor": 20 << 20, "dispatcher": 400 << 20}  # shared memory left out
    assert first["descriptors"] == {"supervisor": 20, "dispatcher": 18}
    drifts = {d.name: d for d in of_processes([sample(processes(float(t)), float(t)) for t in range(100)])}
    assert [name for name, found in drifts.items() if found.grows] == ["memory of dispatcher"]
    assert drifts["memory of dispatcher"].slope_per_hour == pytest.approx(7.2e9, rel=0.01)
    assert of_processes([]) == []


# ---- results


def test_every_outcome_has_its_exit_code() -> None:
    assert EXIT_CODES == {
        "VALID": 0,
        "FAILED": 1,
        "UNSTABLE": 6,
        "INVALID": 7,
        "SLO_NOT_MET": 8,
        "INCONCLUSIVE": 9,
        "INTERRUPTED": 130,
    }


def test_capacity_files(tmp_path: Path) -> None:
    point = Point("x", rate=1000.0, p99_us=9000.0, response_time_us={"mean": 5000.0})
    target = {"model": "m", "version": "v", "device": "null", "settings": {"lanes": 1}}
    result = Result("find-max", target=target, slo={"p99_us": 1e4})
    path = write_capacity(result, point, tmp_path)
    assert read_rate(str(path)) == 1000 and read_capacity(str(path)).in_flight == 5  # by Little's law
    point = replace(point, in_flight=6.0, load={"items_per_call": 8})
    found = read_capacity(str(write_capacity(result, point, tmp_path)))
    assert (found.rate, found.in_flight, found.settings) == (8000, 6, {"lanes": 1})  # of items
    less = replace(point, rate=500.0, in_flight=2.0, at_limit={"dispatcher": 0.25})
    assert read_capacity(str(write_capacity(result, point, tmp_path, [less]))).below_knee == (
        {"share": 0.5, "in_flight": 2, "dispatcher": 0.25},
    )
    assert read_rate("12.5") == 12.5
    for wrong, says in (("-3", "not possible"), ("nowhere.json", "cannot read"), (__file__, "is not JSON")):
        with pytest.raises(ConfigError, match=says):
            read_rate(wrong)
