"""The modes on a server that is a formula: what they measure, when they stop, and what they say."""

from __future__ import annotations

import argparse
import json
import math
import random
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from formulas import Asked, Played, Queue, play, prepared

from fastqps.bench.flags import add_common, read_common
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.workload import Workload, parse_call
from fastqps.bench.modes import MODES, mode
from fastqps.bench.modes.breakdown import covered
from fastqps.bench.modes.find_max import SHARES_BELOW
from fastqps.bench.report.points import stage_means, stage_shares
from fastqps.bench.results.capacity import WAITS_MIN
from fastqps.bench.results.point import INVALID, Point, with_samples_only
from fastqps.bench.results.result import BenchError
from fastqps.errors import ConfigError
from fastqps.telemetry.capacity import read_capacity

pytestmark = pytest.mark.compute

Run = Callable[..., Played]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return partial(play, tmp_path)


@pytest.fixture
def capacity(tmp_path: Path) -> Any:
    """What find-max has written."""
    return lambda: read_capacity(str(tmp_path / "capacity.json"))


def late(point: Point) -> None:
    point.verdict = INVALID


def test_every_mode_has_its_module() -> None:
    for name, answers in MODES.items():
        module = mode(name)
        assert callable(module.add_arguments) and callable(module.run) and answers


@pytest.mark.parametrize(
    ("flags", "server", "verdict", "notes"),
    [
        ("--rate 5000 --slo p99=20ms", Queue(), "VALID", []),
        ("--rate 9900 --slo p99=20ms", Queue(), "SLO_NOT_MET", ["p99 23 ms is more than 20 ms"]),
        ("--rate 5000 --slo p99=1us", Queue(generator=4000), "INVALID", None),  # nothing is said about the server
        (
            "--rate 63 --duration 1s --slo p99=200ms", Queue(), "INCONCLUSIVE",
            ["too few answers (63) to know p99", "p99=200ms takes 1,000 calls: measure for --duration 18s"],
        ),
        ("-c 64", Queue(), "VALID", []),
    ],
)  # fmt: skip
def test_rate(run: Run, flags: str, server: Queue, verdict: str, notes: list[str] | None) -> None:
    found = run("rate", server, flags)
    assert (found.result.verdict, found.result.best, len(found.result.points)) == (verdict, 0, 1)
    assert notes is None or found.result.notes == notes
    assert found.loads[0].loop == ("closed" if "-c" in flags else "open")


def test_sweep_goes_from_little_to_beyond_the_peak(run: Run) -> None:
    found = run("sweep", Queue()).result
    offered = [p.offered_rate or 0.0 for p in found.points]
    peak = found.extra["peak"]["rate"]
    assert len(offered) == 10 and offered[0] == pytest.approx(0.1 * peak) and offered[-1] == pytest.approx(1.3 * peak)
    assert found.best is not None and 0.3 * peak < offered[found.best] < 0.7 * peak  # M/M/1 has its knee at a half
    found = run("sweep", Queue(), "--slo p99=5ms").result
    best = found.best_point
    assert best is not None and (best.p99_us or 1e9) <= 5000
    assert (found.points[(found.best or 0) + 1].p99_us or 0) > 5000


def late_at_5000(point: Point) -> None:
    if point.offered_rate == 5000:
        late(point)


@pytest.mark.parametrize(
    ("rates", "flags", "server", "verdict", "best", "says"),
    [
        ("1000,15000,20000,40000,50000,60000", "", Queue(), "VALID", 0, "higher rates were left out"),
        ("5000,8000", "--slo p99=10us", Queue(), "SLO_NOT_MET", None, ""),
        # 20/s is too little to know, 90/s kept for no p99.
        ("20,90", "--slo p99=1s", Queue(100), "INCONCLUSIVE", None, "20/s, the least load, does not decide"),
        ("20,90", "--slo p99=1s", Queue(100), "INCONCLUSIVE", None, "--duration 55s"),
        ("20,200", "--slo p99=1s", Queue(2000), "VALID", 1, ""),
        ("20,90", "--slo p50=1s", Queue(100), "VALID", 1, ""),  # a p50 is known long before the p99
        ("20,90", "", Queue(100), "INCONCLUSIVE", None, "1,000 answers that its p99 takes"),
        ("5000,8000", "--slo p99=10us", Queue(change=late_at_5000), "INVALID", None, ""),  # at the least load
    ],
)
def test_sweep_says_what_it_can_decide(
    run: Run, rates: str, flags: str, server: Queue, verdict: str, best: int | None, says: str
) -> None:
    found = run("sweep", server, f"--rates {rates} {flags}")
    assert (found.result.verdict, found.result.best) == (verdict, best) and says in found.notes
    assert len(found.result.points) == min(3, rates.count(",") + 1), "two hopeless ones end it"


def test_find_max(run: Run, tmp_path: Path, capacity: Any) -> None:
    played = run("find-max", Queue(), "--slo p99=20ms,err=1% --precision 0.02")
    found, true = played.result, 10_000 - math.log(100) / 0.020
    best = found.best_point
    assert best is not None and found.verdict == "VALID" and best is found.points[-4]
    assert 0.975 * true < best.rate <= true and len(found.points) <= 19
    assert played.loads[-4].duration_s == 30  # confirmed for longer
    assert [point.rate for point in found.points[-3:]] == pytest.approx([x * best.rate for x in (0.1, 0.5, 0.75)])
    probes = [load for load in played.loads if load.rate]
    assert len({load.seed for load in probes}) == len(probes)
    known = capacity()
    assert known.rate == best.rate and known.in_flight == pytest.approx(best.rate / (10_000 - best.rate))
    assert [less["share"] for less in known.below_knee] == pytest.approx([0.1, 0.5, 0.75])
    assert known.below_knee[1]["in_flight"] == pytest.approx(best.rate / 2 / (10_000 - best.rate / 2))
    assert json.loads((tmp_path / "capacity.json").read_text())["slo"] == {"p99_us": 20_000, "error_ratio": 0.01}


def test_find_max_leaves_out_what_was_not_so_below_the_knee(run: Run, capacity: Any) -> None:
    """In the end it does not keep the least rate, or is interrupted."""

    def half(point: Point) -> None:
        point.rate *= 0.5 if point.name.startswith("0.1 ×") else 1.0

    found = run("find-max", Queue(change=half), "--slo p99=20ms")
    assert [less["share"] for less in capacity().below_knee] == pytest.approx([0.5, 0.75])
    assert found.result.verdict == "VALID" and "a rate was not kept" in found.notes

    def interrupted(point: Point) -> None:
        if "×" in point.name:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("find-max", Queue(change=interrupted), "--slo p99=20ms")
    assert 7000 < capacity().rate < 10_000 and capacity().below_knee == ()


class Chance(Queue):
    """What comes is chance: of the loads below the knee so much as ``comes`` says of the calls that were due."""

    def __init__(self, capacity: float, comes: Callable[[LoadSpec], float]) -> None:
        super().__init__(capacity)
        self._comes = comes

    def __call__(self, asked: Asked) -> Point:
        found, load = super().__call__(asked), asked.load
        count = round(self._comes(load)) if "×" in asked.name else (load.rate or 0.0) * load.duration_s
        found.rate = found.offered_rate = count / load.duration_s
        found.status, found.at_limit = {"OK": round(count)}, {"queue_wait_p95_s": 0.01, "device_load": 0.5}
        return found


def exactly(load: LoadSpec) -> float:
    return (load.rate or 0.0) * load.duration_s


@pytest.mark.parametrize(
    ("came", "kept"),
    [
        ((0.2, 0.45, 0.8), (0.2, 0.45, 0.8)),
        ((0.3, 0.3, 0.25), (0.3,)),
        ((0.6, 0.5, 1.0), (0.6,)),
        ((0, 1.2, 0.9), (0.9,)),
    ],
)
def test_find_max_writes_no_row_that_serve_refuses(
    run: Run, capacity: Any, came: tuple[float, ...], kept: tuple[float, ...]
) -> None:
    shares = iter(came)
    server = Chance(100, lambda load: next(shares) * 8 * load.duration_s)  # a search begins at 0.8 of --start
    found = run("find-max", server, "--slo p50=1s --start 10 --probes 4")
    assert found.result.best_point is not None and found.result.best_point.rate == 8
    assert [row["share"] for row in capacity().below_knee] == pytest.approx(kept, rel=0.02)
    assert ("as much came as at another load" in found.notes) == (len(kept) < 3 and 0 not in came)


@pytest.mark.parametrize("rate", [0.5, 2, 30])
def test_find_max_writes_what_serve_takes_whatever_comes(run: Run, capacity: Any, rate: float) -> None:
    for seed in range(40):
        arrivals = random.Random(seed)

        def poisson(load: LoadSpec, arrivals: random.Random = arrivals) -> float:
            return max(0.0, arrivals.gauss(exactly(load), math.sqrt(exactly(load))))

        run("find-max", Chance(2 * rate, poisson), f"--slo p50=9s --start {rate} --probes 4")
        assert len(capacity().below_knee) >= (3 if rate == 30 else 1)


@pytest.mark.parametrize(
    ("start", "durations_s", "known"),
    [
        (60, [54.167, 10.833, 10.0], 3),  # each until its p95 has its answers
        (4, [100, 100, 100], 1),  # ten times --duration is the end: a p95 of some answers is chance, and left out
    ],
)
def test_find_max_gives_the_loads_below_the_knee_their_answers(
    run: Run, capacity: Any, start: int, durations_s: list[float], known: int
) -> None:
    found = run("find-max", Chance(1000, exactly), f"--slo p50=9s --probes 4 --start {start}")
    below = found.loads[-len(SHARES_BELOW) :]
    assert all(exactly(load) >= WAITS_MIN for load in below) or start == 4
    assert below[0].duration_s >= below[1].duration_s >= below[2].duration_s >= 10
    rows = capacity().below_knee
    assert len(rows) == 3 and all(row["device_load"] == 0.5 and row["in_flight"] > 0 for row in rows)
    assert ["queue_wait_p95_s" in row for row in rows] == [exactly(load) >= WAITS_MIN for load in below]
    if start == 4:
        assert below[0].duration_s == 100 and "queue_wait_p95_s" not in rows[0]


def test_find_max_believes_what_passed_in_spite_of_a_late_generator(run: Run) -> None:
    found = run("find-max", Queue(change=late), "--slo p99=20ms")
    best = found.result.best_point
    assert best is not None and 9000 < best.rate <= 10_000 - math.log(100) / 0.020
    assert found.result.verdict == "INVALID"  # for it may have been the generator that failed above
    assert "its lateness counts as latency" in found.notes


def test_find_max_gives_percentiles_their_answers(run: Run) -> None:
    loads = run("find-max", Queue(300), "--slo p99=1s --duration 1s").loads
    assert all(exactly(load) >= 1000 for load in [load for load in loads if load.rate][: -len(SHARES_BELOW)])


SLOW = Queue(79 * 74 / 64)  # answers all of its 79 requests a second soon enough, but few of them


@pytest.mark.parametrize(
    ("flags", "server", "verdict", "lower_bound", "says"),
    [
        ("--slo p99=20ms --start 1000 --probes 6", Queue(), "VALID", True, "a lower bound: nothing above"),
        ("--slo p99=20ms --start 9900 --probes 6 --precision 0.001", Queue(), "VALID", False, "more --probes would"),
        ("--slo p99=20ms --start 9900", Queue(), "VALID", False, ""),
        ("--slo p99=10us", Queue(), "SLO_NOT_MET", None, "not even"),
        ("--slo p99=20ms", Queue(generator=3000), "INVALID", True, "the generator was the limit"),
        ("--slo p99=20ms", Queue(generator=1), "INVALID", None, "nothing is known of the server"),
        ("--slo p99=1s --duration 100ms", Queue(20), "INCONCLUSIVE", None, "too few answers"),
        ("--slo p99=10us --probes 5", Queue(), "INCONCLUSIVE", None, "--probes ran out"),
        # p99 takes 1,000 answers, and a probe ten times 10 s at most: below 10/s it is not known.
        ("--slo p99=2s --start 11", Queue(20), "INCONCLUSIVE", None, "--duration 13s"),
        # It asks for the time that a percentile takes, and with that the answer is known.
        ("--slo p99=400ms --duration 1s", SLOW, "INCONCLUSIVE", None, "too few answers (632) to know p99"),
        ("--slo p99=400ms --duration 1s", SLOW, "INCONCLUSIVE", None, "--duration 1.8s"),
        ("--slo p99=400ms --duration 2s", SLOW, "VALID", False, ""),
    ],
)
def test_find_max_says_how_well_it_is_known(
    run: Run, tmp_path: Path, flags: str, server: Queue, verdict: str, lower_bound: bool | None, says: str
) -> None:
    found = run("find-max", server, flags)
    assert found.result.verdict == verdict and len(found.result.points) <= 19
    assert says in found.notes and ("more --probes" in found.notes) == ("more --probes" in says)
    assert found.result.extra.get("lower_bound") == lower_bound
    assert (tmp_path / "capacity.json").exists() == (found.result.best is not None) == (lower_bound is not None)
    assert max(load.duration_s for load in found.loads) <= 30 * found.load.duration_s


def test_find_max_goes_on_for_longer_where_calls_are_not_answered(run: Run) -> None:
    """A third of the calls is refused whatever the rate, which this SLO allows."""

    def refuses(point: Point) -> None:
        point.rate *= 2 / 3
        count = (point.response_time_us["count"] or 0.0) * 2 / 3
        point.response_time_us = with_samples_only({"p99": 20_000.0, "count": count})

    found = run("find-max", Queue(300, change=refuses), "--slo p99=1s --duration 3s --start 100")
    probes = [load for load in found.loads if load.rate == 80]
    assert [load.duration_s for load in probes[:2]] == pytest.approx([1100 / 80, 1650 / 80])
    assert found.result.best is not None and found.result.extra["lower_bound"]


def late_at_the_end(point: Point) -> None:
    if point.name.startswith("back"):
        late(point)


@pytest.mark.parametrize(
    ("capacity", "server", "offered", "back", "recovery", "says"),
    [
        (10_000, Queue(), [0.5, 1, 2, 5], "step:50000,5000", 2, "a refusal takes 40 µs"),
        (10_000, Queue(generator=30_000), [0.5, 1, 2, 5], "step:20000,5000", 2, "higher multiples are left out"),
        (10_000, Queue(generator=1), [0.5], "", "", "the generator was the limit"),
        # At half of 12 requests a second, random arrivals may leave a second without any.
        (12, Queue(12), [0.5, 1, 2, 5], "step:60,6", "", "how soon it recovers is not known: there are too few"),
        (10_000, Queue(change=late_at_the_end), [0.5, 1, 2, 5], "step:50000,5000", "", "the generator was the limit"),
    ],
)
def test_overload(
    run: Run, capacity: int, server: Queue, offered: list[float], back: str, recovery: Any, says: str
) -> None:
    found = run("overload", server, f"--capacity {capacity}")
    assert [p.offered_rate for p in found.result.points if "capacity" in p.name] == [x * capacity for x in offered]
    assert found.loads[-1].arrivals == (back or "poisson") and found.loads[-1].duration_s == (20 if back else 10)
    assert found.result.extra.get("recovery_s", "") == recovery and says in found.notes
    assert ("back to usual" in found.notes) == (recovery != "")
    assert found.result.verdict == ("VALID" if back else "INVALID")


@pytest.mark.parametrize(
    ("flags", "verdict", "says"),
    [
        ("--duration 60s", "VALID", "nothing grew"),
        ("--duration 5s", "INCONCLUSIVE", "too few samples to tell whether this grew: p50, p99; measure longer"),
    ],
)
def test_soak_takes_a_share_of_the_peak(run: Run, flags: str, verdict: str, says: str) -> None:
    found = run("soak", Queue(), flags)
    assert found.loads[-1].rate == pytest.approx(0.7 * found.result.extra["peak"]["rate"])
    assert found.result.verdict == verdict and found.result.notes[0].startswith(says)


def test_soak_of_a_server_elsewhere_says_what_was_not_watched(run: Run) -> None:
    found = run("soak", Queue(), "--duration 60s --rate 100 --address 127.0.0.1:1")
    assert found.result.notes[-1] == "memory and descriptors were not watched: name the server's supervisor with --pid"


def test_a_trace(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("t_us\n0\n1000\n")
    found = run("rate", Queue(), f"--trace {trace} --speedup 4")
    assert (found.loads[0].trace, found.loads[0].speedup, found.loads[0].duration_s) == (str(trace), 4, 0)
    assert found.result.points[0].name == "trace.csv, 4 × as fast"


# ---- breakdown


def staged(asked: Asked, whole_us: float = 0.0) -> Point:
    """The wire takes 6 µs, where ``whole_us`` does not say how long all takes."""
    in_flight = asked.load.in_flight or 0
    means = {"receive": 10.0, "queue": 5.0 * in_flight, "device": 100.0, "drain": 5.0}
    stages: dict[str, Any] = {stage: {"mean": us, "p50": us, "p99": us, "count": 10.0} for stage, us in means.items()}
    seen_us = whole_us or sum(means.values()) + 6.0
    return Point("", stages_us=stages, status={"OK": 100}, service_time_us={"mean": seen_us, "count": 10.0})


def test_breakdown(run: Run) -> None:
    found = run("breakdown", staged)
    assert [load.in_flight for load in found.loads] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    means = stage_means(found.result.points[0])
    assert means["wire"] == pytest.approx(6.0) and sum(means.values()) == pytest.approx(126.0)
    assert sum(stage_shares(means).values()) == pytest.approx(1.0)
    assert covered(found.result.points[0]) == pytest.approx(120 / 126)
    assert "95.2 % of the 126 µs" in found.result.notes[0] and "; 6 µs are the wire" in found.result.notes[0]


@pytest.mark.parametrize(
    ("whole_us", "says"), [(96.0, "longer than what the generator saw"), (200.0, "more than a tenth is outside")]
)
def test_breakdown_says_where_stages_are_not_the_whole(run: Run, whole_us: float, says: str) -> None:
    found = run("breakdown", partial(staged, whole_us=whole_us), "--concurrency 1,8")
    assert covered(found.result.points[0]) == pytest.approx(120 / whole_us) and says in found.notes
    assert len(found.result.points) == 2


def test_breakdown_needs_the_admin_port(run: Run) -> None:
    with pytest.raises(BenchError, match="--admin"):
        run("breakdown", lambda asked: Point("", rate=1.0))


# ---- flags


@pytest.mark.parametrize(
    ("name", "flags", "says"),
    [
        ("rate", "--rate 2000M", "2e+09/s is not possible"),
        ("rate", "-c 0", "0 calls in flight"),
        ("rate", "-c 5 --slo p99=1ms", "--slo needs an open loop"),
        ("sweep", "--rates 5,x", "write numbers"),
        ("sweep", "--rates 5,3", "the lowest first"),
        ("sweep", "--rates=-1,3", "--rates -1,3: write numbers of calls per second"),
        ("find-max", "", "--slo p99=20ms"),
        ("find-max", "--slo p99=1ms --probes 2", "at least 4"),
        ("find-max", "--slo p99=1ms --start 2000M", "2e+09/s is not possible"),
        ("overload", "--capacity nowhere.json", "cannot read nowhere.json"),
        ("soak", "--rate 2000M", "2e+09/s is not possible"),
        ("rate", "--trace nowhere.csv", "no trace nowhere.csv"),
        ("rate", "--rate 5 --speedup 2", "--speedup needs --trace"),
        ("rate", "--rate 5 --texts 0", "--texts 0: 1 to 1048576"),
        ("rate", "--rate 5 --duration 10", "--duration: '10' has no unit"),
        ("rate", "--rate 5 --seed -1", "--seed -1"),
        ("rate", "--rate 5 --set lanes", "write KEY=VALUE"),
        *(
            ("breakdown", f"--concurrency={levels}", "concurrency")
            for levels in ("", "0", "1,1", "x", "-3", "1,", "1M")
        ),
        ("tune", "--try dispatchers", "write KEY=V1,V2"),
        ("tune", "--try dispatcher=1", "did you mean --dispatchers"),
        ("tune", "--try dispatchers=1,,2", "different values"),
        ("tune", "--try dispatchers=1,1", "different values"),
        ("tune", "--try dispatchers=0", "not within 1"),
        ("tune", "--try dispatchers=1,2 --set dispatchers=2", "leave one of them out"),
        ("tune", "--gain 2", "--gain 2: a share"),
        ("tune", "--probes 0", "--probes 0"),
        ("tune", "--address 127.0.0.1:1", "leave out --address"),
    ],
)
def test_flags_that_cannot_be(run: Run, name: str, flags: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        run(name, Queue(), flags)


@pytest.mark.parametrize(
    ("name", "flags", "loads"),
    [("rate", "--rate 5k", {5000.0}), ("sweep", "--rates 1k,2.5k", {1000.0, 2500.0}),
     ("find-max", "--start 1k", {1000.0}), ("overload", "", set()), ("soak", "--rate 1K", {1000.0})],
)  # fmt: skip
def test_rates_with_units_and_an_objective_of_errors_alone(
    name: str, flags: str, loads: set[float], run: Run, tmp_path: Path
) -> None:
    found = run(name, Queue(), f"{flags} --slo err=0.1%")
    assert loads <= {load.rate for load in found.loads}
    assert found.result.verdict in ("VALID", "INCONCLUSIVE") and found.result.slo == {"error_ratio": 0.001}
    with pytest.raises(SystemExit):
        prepared(tmp_path, "rate", Queue(), "--rate 10q")


def test_workload_flags() -> None:
    parser = argparse.ArgumentParser()
    add_common(parser)
    own = ["--texts", "100000", "--model", "m", "--device", "null", "--set", "max_batch_items=8"]
    common = read_common(parser.parse_args(own))
    assert common.settings == {"model": ["m"], "device": "null", "max-batch-items": "8"} and common.slo is None
    assert common.workload == Workload(parse_call("predict"), texts=100_000)
    common = read_common(parser.parse_args(["--address", "h:1", "--model", "m", "--texts", "5"]))
    assert common.settings == {} and (common.workload.model, common.workload.texts) == ("m", 5)
