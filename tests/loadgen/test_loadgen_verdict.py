"""When a run is VALID, UNSTABLE or INVALID, and what bad command lines are told. No server, no engine."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from loadgen import options, plan
from loadgen.cli import main
from loadgen.errors import UsageError
from loadgen.timeline import Timeline, step_ns
from loadgen.verdict import Measured, judge

pytestmark = pytest.mark.compute

MS = 1_000_000
GOOD = Measured(
    closed=False,
    due=10_000,
    sent=10_000,
    p99_ns=8 * MS,
    own_lateness_p99_ns=MS // 10,
    own_share=0.9,
    open_calls=[5, 7, 6, 4, 8, 6, 5, 7, 6, 5],
    p50_ns=[2e6] * 10,
    busy=[0.3],
)


def word(**changes: object) -> str:
    return judge(dataclasses.replace(GOOD, **changes)).word


def test_lateness_of_the_generator_makes_a_run_invalid() -> None:
    assert word() == "VALID"
    assert word(own_lateness_p99_ns=MS) == "VALID"  # 1 ms is always allowed
    assert word(own_lateness_p99_ns=MS + 1) == "INVALID"
    assert word(own_lateness_p99_ns=2 * MS, p99_ns=40 * MS) == "VALID"  # so are 5 % of the p99
    assert word(own_lateness_p99_ns=2 * MS + 1, p99_ns=40 * MS) == "INVALID"
    reason = judge(dataclasses.replace(GOOD, own_lateness_p99_ns=3 * MS)).reasons
    assert reason == ["generator-bound: the p99 of the lateness that it caused itself is 3.00 ms, the limit is 1.00 ms"]


def test_calls_that_were_not_sent_in_time() -> None:
    assert word(sent=9_951) == "VALID"
    assert word(sent=9_940) == "INVALID"
    assert word(sent=9_000, own_share=0.01) == "VALID"  # the server had no stream free: that is latency
    assert word(due=0, sent=0) == "INVALID"


def test_a_server_that_stops_answering_is_unstable() -> None:
    """Its open calls are in no percentile."""
    assert word(abandoned=100) == "VALID"
    assert word(abandoned=101) == "UNSTABLE"
    assert word(abandoned=101, own_lateness_p99_ns=3 * MS) == "INVALID"


def test_calls_that_found_no_free_stream_as_their_answers_were_not_read() -> None:
    """An open loop in arrears is the server's doing only if the generator had time to read."""
    behind = {"sent": 5_000, "own_share": 0.01}
    assert word(**behind, busy=[0.9], delayed=[0.4]) == "VALID"
    assert word(**behind, busy=[0.99], delayed=[0.1]) == "INVALID"
    assert word(**behind, busy=[0.9], delayed=[0.6]) == "INVALID"
    assert word(busy=[0.99], delayed=[0.6]) == "VALID"  # all was sent in time


def test_a_slow_server_alone_is_valid() -> None:
    assert word(p99_ns=5_000 * MS, open_calls=[900, 950, 940, 960, 930, 945], p50_ns=[4e9] * 6) == "VALID"


@pytest.mark.parametrize(("intervals", "noise"), [(5, 0.0), (10, 0.0), (60, 0.0), (10, 0.15), (20, 0.15), (60, 0.3)])
def test_a_queue_that_grows_throughout_is_unstable(intervals: int, noise: float) -> None:
    rng = np.random.default_rng(intervals)
    growing = np.arange(1, intervals + 1) * 100.0 * (1 + noise * rng.standard_normal(intervals))
    changes = {"open_calls": growing.tolist(), "p50_ns": (growing * 1e6).tolist()}
    assert word(**changes) == "UNSTABLE"
    assert word(**changes, own_lateness_p99_ns=10**10) == "INVALID"  # of itself: that comes first
    assert word(**changes, closed=True) == "VALID"
    assert word(**changes | {"p50_ns": [2e6] * intervals}) == "VALID"  # many more calls, all as fast as before


def queue(rate: float, load: float, seconds: float, seed: int) -> dict[str, object]:
    """What a run shows of an M/M/1 queue with this load (1: its capacity), by the recursion of waiting times."""
    rng = np.random.default_rng(seed)
    due_s = np.cumsum(rng.exponential(1 / rate, round(rate * (seconds + 2) * 1.3)))
    due_s = due_s[due_s < seconds + 1]  # a second of warm-up
    work_s = rng.exponential(load / rate, len(due_s))
    done_s = np.maximum.accumulate(due_s - np.cumsum(work_s) + work_s) + np.cumsum(work_s)
    length_s = step_ns(round(seconds * 1e9)) / 1e9
    ends_s = 1 + length_s * np.arange(1, round(seconds / length_s) + 1)
    answered = [(done_s > end - length_s) & (done_s <= end) for end in ends_s]
    return {
        "due": int((due_s >= 1).sum()),
        "sent": int((due_s >= 1).sum()),
        "open_calls": (np.searchsorted(due_s, ends_s) - np.searchsorted(done_s, ends_s)).tolist(),
        "p50_ns": [1e9 * float(np.median((done_s - due_s)[a])) if a.any() else float("nan") for a in answered],
    }


@pytest.mark.parametrize(
    ("rate", "load", "seconds", "least", "most"),
    [
        (300, 0.9, 10, 0, 3),  # goes up and down for seconds, and is stable
        (30, 0.9, 3, 0, 8),
        (3000, 0.95, 3, 0, 3),
        (3000, 1.05, 3, 90, 100),
        (300, 1.1, 10, 85, 100),
        (300, 1.5, 3, 97, 100),
    ],
)
def test_queues_that_wander_are_stable_and_those_beyond_capacity_are_not(
    rate: float, load: float, seconds: float, least: int, most: int
) -> None:
    called = sum(word(**queue(rate, load, seconds, seed)) == "UNSTABLE" for seed in range(100))
    assert least <= called <= most


def test_a_peak_that_levels_off_is_not_unstable() -> None:
    full = [100, 400, 800, 1000, 1000, 990, 1010, 1000, 1005, 995, 1000, 1000]
    assert word(open_calls=full, p50_ns=[q * 1e6 for q in full]) == "VALID"


def test_too_few_intervals_say_nothing() -> None:
    assert word(open_calls=[1, 100, 200, 300], p50_ns=[1e6, 1e8, 2e8, 3e8]) == "VALID"
    nan = float("nan")
    assert word(open_calls=[1, 100, 200, 300, 400, 500], p50_ns=[nan, nan, 1e8, 2e8, 3e8, 4e8]) == "VALID"


def test_a_closed_loop_is_invalid_when_no_thread_ever_slept() -> None:
    assert word(closed=True, busy=[0.97]) == "VALID"
    assert word(closed=True, busy=[0.999, 0.995]) == "INVALID"
    assert word(closed=True, busy=[0.999, 0.6]) == "VALID"
    assert word(closed=True, busy=[0.7], delayed=[0.45]) == "VALID"
    assert word(closed=True, busy=[0.7], delayed=[0.55]) == "INVALID"  # and could not run when it wanted
    assert word(closed=True, own_lateness_p99_ns=10**9) == "VALID"  # a closed loop is never late


# ---- the timeline


def step(index: int, length_ns: int, end_ns: int | None = None, ok: int = 10, open_calls: int = 3) -> Any:
    return SimpleNamespace(
        index=index,
        end_ns=(index + 1) * length_ns if end_ns is None else end_ns,
        due=ok,
        sent=ok,
        outcomes={"OK": ok, "UNAVAILABLE": 1},
        in_flight=open_calls,
        waiting=1,
        own_lateness_max_ns=index,
        response_indexes=np.array([500, 2000], np.uint32),
        response_counts=np.array([ok - 1, 1], np.uint64),
    )


def test_steps_become_seconds_of_the_measured_window() -> None:
    length = step_ns(2_500_000_000)
    timeline = Timeline(700_000_000, 3_200_000_000, length)
    complete = []
    for i in range(35):
        complete += timeline.take([step(i, length)])
    assert [round(s.start_s, 3) for s in complete] == [-0.7, 0.0, 1.0, 2.0]
    timeline.take([step(35, length, 35 * length + 50_000_000)], ended=True)
    found = [second.as_json() for second in timeline.measured()]
    lengths = [(entry["t_s"], entry["length_s"], entry["ok"]) for entry in found]
    assert lengths == [(1, 1, 100), (2, 1, 100), (2.5, 0.5, 50)]
    assert found[0]["status"] == {"OK": 100, "UNAVAILABLE": 10} and found[0]["in_flight"] == 3
    assert (found[0]["p50_us"], found[0]["p99_us"]) == (0.5, 2.0) and found[0]["own_lateness_max_us"] == 0.016
    assert [s.phase for s in timeline.seconds] == ["warmup", "measured", "measured", "measured", "drain"]
    assert len(timeline.open_calls) == 25 and set(timeline.open_calls) == {4}


@pytest.mark.parametrize(("cut", "length_s"), [(False, 1.0), (True, 0.35)])
def test_the_last_second_is_whole_unless_the_run_was_cut_off(cut: bool, length_s: float) -> None:
    timeline = Timeline(0, 2_000_000_000, 100_000_000)
    timeline.take([step(i, 100_000_000) for i in range(13)])
    timeline.take([step(13, 100_000_000, 1_350_000_000)], ended=True, cut=cut)  # the last answer came then
    assert [second.length_s for second in timeline.seconds] == [1.0, length_s]


@pytest.mark.parametrize(("seconds", "step_s"), [(0.5, 0.1), (3, 0.1), (5, 0.2), (10, 0.5), (60, 1), (86400, 1)])
def test_short_runs_have_finer_steps(seconds: float, step_s: float) -> None:
    assert step_ns(round(seconds * 1e9)) == step_s * 1e9


# ---- the command line

TARGET = ["--target", "127.0.0.1:1", "--method", "/a.B/C"]
TEXT = ["--text-field", "2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: --target, --method"),
        (["--target", "nowhere", "--method", "/a.B/C"], "--target: 'nowhere' is no target; write HOST:PORT"),
        (["--target", "a:0", "--method", "/a.B/C"], "'a:0' is no target"),
        (["--target", "a:1", "--method", "a.B.C"], "'a.B.C' is no method; write /package.Service/Method"),
        ([*TARGET, *TEXT], "how much load? Give --rate R, --trace FILE or --closed N"),
        ([*TARGET, "--rate", "5"], "what to send? Give one of --payload FILE"),
        ([*TARGET, *TEXT, "--rate", "-5"], "--rate: '-5' is no rate"),
        ([*TARGET, *TEXT, "--rate", "0"], "--rate: a rate of 0 makes no calls"),
        ([*TARGET, *TEXT, "--rate", "5", "--arrivals", "poison"], "--arrivals: 'poison' is no kind of arrivals"),
        ([*TARGET, *TEXT, "--rate", "5", "--duration", "10"], "--duration: '10' is no duration"),
        ([*TARGET, *TEXT, "--rate", "5", "--duration", "0s"], "--duration must be above 0"),
        ([*TARGET, *TEXT, "--rate", "5", "--connect-timeout", "0s"], "--connect-timeout must be above 0"),
        ([*TARGET, *TEXT, "--rate", "5", "--closed", "3"], "--closed sends as fast as answers come"),
        ([*TARGET, *TEXT, "--rate", "5", "--trace", "x"], "--trace says when calls are due"),
        ([*TARGET, *TEXT, "--rate", "5", "--speedup", "2"], "--speedup is for a --trace"),
        ([*TARGET, *TEXT, "--rate", "5", "--threads", "9"], "--threads 9 needs at least as many --connections"),
        ([*TARGET, *TEXT, "--rate", "5", "--header", "x"], "'x' is no header; write KEY:VALUE"),
        ([*TARGET, *TEXT, "--rate", "5", "--header", "grpc-timeout:1S"], "own: use --deadline"),
        ([*TARGET, *TEXT, "--rate", "5", "--token-file", "/nowhere"], "--token-file /nowhere: cannot be read: No such"),
        ([*TARGET, *TEXT, "--rate", "5", "--token-file", "/dev/null"], "it holds 0 tokens; one is needed"),
        (
            [*TARGET, *TEXT, "--rate", "5", "--token-file", "t", "--header", "Authorization: x"],
            "--token-file sends the header 'authorization'",
        ),
        ([*TARGET, *TEXT, "--rate", "5", "--expect", "/nowhere"], "cannot read the payload /nowhere: No such file"),
        ([*TARGET, *TEXT, "--closed", "5", "--calls", "/tmp/x"], "--calls needs an open loop"),
        ([*TARGET, *TEXT, "--rate", "1M", "--duration", "10m"], "601,000,000 calls; a run has at most"),
        ([*TARGET, "--text-field", "0", "--rate", "5"], "--text-field: 0 is not between 1 and"),
        ([*TARGET, *TEXT, "--rte", "5"], "unknown argument --rte; did you mean --rate?"),
        ([*TARGET, "--payload", "/nowhere", "--rate", "5"], "cannot read the payload /nowhere: No such file"),
        ([*TARGET, *TEXT, "--rate", "5", "--json", "/nowhere/x"], "cannot write /nowhere/x: there is no folder"),
        ([*TARGET, *TEXT, "--rate", "5", "--samples", "/tmp"], "cannot write /tmp: it is a folder"),
        ([*TARGET, *TEXT, "--trace", "/nowhere"], "cannot read the trace /nowhere: No such file"),
    ],
)
def test_bad_command_lines(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert message in said.err and said.err.count("\n") == 1 and said.err.startswith("loadgen: ") and said.out == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# mine\n\n the-token \n", ""),
        ("one\ntwo\n", "holds 2 tokens"),
        ("two words", "no space"),
        ("schlüssel", "ASCII"),
    ],
)
def test_a_token_is_read_from_its_file(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    given = options.parse([*TARGET, *TEXT, "--rate", "5", "--header", "k:v", "--token-file", str(file)])
    if not says:
        assert options.headers(given) == [("k", "v"), ("authorization", "Bearer the-token")]
        return
    with pytest.raises(UsageError, match=says) as refused:
        options.headers(given)
    assert text not in str(refused.value)


def made(*arguments: str) -> plan.Plan:
    return plan.make(options.parse([*TARGET, *TEXT, "--texts", "3", *arguments]))


def test_a_plan_is_data() -> None:
    found = made("--rate", "100", "--arrivals", "constant", "--duration", "2s", "--deadline", "50ms")
    assert len(found.times_ns) == 300 and found.order[:4].tolist() == [0, 1, 2, 0] and found.deadline_ns == 50_000_000
    assert (found.measure_from_ns, found.measure_until_ns, found.closed) == (10**9, 3 * 10**9, 0)
    same, other = made("--rate", "100", "--seed", "2"), made("--rate", "100", "--seed", "2")
    assert np.array_equal(same.times_ns, other.times_ns) and same.payloads == other.payloads
    assert made("--closed", "7").closed == 7


def test_a_trace_chooses_payloads(tmp_path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("t_us,payload\n0,2\n10,\n3000000,1\n")
    found = made("--trace", str(path), "--speedup", "2")
    assert found.times_ns.tolist() == [0, 5_000, 1_500_000_000] and found.order.tolist() == [2, 1, 1]
    assert found.measure_until_ns == 1_500_000_001
    assert len(made("--trace", str(path), "--duration", "1s").times_ns) == 2
    path.write_text("t_us,payload\n0,3\n")
    with pytest.raises(UsageError, match="names payload 3; there are 3, counted from 0"):
        made("--trace", str(path))
    with pytest.raises(UsageError, match="ends within the warm-up"):
        made("--trace", str(path), "--warmup", "1s")
