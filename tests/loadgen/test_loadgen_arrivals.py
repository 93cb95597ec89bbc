"""Schedules: their rate, burstiness and correlation against theory, replay, traces, and what bad ones are told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadgen import arrivals, traces
from loadgen.errors import UsageError

pytestmark = pytest.mark.compute

SEEDS = range(12)


def counts(text: str, rate: float | None, seconds: float, bin_s: float, seed: int) -> np.ndarray:
    """Calls in each bin."""
    due_s = arrivals.parse(text).schedule(rate, seconds, 0.0, seed) / 1e9
    return np.bincount((due_s / bin_s).astype(int), minlength=round(seconds / bin_s))


def dispersion(counted: np.ndarray) -> float:
    """Variance over mean of counts: 1 for a Poisson process."""
    return float(counted.var() / counted.mean())


def alike(counted: np.ndarray) -> float:
    """Autocorrelation of counts."""
    return float(np.corrcoef(counted[:-1], counted[1:])[0, 1])


@pytest.mark.parametrize(
    ("text", "rate", "mean"),
    [
        ("constant", 2000, 2000),
        ("poisson", 2000, 2000),
        ("gamma:0.25", 2000, 2000),
        ("gamma:4", 2000, 2000),
        ("step:1000,4000,1k", None, 2000),
        ("step:1000,4000,1000", 500, 500),
    ],
)
def test_mean_rate_of_every_kind(text: str, rate: float | None, mean: float) -> None:
    """Over several seeds, within five standard errors of these seeds (and never more than 3 % off)."""
    rates = [len(arrivals.parse(text).schedule(rate, 20.0, 0.0, seed)) / 20.0 for seed in SEEDS]
    error = 5 * float(np.std(rates, ddof=1)) / len(rates) ** 0.5
    assert abs(np.mean(rates) - mean) <= error + 1e-9, (np.mean(rates), mean)
    assert abs(np.mean(rates) / mean - 1) < 0.03


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("constant", 0.0, 0.001),
        ("poisson", 0.9, 1.1),  # 1
        ("gamma:4", 0.22, 0.33),  # of a renewal process, in the long run: the squared variation of the gaps, 1/4
        ("gamma:0.25", 3.4, 4.4),  # 4
    ],
)
def test_dispersion_index(text: str, least: float, most: float) -> None:
    found = np.mean([dispersion(counts(text, 2000.0, 60.0, 0.5, seed)) for seed in SEEDS])
    assert least <= found <= most


def test_poisson_counts_do_not_resemble_their_neighbours() -> None:
    limit = 3 / (60 / 0.01) ** 0.5
    assert all(abs(alike(counts("poisson", 2000, 60.0, 0.01, seed))) < 1.5 * limit for seed in SEEDS)


def test_steps_and_constant_gaps_run_as_they_say() -> None:
    steps = counts("step:100,1000,0,400", None, 40.0, 10.0, 1)
    assert steps[2] == 0 and np.allclose(steps / [1000, 10000, 1, 4000], [1, 1, 0, 1], atol=0.11)
    assert np.array_equal(
        arrivals.parse("constant").schedule(4, 1.0, 0.5, 1) // 1_000_000, [0, 250, 500, 750, 1000, 1250]
    )


def test_warm_up_runs_at_the_first_rate_or_the_mean() -> None:
    for text, rate, first in (("step:500,9000", None, 500), ("poisson", 900, 900)):
        due = arrivals.parse(text).schedule(rate, 10.0, 10.0, 1)
        assert abs((due < 10e9).sum() / 10 / first - 1) < 0.1, text
    assert arrivals.parse("step:0,100").schedule(None, 10.0, 5.0, 1)[0] > 10e9


@pytest.mark.parametrize("text", ["poisson", "gamma:0.5", "step:1,2"])
def test_a_seed_replays_exactly_and_another_does_not(text: str) -> None:
    spec = arrivals.parse(text)
    one, same, other = (spec.schedule(300, 10.0, 1.0, seed) for seed in (5, 5, 6))
    assert np.array_equal(one, same) and not np.array_equal(one[:100], other[:100])
    assert one.dtype == np.int64 and np.all(np.diff(one) >= 0) and one[0] >= 0 and one[-1] <= 11e9


def test_limits_on_count() -> None:
    with pytest.raises(UsageError, match=r"600,000,000 calls; a run has at most 100,000,000: lower --rate"):
        arrivals.parse("constant").schedule(1e6, 600.0, 0.0, 1)
    with pytest.raises(UsageError, match=r"no call is due within 0.001 s"):
        arrivals.parse("poisson").schedule(1.0, 0.001, 0.0, 1)
    with pytest.raises(UsageError, match="need a rate"):
        arrivals.parse("poisson").schedule(None, 10.0, 0.0, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("poison", "'poison' is no kind of arrivals; there are: constant, poisson, gamma:SHAPE"),
        ("", "is no kind of arrivals"),
        ("poisson:3", "should read poisson"),
        ("gamma", "should read gamma:SHAPE"),
        ("gamma:0", "SHAPE is 0; it must be at least 0.01"),
        ("gamma:x", "SHAPE is 'x', which is no number"),
        ("gamma:nan", "SHAPE is nan"),
        ("step:0,0", "with every rate 0 there are no calls"),
        ("step:-1,5", "'-1' is no rate"),
        ("step:5", "should read step:R1,R2,…"),
    ],
)
def test_bad_specifications_are_told_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        arrivals.parse(text)


def test_a_trace_plays_as_recorded(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("t_us, payload \n5000,0\n5100.5,\n\n5100.5,3\n7000,1\n")
    trace = traces.read(str(path))
    assert trace.times_ns.tolist() == [0, 100_500, 100_500, 2_000_000]  # from the first call on
    assert trace.payload.tolist() == [0, -1, 3, 1]
    assert trace.faster(2.5).times_ns.tolist() == [0, 40_200, 40_200, 800_000]
    assert len(trace.until(100_501).times_ns) == 3
    with pytest.raises(UsageError, match=r"with --speedup 1e-10 the trace lasts longer than 7 days"):
        trace.faster(1e-10)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t_us\n5\n4\n", r"trace:3: 4 µs comes after 5 µs; a trace is sorted by time"),
        ("", "has no calls"),
        ("t_us\n\n\n", "has no calls"),
        ("t_us\n1\nx\n", r"trace:3: could not convert string to float: 'x'"),
        ("t_us\n-1\n", r"trace:2: t_us is -1"),
        ("t_us\n1\nnan\n", r"trace:3: t_us is nan"),
        ("t,payload\n1,2\n", r"trace:1: the columns are t_us, payload, of which t_us is needed, not t, p"),
        ("t_us,cost\n1,2\n", r"needed, not t_us, cost"),
        ("t_us,payload\n1\n", r"trace:2: it has more or fewer cells"),
        ("t_us,payload\n1,2,3\n", r"trace:2: it has more or fewer cells"),
        ("t_us,payload\n1,0.5\n", r"payload is 0.5"),
        ("t_us,payload\n,1\n", r"trace:2: t_us is missing"),
        ("t_us,payload\n1,1e300\n", r"trace:2: payload is 1e\+300"),
        ("1" * 200_000, r"trace:1: field larger than field limit"),
        ("t_us\n0\n9e11\n", r"lasts longer than 7 days"),
    ],
)
def test_bad_traces_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        traces.read(str(path))


def test_a_trace_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="no UTF-8 text"):
        traces.read(str(tmp_path / "binary"))
