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


def alike(counted: np.ndarray, lag: int = 1) -> float:
    """Autocorrelation of counts."""
    return float(np.corrcoef(counted[:-lag], counted[lag:])[0, 1])


@pytest.mark.parametrize(
    ("text", "rate", "mean"),
    [
        ("constant", 2000, 2000),
        ("poisson", 2000, 2000),
        ("gamma:0.25", 2000, 2000),
        ("gamma:4", 2000, 2000),
        ("onoff:100ms,300ms", 2000, 2000),
        ("mmpp:1000,5000,50ms,20ms", None, (1000 * 0.05 + 5000 * 0.02) / 0.07),
        ("mmpp:1000,5000,50ms,20ms", 2000, 2000),
        ("step:1000,4000,1k", None, 2000),
        ("step:1000,4000,1000", 500, 500),
        ("ramp:0,4000", None, 2000),
        ("ramp:1,3", 2000, 2000),
        ("sine:0.8,500ms", 2000, 2000),
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
        # On-off and MMPP: Poisson at a rate that moves. MMPP(2) of r1, r2 with stays t1, t2 has in the long run
        # 1 + 2 (r1 - r2)² (t1 t2)² / (t1 + t2)² / (r1 t1 + r2 t2)  =  1 + 2 · 4000² · 0.001² / 0.07² / 150  =  44.5
        ("mmpp:1000,5000,50ms,20ms", 36.0, 46.0),
    ],
)
def test_dispersion_index(text: str, least: float, most: float) -> None:
    rate = None if "mmpp" in text else 2000.0
    found = np.mean([dispersion(counts(text, rate, 60.0, 0.5, seed)) for seed in SEEDS])
    assert least <= found <= most


def test_autocorrelation() -> None:
    """Poisson counts do not resemble their neighbours; an MMPP's do, as exp(-τ (1/t1 + 1/t2)) says; a sine's period
    comes back."""
    limit = 3 / (60 / 0.01) ** 0.5
    assert all(abs(alike(counts("poisson", 2000, 60.0, 0.01, seed))) < 1.5 * limit for seed in SEEDS)
    found = [counts("mmpp:1000,9000,50ms,50ms", None, 60.0, 0.005, seed) for seed in SEEDS]
    for lag in (2, 5):
        ratio = np.mean([alike(c, lag + 3) for c in found]) / np.mean([alike(c, lag) for c in found])
        assert abs(ratio - np.exp(-3 * 0.005 * 40)) < 0.08
    wave = counts("sine:0.9,1s", 2000, 30.0, 0.05, 1)
    assert alike(wave, 20) > 0.9 and alike(wave, 10) < -0.9


def test_shapes_run_as_they_say() -> None:
    steps = counts("step:100,1000,0,400", None, 40.0, 10.0, 1)
    assert steps[2] == 0 and np.allclose(steps / [1000, 10000, 1, 4000], [1, 1, 0, 1], atol=0.11)
    ramp = counts("ramp:1000,0", None, 20.0, 5.0, 1)
    assert np.allclose(ramp / [4375, 3125, 1875, 625], 1, atol=0.1)
    bursts = arrivals.parse("onoff:20ms,80ms").schedule(1000, 10.0, 0.0, 1)
    assert np.all(bursts % 100_000_000 <= 20_000_000)
    assert np.array_equal(
        arrivals.parse("constant").schedule(4, 1.0, 0.5, 1) // 1_000_000, [0, 250, 500, 750, 1000, 1250]
    )


def test_warm_up_runs_at_the_first_rate_or_the_mean() -> None:
    for text, rate, first in (("step:500,9000", None, 500), ("sine:0.9,1s", 700, 700), ("poisson", 900, 900)):
        due = arrivals.parse(text).schedule(rate, 10.0, 10.0, 1)
        assert abs((due < 10e9).sum() / 10 / first - 1) < 0.1, text
    assert arrivals.parse("ramp:0,100").schedule(None, 10.0, 5.0, 1)[0] > 5e9


@pytest.mark.parametrize("text", ["poisson", "gamma:0.5", "mmpp:10,900,1s,1s", "onoff:1s,1s", "ramp:1,2", "sine:1,3s"])
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
    with pytest.raises(UsageError, match="the rate would change"):
        arrivals.parse("onoff:1us,1us").schedule(10.0, 600.0, 0.0, 1)
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
        ("onoff:1s", "should read onoff:ON,OFF"),
        ("onoff:1,2", "'1' is no duration"),
        ("onoff:0s,1s", "0 is no period"),
        ("mmpp:1,2,1s", "should read mmpp:R1,R2,T1,T2"),
        ("mmpp:0,0,1s,1s", "with every rate 0 there are no calls"),
        ("mmpp:-1,5,1s,1s", "'-1' is no rate"),
        ("step:5", "should read step:R1,R2,…"),
        ("ramp:1,2,3", "should read ramp:R1,R2"),
        ("sine:2,1s", "AMPLITUDE is 2; it must be at least 0 and at most 1"),
    ],
)
def test_bad_specifications_are_told_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        arrivals.parse(text)


TRACES = {
    "numbers.txt": "5000\n5100.5\n\n5100.5\n7000\n",
    "rows.csv": "t_us, payload ,deadline_ms\n5000,0,20\n5100.5,,\n5100.5,3,\n7000,1,1.5\n",
    "rows.jsonl": '{"t_us": 5000, "payload": 0, "deadline_ms": 20}\n{"t_us": 5100.5}\n{"t_us": 5100.5, "payload": 3}\n'
    '{"t_us": 7000, "payload": 1, "deadline_ms": 1.5}\n',
}


@pytest.mark.parametrize("name", TRACES)
def test_traces_of_every_form_play_as_recorded(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(TRACES[name])
    trace = traces.read(str(path))
    assert trace.times_ns.tolist() == [0, 100_500, 100_500, 2_000_000]  # from the first call on
    if name != "numbers.txt":
        assert trace.payload.tolist() == [0, -1, 3, 1]
        assert trace.deadline_ns.tolist() == [20_000_000, -1, -1, 1_500_000]
    assert trace.faster(2.5).times_ns.tolist() == [0, 40_200, 40_200, 800_000]
    assert trace.faster(2.5).deadline_ns.tolist() == trace.deadline_ns.tolist()
    assert len(trace.until(100_501).times_ns) == 3
    with pytest.raises(UsageError, match=r"with --speedup 1e-10 the trace lasts longer than 7 days"):
        trace.faster(1e-10)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5\n4\n", r"trace:2: 4 µs comes after 5 µs; a trace is sorted by time"),
        ("", "has no calls"),
        ("\n\n", "has no calls"),
        ("1\nx\n", r"trace:2: 'x' holds something that is no number"),
        ("-1\n", r"trace:1: t_us is -1.0"),
        ("inf\n", r"t_us is needed"),
        ("1\nnan\n", r"trace:2: t_us is nan"),
        ("t,payload\n1,2\n", r"trace:1: the columns are t_us, payload, deadline_ms, of which t_us is needed"),
        ("t_us,cost\n1,2\n", r"needed: cost"),
        ("t_us,payload\n1\n", r"trace:2: 1 columns instead of 2"),
        ("t_us,payload\n1,0.5\n", r"payload is 0.5"),
        ('{"t_us": 1, "deadline_ms": 0}', r"deadline_ms is 0"),
        ('{"t_us": true}', r"t_us is True"),
        ('{"t_us": 1, "model": "x"}', r"unknown key 'model'"),
        ('{"t_us": 1', r"trace:1: no JSON object"),
        ('{"t_us": ' + "[" * 100_000, r"trace:1: no JSON object"),
        ('{"t_us": ' + "1" * 5000 + "}", r"trace:1: no JSON object"),
        ('{"t_us": ' + "1" * 400 + "}", r"trace:1: t_us is 1{40}…"),
        ('{"t_us": 1, "payload": 1e300}', r"trace:1: payload is 1e\+300"),
        ("t_us,deadline_ms\n1,1e300\n", r"trace:2: deadline_ms is 1e\+300"),
        ("1" * 200_000, r"trace:1: field larger than field limit"),
        ("0\n9e11\n", r"lasts longer than 7 days"),
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
