"""The modes on a server that is a formula: what they measure, when they stop, and what they say."""

from __future__ import annotations

import argparse
import json
import math
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastqps.bench.flags import Common, add_common, read_common
from fastqps.bench.measure.context import Context, default_name
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.pinning import Pinning
from fastqps.bench.measure.workload import Workload, parse_call
from fastqps.bench.modes import MODES, mode
from fastqps.bench.modes.find_max import SHARES_BELOW
from fastqps.bench.results.capacity import WAITS_MIN
from fastqps.bench.results.point import INVALID, UNSTABLE, VALID, Point, with_samples_only
from fastqps.bench.results.result import Result
from fastqps.bench.slo import Slo
from fastqps.errors import ConfigError
from fastqps.telemetry.capacity import read_capacity

pytestmark = pytest.mark.compute


class Quiet:
    """Nobody watches."""

    def expect(self, points: int) -> None: ...
    def begin(self, name: str, duration_s: float) -> None: ...
    def tick(self, elapsed_s: float, now: str) -> None: ...
    def end(self, point: dict[str, Any]) -> None: ...
    def say(self, line: str) -> None: ...


class Formula:
    """An M/M/1 queue of ``capacity`` that sheds what is too much, and a generator that can do ``generator``."""

    def __init__(self, capacity: float = 10_000.0, generator: float = 1e9) -> None:
        self.capacity, self.generator = capacity, generator
        self.loads: list[LoadSpec] = []

    def point(self, load: LoadSpec, name: str) -> Point:
        self.loads.append(load)
        if load.in_flight is not None:
            return Point(name, rate=self.capacity * load.in_flight / (load.in_flight + 10), status={"OK": 1000})
        rate = load.rate or 0.0
        ok = min(rate, 0.98 * self.capacity)
        mean_us = 1e6 / max(self.capacity - rate, 0.02 * self.capacity)
        count = ok * load.duration_s
        times = {"mean": mean_us, "p50": mean_us * math.log(2), "p99": mean_us * math.log(100), "count": count}
        known = with_samples_only(times)
        return Point(
            name,
            load=load.describe(parse_call("predict")),
            verdict=INVALID if rate > self.generator else UNSTABLE if rate > 3 * self.capacity else VALID,
            offered_rate=rate,
            achieved_rate=min(rate, self.generator),
            rate=ok,
            status={"OK": round(count), "RESOURCE_EXHAUSTED": round((rate - ok) * load.duration_s)},
            p50_us=known["p50"],
            p99_us=known["p99"],
            response_time_us=known,
            refusal_time_us={"p50": 40.0, "p99": 90.0, "count": 1.0} if rate > ok else None,
            timeline=self._timeline(load),
        )

    def _timeline(self, load: LoadSpec) -> list[dict[str, Any]]:
        """Steps come back within two seconds of calm."""
        rows = []
        for k in range(round(load.duration_s)):
            calm = not load.arrivals.startswith("step") or k >= load.duration_s / 2 + 2
            rows.append({"t_s": k + 1.0, "ok": load.rate, "p50_us": 100.0, "p99_us": 500.0 if calm else 90_000.0})
        return rows


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., tuple[Result, Formula]]:
    """Runs a mode with these flags on a formula."""

    def run(name: str, *flags: str, formula: Formula | None = None, **changes: Any) -> tuple[Result, Formula]:
        parser = argparse.ArgumentParser()
        add_common(parser)
        mode(name).add_arguments(parser)
        options = parser.parse_args(list(flags))
        options.mode = name
        common = read_common(options)
        mode(name).check(options, common)
        server = formula or Formula()
        context = FakeContext(server, options, common, tmp_path)
        return mode(name).run(context), server

    return run


class FakeContext(Context):
    def __init__(self, server: Formula, options: argparse.Namespace, common: Common, folder: Path) -> None:
        payloads: Any = SimpleNamespace(call=parse_call("predict"))
        target: Any = SimpleNamespace(own=True, local=False, base={})
        told = {"model": "m", "version": "0123456789ab", "device": "null", "settings": {}}
        result = Result(options.mode, target=told)
        result.slo = common.slo.as_json() if common.slo else None
        super().__init__(
            options, target, payloads, common.load, common.slo, Pinning(), 1, 1, folder, Quiet(), result
        )  # fmt: skip
        self._server = server

    def measure(self, settings: Any, load: LoadSpec, *, name: str = "", keep: bool = True, **more: Any) -> Point:
        point = self._server.point(load, name or default_name(load))
        if keep:
            self.result.points.append(point)
        return point

    def server(self, settings: Any = None) -> Any:
        return SimpleNamespace(pid=None)


Play = Callable[..., tuple[Result, Formula]]


def test_every_mode_has_its_module() -> None:
    for name, answers in MODES.items():
        module = mode(name)
        assert callable(module.add_arguments) and answers
        assert callable(getattr(module, "run", None)) or callable(getattr(module, "run_alone", None))


def test_rate(play: Play) -> None:
    found, server = play("rate", "--rate", "5000", "--slo", "p99=20ms")
    assert (found.verdict, found.best, len(found.points)) == ("VALID", 0, 1)
    assert server.loads[0].rate == 5000 and server.loads[0].duration_s == 10
    found, _ = play("rate", "--rate", "9900", "--slo", "p99=20ms")
    assert found.verdict == "SLO_NOT_MET" and "p99 23 ms is more than 20 ms" in found.notes[0]
    found, _ = play("rate", "--rate", "5000", "--slo", "p99=1us", formula=Formula(generator=4000))
    assert found.verdict == "INVALID"  # nothing is said about the server
    found, _ = play("rate", "--rate", "63", "--duration", "1s", "--slo", "p99=200ms")
    assert (found.verdict, found.exit_code) == ("INCONCLUSIVE", 9)
    assert found.notes == [
        "too few answers (63) to know p99",
        "p99=200ms takes 1,000 calls: measure for --duration 18s",
    ]
    found, server = play("rate", "-c", "64")
    assert server.loads[0].loop == "closed" and found.verdict == "VALID"


def test_sweep_goes_from_little_to_beyond_the_peak(play: Play) -> None:
    found, _ = play("sweep")
    offered = [p.offered_rate or 0.0 for p in found.points]
    peak = found.extra["peak"]["rate"]
    assert len(offered) == 10 and offered[0] == pytest.approx(0.1 * peak) and offered[-1] == pytest.approx(1.3 * peak)
    assert found.best is not None and 0.3 * peak < offered[found.best] < 0.7 * peak  # M/M/1 has its knee at a half
    found, _ = play("sweep", "--slo", "p99=5ms", "--points", "12")
    best = found.best_point
    assert best is not None and (best.p99_us or 1e9) <= 5000 and len(found.points) == 12
    after = found.points[(found.best or 0) + 1]
    assert (after.p99_us or 0) > 5000


def test_sweep_stops_where_it_is_hopeless(play: Play) -> None:
    found, _ = play("sweep", "--rates", "1000,15000,20000,40000,50000,60000")
    assert [p.offered_rate for p in found.points] == [1000, 15000, 20000]
    assert "left out" in found.notes[-1]
    found, _ = play("sweep", "--rates", "5000,8000", formula=Formula(generator=1))
    assert found.verdict == "INVALID"
    found, _ = play("sweep", "--rates", "5000,8000", "--slo", "p99=10us")
    assert found.verdict == "SLO_NOT_MET" and found.best is None


def test_sweep_says_what_it_cannot_decide(play: Play) -> None:
    found, _ = play("sweep", "--rates", "20,90", "--slo", "p99=1s", formula=Formula(100))
    assert (found.verdict, found.best) == ("INCONCLUSIVE", None)  # 20/s is too little to know, 90/s kept for no p99
    assert "20/s, the least load, does not decide" in found.notes[0] and "--duration 55s" in found.notes[1]
    found, _ = play("sweep", "--rates", "20,200", "--slo", "p99=1s", formula=Formula(2000))
    assert found.verdict == "VALID" and found.best == 1
    found, _ = play("sweep", "--rates", "20,90", "--slo", "p50=1s", formula=Formula(100))
    assert found.verdict == "VALID" and found.best == 1  # a p50 is known long before the p99
    found, _ = play("sweep", "--rates", "20,90", formula=Formula(100))
    assert found.best is None and "1,000 answers that its p99 takes" in found.notes[0]

    class Late(Formula):
        def point(self, load: LoadSpec, name: str) -> Point:
            return replace(super().point(load, name), verdict=INVALID if load.rate == 5000 else VALID)

    found, _ = play("sweep", "--rates", "5000,8000", "--slo", "p99=10us", formula=Late())
    assert found.verdict == "INVALID"  # the generator was the limit at the least load


def test_find_max(play: Play, tmp_path: Path) -> None:
    found, server = play("find-max", "--slo", "p99=20ms,err=1%", "--precision", "0.02")
    true = 10_000 - math.log(100) / 0.020
    best = found.best_point
    assert best is not None and found.verdict == "VALID" and best is found.points[-4]
    assert 0.975 * true < best.rate <= true and len(found.points) <= 19
    assert server.loads[-4].duration_s == 30  # confirmed for longer
    assert [point.rate for point in found.points[-3:]] == pytest.approx([x * best.rate for x in (0.1, 0.5, 0.75)])
    probes = [load for load in server.loads if load.rate]
    assert len({load.seed for load in probes}) == len(probes)
    capacity = read_capacity(str(tmp_path / "capacity.json"))
    assert capacity.rate == best.rate and capacity.in_flight == pytest.approx(best.rate / (10_000 - best.rate))
    assert [less["share"] for less in capacity.below_knee] == pytest.approx([0.1, 0.5, 0.75])
    assert capacity.below_knee[1]["in_flight"] == pytest.approx(best.rate / 2 / (10_000 - best.rate / 2))
    assert json.loads((tmp_path / "capacity.json").read_text())["slo"] == {"p99_us": 20_000, "error_ratio": 0.01}


def test_find_max_leaves_out_what_was_not_so_below_the_knee(play: Play, tmp_path: Path) -> None:
    class Stops(Formula):
        """In the end it is interrupted, or does not keep the least rate."""

        interrupted = False

        def point(self, load: LoadSpec, name: str) -> Point:
            if "×" in name and self.interrupted:
                raise KeyboardInterrupt
            found = super().point(load, name)
            return replace(found, rate=0.5 * found.rate) if name.startswith("0.1 ×") else found

    found, _ = play("find-max", "--slo", "p99=20ms", formula=Stops())
    capacity = read_capacity(str(tmp_path / "capacity.json"))
    assert [less["share"] for less in capacity.below_knee] == pytest.approx([0.5, 0.75])
    assert found.verdict == "VALID" and "a rate was not kept" in " ".join(found.notes)
    server = Stops()
    server.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        play("find-max", "--slo", "p99=20ms", formula=server)
    capacity = read_capacity(str(tmp_path / "capacity.json"))
    assert 7000 < capacity.rate < 10_000 and capacity.below_knee == ()


class Chance(Formula):
    """What comes is chance: of the loads below the knee so much as ``comes`` says of the calls that were due."""

    def __init__(self, capacity: float, comes: Callable[[LoadSpec], float]) -> None:
        super().__init__(capacity)
        self._comes = comes

    def point(self, load: LoadSpec, name: str) -> Point:
        found = super().point(load, name)
        count = round(self._comes(load)) if "×" in name else (load.rate or 0.0) * load.duration_s
        came = count / load.duration_s
        seen = {"queue_wait_p95_s": 0.01, "device_load": 0.5}
        return replace(found, rate=came, offered_rate=came, status={"OK": round(count)}, at_limit=seen)


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
    play: Play, tmp_path: Path, came: tuple[float, ...], kept: tuple[float, ...]
) -> None:
    shares = iter(came)
    server = Chance(100, lambda load: next(shares) * 8 * load.duration_s)  # a search begins at 0.8 of --start
    found, _ = play("find-max", "--slo", "p50=1s", "--start", "10", "--probes", "4", formula=server)
    rows = read_capacity(str(tmp_path / "capacity.json")).below_knee
    assert found.best_point is not None and found.best_point.rate == 8
    assert [row["share"] for row in rows] == pytest.approx(kept, rel=0.02)
    assert ("as much came as at another load" in " ".join(found.notes)) == (len(kept) < 3 and 0 not in came)


@pytest.mark.parametrize("rate", [0.5, 2, 30])
def test_find_max_writes_what_serve_takes_whatever_comes(play: Play, tmp_path: Path, rate: float) -> None:
    for seed in range(40):
        arrivals = random.Random(seed)

        def poisson(load: LoadSpec, arrivals: random.Random = arrivals) -> float:
            mean = (load.rate or 0.0) * load.duration_s
            return max(0.0, arrivals.gauss(mean, math.sqrt(mean)))

        play("find-max", "--slo", "p50=9s", "--start", str(rate), "--probes", "4", formula=Chance(2 * rate, poisson))
        rows = read_capacity(str(tmp_path / "capacity.json")).below_knee
        assert len(rows) >= (3 if rate == 30 else 1)


def test_find_max_gives_the_loads_below_the_knee_their_answers(play: Play, tmp_path: Path) -> None:
    def exact(load: LoadSpec) -> float:
        return (load.rate or 0.0) * load.duration_s

    flags = ("--slo", "p50=9s", "--probes", "4", "--start")
    _, server = play("find-max", *flags, "60", formula=Chance(1000, exact))
    below = server.loads[-len(SHARES_BELOW) :]
    assert all((load.rate or 0) * load.duration_s >= WAITS_MIN for load in below)
    assert below[0].duration_s > below[1].duration_s > below[2].duration_s == 10
    rows = read_capacity(str(tmp_path / "capacity.json")).below_knee
    assert all("queue_wait_p95_s" in row for row in rows)
    # Ten times --duration is the end. A p95 of some answers is chance, and left out; means are not.
    _, server = play("find-max", *flags, "4", formula=Chance(1000, exact))
    assert server.loads[-len(SHARES_BELOW)].duration_s == 100
    rows = read_capacity(str(tmp_path / "capacity.json")).below_knee
    assert len(rows) == 3 and "queue_wait_p95_s" not in rows[0] and "queue_wait_p95_s" in rows[-1]
    assert all(row["device_load"] == 0.5 and row["in_flight"] > 0 for row in rows)


def test_a_late_generator_does_not_take_away_what_passed_all_the_same(play: Play) -> None:
    class Late(Formula):
        def point(self, load: LoadSpec, name: str) -> Point:
            found = super().point(load, name)
            found.verdict = INVALID
            return found

    found, _ = play("find-max", "--slo", "p99=20ms", formula=Late())
    assert found.best_point is not None and 9000 < found.best_point.rate <= 10_000 - math.log(100) / 0.020
    assert found.verdict == "INVALID"  # for it may have been the generator that failed above
    assert "its lateness counts as latency" in " ".join(found.notes)


def test_find_max_gives_percentiles_their_answers(play: Play) -> None:
    _, server = play("find-max", "--slo", "p99=1s", "--duration", "1s", formula=Formula(300))
    probes = [load for load in server.loads if load.rate][: -len(SHARES_BELOW)]
    assert all((load.rate or 0) * load.duration_s >= 1000 for load in probes)


@pytest.mark.parametrize(
    ("flags", "lower_bound", "says"),
    [
        (["--start", "1000", "--probes", "6"], True, "a lower bound: nothing above"),
        (["--start", "9900", "--probes", "6", "--precision", "0.001"], False, "more --probes would narrow it"),
        (["--start", "9900"], False, ""),
    ],
)
def test_find_max_says_how_well_it_is_known(play: Play, flags: list[str], lower_bound: bool, says: str) -> None:
    found, _ = play("find-max", "--slo", "p99=20ms", *flags)
    assert found.verdict == "VALID" and found.extra["lower_bound"] == lower_bound
    notes = " ".join(found.notes)
    assert says in notes and ("more --probes" in notes) == ("more --probes" in says)


@pytest.mark.parametrize(
    ("flags", "formula", "verdict", "says"),
    [
        (["--slo", "p99=10us"], Formula(), "SLO_NOT_MET", "not even"),
        (["--slo", "p99=20ms"], Formula(generator=3000), "INVALID", "the generator was the limit"),
        (["--slo", "p99=20ms"], Formula(generator=1), "INVALID", "nothing is known of the server"),
        (["--slo", "p99=1s", "--duration", "100ms"], Formula(20), "INCONCLUSIVE", "too few answers"),
        (["--slo", "p99=10us", "--probes", "5"], Formula(), "INCONCLUSIVE", "--probes ran out"),
    ],
)
def test_find_max_says_what_it_cannot_find(
    play: Play, tmp_path: Path, flags: list[str], formula: Formula, verdict: str, says: str
) -> None:
    found, _ = play("find-max", *flags, formula=formula)
    assert found.verdict == verdict and says in " ".join(found.notes)
    assert len(found.points) <= 19
    assert (tmp_path / "capacity.json").exists() == (found.best is not None)


def test_find_max_asks_for_the_time_that_a_percentile_takes(play: Play, tmp_path: Path) -> None:
    """A server of 79 requests a second that answers all of them soon enough, but no probe has 1,000 answers."""
    found, server = play("find-max", "--slo", "p99=400ms", "--duration", "1s", formula=Formula(79 * 74 / 64))
    (probe,) = found.points
    assert probe.offered_rate == pytest.approx(0.8 * 79) and [load for load in server.loads if load.rate] == [
        server.loads[-1]
    ]
    assert (found.verdict, found.exit_code, found.best) == ("INCONCLUSIVE", 9, None)
    assert "too few answers (632) to know p99" in found.notes[-1] and "--duration 1.8s" in found.notes[-1]
    assert not (tmp_path / "capacity.json").exists()
    # With the duration that it asks for, the answer is known.
    found, _ = play("find-max", "--slo", "p99=400ms", "--duration", "2s", formula=Formula(79 * 74 / 64))
    assert found.verdict == "VALID" and found.best_point is not None
    assert found.best_point.rate == pytest.approx(79 * 74 / 64 - math.log(100) / 0.4, rel=0.05)


def test_find_max_says_that_a_percentile_cannot_be_known_at_its_defaults(play: Play) -> None:
    """p99 takes 1,000 answers, and a probe ten times 10 s at most: below 10/s it is not known."""
    found, server = play("find-max", "--slo", "p99=2s", "--start", "11", formula=Formula(20))
    assert found.verdict == "INCONCLUSIVE" and "--duration 13s" in found.notes[-1]
    assert server.loads[-1].duration_s == 100


def test_find_max_goes_on_for_longer_where_calls_are_not_answered(play: Play) -> None:
    """A third of the calls is refused whatever the rate, which this SLO allows."""

    class Refuses(Formula):
        def point(self, load: LoadSpec, name: str) -> Point:
            found = super().point(load, name)
            if load.rate:
                found.rate *= 2 / 3
                times = {"p99": 20_000.0, "count": found.rate * load.duration_s}
                found.response_time_us = with_samples_only(times)
            return found

    found, server = play("find-max", "--slo", "p99=1s", "--duration", "3s", "--start", "100", formula=Refuses(300))
    probes = [load for load in server.loads if load.rate == 80]
    assert [load.duration_s for load in probes[:2]] == pytest.approx([1100 / 80, 1650 / 80])
    assert found.best is not None and found.extra["lower_bound"]


def test_overload(play: Play) -> None:
    found, server = play("overload", "--capacity", "10000")
    assert [p.offered_rate for p in found.points[:4]] == [5000, 10_000, 20_000, 50_000]
    assert server.loads[-1].arrivals == "step:50000,5000" and server.loads[-1].duration_s == 20
    assert found.extra["recovery_s"] == 2
    assert "a refusal takes 40 µs" in " ".join(found.notes)


def test_overload_ends_where_the_generator_does(play: Play) -> None:
    found, server = play("overload", "--capacity", "10000", formula=Formula(generator=30_000))
    assert [p.offered_rate for p in found.points[:-1]] == [5000, 10_000, 20_000, 50_000]
    assert server.loads[-1].arrivals == "step:20000,5000" and found.verdict == "VALID"
    found, _ = play("overload", "--capacity", "10000", formula=Formula(generator=1))
    assert found.verdict == "INVALID" and len(found.points) == 1


def test_overload_says_where_recovery_cannot_be_seen(play: Play) -> None:
    """At half of 12 requests a second, random arrivals may leave a second without any."""
    found, _ = play("overload", "--capacity", "12", formula=Formula(12))
    assert "recovery_s" not in found.extra and "how soon it recovers is not known" in " ".join(found.notes)
    assert "back to usual" not in " ".join(found.notes)

    class Late(Formula):
        def point(self, load: LoadSpec, name: str) -> Point:
            found = super().point(load, name)
            return replace(found, verdict=INVALID) if name.startswith("back") else found

    found, _ = play("overload", "--capacity", "10000", formula=Late())
    assert "recovery_s" not in found.extra and "the generator was the limit" in found.notes[0]


def test_soak_takes_a_share_of_the_peak(play: Play) -> None:
    found, server = play("soak", "--duration", "60s")
    assert server.loads[-1].rate == pytest.approx(0.7 * found.extra["peak"]["rate"])
    assert found.verdict == "VALID" and found.notes == ["nothing grew"]


def test_soak_says_what_was_too_short_to_tell(play: Play) -> None:
    found, _ = play("soak", "--duration", "5s", "--rate", "1000")
    assert "too few samples to tell whether this grew: p50, p99;" in found.notes[0]
    assert "nothing grew" not in found.notes
    assert (found.verdict, found.exit_code) == ("INCONCLUSIVE", 9)


def test_soak_of_a_server_elsewhere_says_what_was_not_watched(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = SimpleNamespace(own=False, local=True, base={})
    usual = FakeContext.__post_init__
    monkeypatch.setattr(FakeContext, "__post_init__", lambda self: (setattr(self, "target", elsewhere), usual(self))[1])
    found, _ = play("soak", "--duration", "60s", "--rate", "100")
    assert found.notes[-1] == "memory and descriptors were not watched: name the server's supervisor with --pid"


def test_no_call_is_no_verdict(play: Play) -> None:
    class Nothing(Formula):
        def point(self, load: LoadSpec, name: str) -> Point:
            return Point(name, verdict=INVALID, reasons=["no call was due in the measured window"])

    found, _ = play("rate", "--rate", "0.01", "--slo", "p99=1s", formula=Nothing())
    assert found.verdict == "INCONCLUSIVE" and "no call was due" in found.notes[0]


def test_a_trace(play: Play, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("0\n1000\n")
    found, server = play("rate", "--trace", str(trace), "--speedup", "4")
    assert (server.loads[0].trace, server.loads[0].speedup, server.loads[0].duration_s) == (str(trace), 4, 0)
    assert found.points[0].name == "trace.csv, 4 × as fast"


@pytest.mark.parametrize(
    ("name", "flags", "says"),
    [
        ("rate", ["--rate", "2000M"], "2e+09/s is not possible"),
        ("rate", ["-c", "0"], "0 calls in flight"),
        ("rate", ["-c", "5", "--slo", "p99=1ms"], "--slo needs an open loop"),
        ("sweep", ["--points", "3"], "8 to 12"),
        ("sweep", ["--rates", "5,x"], "write numbers"),
        ("sweep", ["--rates", "5,3"], "the lowest first"),
        ("sweep", ["--rates=-1,3"], "--rates -1,3: write numbers of calls per second"),
        ("find-max", [], "--slo p99=20ms"),
        ("find-max", ["--slo", "p99=1ms", "--probes", "2"], "at least 4"),
        ("find-max", ["--slo", "p99=1ms", "--start", "2000M"], "2e+09/s is not possible"),
        ("overload", ["--capacity", "nowhere.json"], "cannot read nowhere.json"),
        ("soak", ["--rate", "2000M"], "2e+09/s is not possible"),
        ("rate", ["--trace", "nowhere.csv"], "no trace nowhere.csv"),
        ("rate", ["--rate", "5", "--speedup", "2"], "--speedup needs --trace"),
        ("rate", ["--rate", "5", "--repetitions", "0"], "--repetitions 0: 1 to 100"),
        ("rate", ["--rate", "5", "--duration", "10"], "--duration: '10' has no unit"),
        ("rate", ["--rate", "5", "--seed", "-1"], "--seed -1"),
        ("rate", ["--rate", "5", "--set", "lanes"], "write KEY=VALUE"),
    ],
)
def test_flags_that_cannot_be(play: Play, name: str, flags: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        play(name, *flags)


@pytest.mark.parametrize(
    ("name", "flags", "loads"),
    [("rate", "--rate 5k", {5000.0}), ("sweep", "--rates 1k,2.5k", {1000.0, 2500.0}),
     ("find-max", "--start 1k", {1000.0}), ("overload", "", set()), ("soak", "--rate 1K", {1000.0})],
)  # fmt: skip
def test_rates_with_units_and_an_objective_of_errors_alone(
    name: str, flags: str, loads: set[float], play: Play, tmp_path: Path
) -> None:
    found, server = play(name, *flags.split(), "--slo", "err=0.1%")
    assert loads <= {load.rate for load in server.loads}
    assert found.verdict in ("VALID", "INCONCLUSIVE") and found.slo in (None, {"error_ratio": 0.001})
    with pytest.raises(SystemExit):
        play("rate", "--rate", "10q")


def test_workload_flags() -> None:
    parser = argparse.ArgumentParser()
    add_common(parser)
    common = read_common(
        parser.parse_args(["--unique", "--model", "m", "--device", "null", "--set", "max_batch_items=8"])
    )
    assert common.settings == {"model": ["m"], "device": "null", "max-batch-items": "8"}
    assert common.workload == Workload(parse_call("predict"), texts=100_000)
    common = read_common(parser.parse_args(["--address", "h:1", "--model", "m", "--repeat", "5"]))
    assert common.settings == {} and (common.workload.model, common.workload.texts) == ("m", 5)
    assert common.slo is None and isinstance(Slo.parse("p99=1ms"), Slo)
