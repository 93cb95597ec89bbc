"""The child that makes the load: its progress, its results, its failures, and Ctrl-C; with stand-ins for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT
from tries import until_in_time

from fastqps.bench.measure import generator
from fastqps.bench.measure.generator import run_generator
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.workload import Workload, parse_call
from fastqps.bench.results.result import BenchError
from fastqps.errors import ConfigError
from fastqps.v1 import predict_pb2 as pb

HEAD = """
import json, os, signal, sys, time

path = sys.argv[sys.argv.index("--json") + 1]
def results(**found): open(path, "w").write(json.dumps(found))
def say(**line): print(json.dumps(line), flush=True)
"""


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs a stand-in with this body; (what run_generator returns, the lines that it heard)."""

    def start(body: str, flags: tuple[str, ...] = ()) -> tuple[generator.Run, list[dict[str, Any]]]:
        script = tmp_path / "stand_in.py"
        script.write_text(HEAD + body)
        monkeypatch.setattr(generator, "PROGRAM", (sys.executable, str(script)))
        lines: list[dict[str, Any]] = []
        on_line = getattr(start, "on_line", lines.append)
        return run_generator(flags, cpus=(), on_line=on_line), lines

    return start


@pytest.mark.parametrize("code", [0, 1, 6, 7])
def test_results_count_whatever_the_verdict(play: Any, code: int) -> None:
    run, lines = play(f"say(t_s=1); print('not JSON'); print('[1]'); say(t_s=2); results(rate=5); sys.exit({code})")
    assert run == generator.Run({"rate": 5}, False) and lines == [{"t_s": 1}, {"t_s": 2}]


@pytest.mark.parametrize(
    ("body", "error", "says"),
    [
        ("sys.exit('loadgen: cannot connect to x:1: refused')", BenchError, "load generator: cannot connect to x:1"),
        ("print('loadgen: --rate 0 is', file=sys.stderr); sys.exit(2)", ConfigError, "load generator: --rate 0 is"),
        ("sys.exit(3)", BenchError, "exit code 3 and said nothing"),
        ("open(path, 'w').write('half a')", BenchError, "exit code 0"),
        ("results(rate=1); os.kill(os.getpid(), 11)", BenchError, "exit code -11"),
        ("import nowhere_at_all", BenchError, "No module named"),
    ],
)
def test_failures_are_one_line(play: Any, body: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as raised:
        play(body)
    assert "\n" not in str(raised.value)


def test_a_child_that_falls_silent_is_ended(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "SILENCE_S", 0.5)
    with pytest.raises(BenchError, match=r"no sign of life for 0.5 s"):
        play("time.sleep(600)")


def test_a_child_that_says_its_last_and_stays_is_ended(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "SILENCE_S", 0.5)
    with pytest.raises(BenchError, match=r"no sign of life for 0.5 s"):
        play("os.close(1); time.sleep(600)")


def test_a_child_that_speaks_now_and_then_goes_on(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """For longer in all than it may be silent. To a child that only begins late, much silence is allowed."""
    silences_s = iter((0.5, 1, 2, 4, 8))

    def attempt() -> str:
        silence_s = next(silences_s)
        monkeypatch.setattr(generator, "SILENCE_S", silence_s)
        try:
            run, _ = play(f"for _ in range(6): say(t_s=0); time.sleep({silence_s / 4})\nresults(rate=1)")
        except BenchError as error:
            return str(error)
        assert run.results == {"rate": 1}
        return ""

    until_in_time(attempt, tries=5)


WAITS = """
try:
    say(pid=os.getpid())
    for _ in range(6000):  # one long sleep could begin just after the signal
        time.sleep(0.1)
except KeyboardInterrupt:
    {then}
"""


@pytest.fixture
def interrupted(play: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """As ``play``, with a Ctrl-C as soon as the stand-in has begun."""

    monkeypatch.setattr(generator, "STOP_S", 600.0)

    def start(then: str) -> generator.Run:
        def on_line(line: dict[str, Any]) -> None:
            raise KeyboardInterrupt  # as the signal's handler does

        play.on_line = on_line
        return play(WAITS.format(then=then))[0]

    return start


def test_ctrl_c_keeps_what_was_measured(interrupted: Any) -> None:
    assert interrupted("results(rate=7); sys.exit(130)") == generator.Run({"rate": 7}, True)


@pytest.mark.parametrize("then", ["sys.exit(130)", "pass"])
def test_ctrl_c_before_anything_was_measured(interrupted: Any, then: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted(then)


def test_a_second_ctrl_c_does_not_wait(interrupted: Any) -> None:
    """The second comes while the child, which has had the first, takes its time: 600 s, if it were waited for, and then
    the time-out of tests would end this one."""
    with pytest.raises(KeyboardInterrupt):
        interrupted("os.kill(os.getppid(), signal.SIGINT); time.sleep(600)")


# ---- what it is told


def test_flags_are_those_of_loadgen(tmp_path: Path) -> None:
    """The generator itself reads them."""
    from loadgen.options import parse

    server = ["--target", "127.0.0.1:1"]
    for call, kind, method in (
        ("predict", "unary", "Predict"),
        ("batch:8", "unary", "PredictBatch"),
        ("generate", "server-stream", "Generate"),
    ):
        payloads = Workload(parse_call(call), texts=20).write(tmp_path / "payloads")
        load = LoadSpec(rate=1234.5, duration_s=2.5, warmup_s=0, connections=3, streams=7, seed=9, deadline_s=0.25)
        found = parse([*server, *load.flags(payloads), "--threads", "1", "--progress", "json", "--json", "x"])
        assert (found.call, found.method) == (kind, f"/fastqps.v1.PredictService/{method}")
        assert (found.duration, found.warmup, found.deadline) == (2_500_000_000, 0, 250_000_000)
        assert (found.connections, found.streams, found.seed, found.delimited) == (3, 7, 9, True)
    closed = parse([*server, *load.closed(2).flags(payloads)])
    assert (closed.closed, closed.connections) == (2, 2)
    trace = LoadSpec(trace="t.csv", speedup=2, duration_s=0, warmup_s=0)
    found = parse([*server, *trace.flags(payloads)])
    assert (found.trace, found.speedup, found.duration) == ("t.csv", 2, None)


@pytest.mark.parametrize(
    ("load", "says"),
    [
        ({}, "exactly one"),
        ({"rate": 5.0, "in_flight": 5}, "exactly one"),
        ({"rate": -5.0}, "a rate of -5/s is not possible"),
        ({"rate": 0.0}, "a rate of 0/s"),
        ({"rate": float("nan")}, "a rate of nan/s"),
        ({"in_flight": 0}, "0 calls in flight"),
        ({"rate": 1.0, "duration_s": 0.0}, "more than 0"),
        ({"rate": 1.0, "connections": 0}, "at least 1"),
    ],
)
def test_loads_that_cannot_be(load: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        LoadSpec(**load)


def test_payloads_are_whole_messages(tmp_path: Path) -> None:
    from loadgen.wire import delimited

    texts = tmp_path / "texts"
    texts.write_text("one\n\n  \ntwo, with ümlaut\n" + "long " * 300)
    predict = Workload(parse_call("predict"), "m", str(texts)).write(tmp_path / "p")
    messages = [pb.PredictRequest.FromString(m) for m in delimited(predict.path.read_bytes())]
    assert [(m.model, m.text) for m in messages][:2] == [("m", "one"), ("m", "two, with ümlaut")]
    assert predict.count == len(messages) == 3 and pb.PredictRequest.FromString(predict.first).text == "one"
    batch = Workload(parse_call("batch:2"), "m", str(texts)).write(tmp_path / "p")
    batches = [pb.PredictBatchRequest.FromString(m) for m in delimited(batch.path.read_bytes())]
    assert [[item.text[:4] for item in b.items] for b in batches] == [["one", "two,"], ["long", "one"]]
    made = Workload(parse_call("generate"), lengths="uniform:3,5", texts=50, max_tokens=7, seed=3)
    found = [pb.PredictRequest.FromString(m) for m in delimited(made.write(tmp_path / "p").path.read_bytes())]
    assert {len(m.text.split()) for m in found} == {3, 4, 5} and {m.generate.max_tokens for m in found} == {7}
    assert len({m.text for m in found}) == 50
    again = made.write(tmp_path / "q").path.read_bytes()
    assert again == (tmp_path / "p").read_bytes()


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ({"lengths": "x"}, "--lengths 'x': the length is 'x', which is no number"),
        ({"lengths": "0"}, "the length is 0; it must be at least 1"),
        ({"lengths": "uniform:9,3"}, "the longest is 3; it must be at least 9"),
        ({"lengths": "normal:30"}, "should read normal:MEAN,SD"),
        ({"lengths": "lognormal:30,99"}, "the spread is 99"),
        ({"lengths": "nan"}, "the length is nan"),
        ({"text_file": "/nowhere/texts"}, "cannot read /nowhere/texts"),
        ({"text_file": str(ROOT / "fastqps/py.typed")}, "has no text in it"),
        ({"text_file": sys.executable}, "is not UTF-8"),
    ],
)
def test_workloads_that_cannot_be(tmp_path: Path, made: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Workload(parse_call("predict"), **made).write(tmp_path / "p")


@pytest.mark.parametrize("text", ["", "predicts", "batch", "batch:0", "batch:9999", "batch:x", "stream:3"])
def test_calls_that_cannot_be(text: str) -> None:
    with pytest.raises(ConfigError, match="--call"):
        parse_call(text)


def test_json_of_a_run_is_json(play: Any) -> None:
    """As long as it is; a megabyte of it goes through too."""
    run, lines = play("[say(t_s=k, x='y' * 1000) for k in range(1000)]; results(big=['z' * 100] * 10000)")
    assert len(lines) == 1000 and len(json.dumps(run.results)) > 10**6
