"""What a run of the generator writes and prints, and how it fails."""

from __future__ import annotations

import csv
import itertools
import json
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from loadgen_runs import METHOD, MS, command, run, server
from ports import free_port
from serving import PATIENCE_S

from loadgen import arrivals
from loadgen.cli import main
from loadgen.histogram import PERCENTILES


def test_the_results_hold_what_they_promise(tmp_path: Path) -> None:
    samples = tmp_path / "samples.jsonl"
    flags = ("--rate", "800", "--duration", "2500ms", "--warmup", "300ms", "--deadline", "30s")
    more = ("--header", "x-test:1", "--seed", "7", "--samples", str(samples))
    with server(service_ns=200_000, fail_every=10, fail_status=8) as found:
        result = run(tmp_path, found.port, *flags, *more, code=None)
    calls, status = result["calls"], result["status"]
    assert result["schema_version"] == 1 and result["loop"] == "open" and result["code"] in (0, 6, 7)  # a noisy machine
    due = arrivals.parse("poisson").schedule(800, 2.5, 0.3, 7)
    assert calls["due"] == (due >= 300 * MS).sum() and result["offered_rate"] == calls["due"] / 2.5
    assert sum(status.values()) == calls["due"] and set(status) == {"OK", "RESOURCE_EXHAUSTED"}
    assert abs(status["RESOURCE_EXHAUSTED"] / calls["due"] - 0.1) < 0.01
    for name in ("response_time_us", "service_time_us", "lateness_us"):
        times = [result[name][percentile] for percentile in (*PERCENTILES, "max")]
        assert times == sorted(times)
        assert result[name]["count"] == status["OK"] or name == "lateness_us"
    assert result["response_time_us"]["too_few"] == ["p999"] and result["response_time_us"]["p50"] > 200
    assert result["failed_time_us"]["count"] == status["RESOURCE_EXHAUSTED"]
    assert [round(entry["t_s"], 3) for entry in result["timeline"]] == [1, 2, 2.5]
    late = 800 * result["lateness_us"]["max"] / 1e6  # calls that were sent in a later second than they were due in
    assert abs(sum(entry["sent"] for entry in result["timeline"]) - calls["sent"]) <= 0.02 * 2000 + 2 * late
    assert result["seeds"] == {"arrivals": 7, "texts": 7}
    assert result["environment"]["nghttp2"] and result["command"][:3] == ["python", "-m", "loadgen"]
    assert result["connections"]["count"] == 8 and result["cpu"]["seconds"] > 0 and result["verified"] is None
    assert "response" in result["stdout"] and "RESOURCE_EXHAUSTED" in result["stdout"]
    assert json.loads(samples.read_text().splitlines()[0])["answer"]


def test_progress_as_json_is_an_object_for_each_second(tmp_path: Path) -> None:
    with server() as found:
        flags = ("--rate", "300", "--duration", "2s", "--warmup", "1s", "--progress", "json")
        result = run(tmp_path, found.port, *flags, code=None)
    lines = [json.loads(line) for line in result["stdout"].splitlines()]
    assert [line["phase"] for line in lines][:4] == ["start", "warmup", "measured", "measured"]
    assert lines[0]["measure_until_monotonic_ns"] - lines[0]["measure_from_monotonic_ns"] == 2 * 10**9
    assert [line for line in lines if line["phase"] == "measured"] == result["timeline"]
    assert all({"t_s", "sent", "ok", "status", "p50_us", "p99_us", "in_flight"} <= set(line) for line in lines[1:])


def test_a_trace_is_replayed_exactly(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    moments = list(itertools.accumulate([0, 1000, 500, 0, 250_000, 100, 300_000]))
    trace.write_text("t_us,payload\n" + "".join(f"{at},{i % 2}\n" for i, at in enumerate(moments)))
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "answers").write_bytes(b"\x01a\x01b")
    payloads = ("--payload", str(tmp_path / "a"), str(tmp_path / "b"), "--expect", str(tmp_path / "answers"))
    with server() as found:
        result = run(tmp_path, found.port, "--trace", str(trace), "--speedup", "2", *payloads, code=None)
    # Its last call is due as the measured time ends.
    assert result["achieved_rate"] == result["offered_rate"] or result["lateness_us"]["max"] > 1000
    assert result["status"] == {"OK": 7} and abs(result["duration_s"] - moments[-1] / 2e6) < 1e-6
    assert result["verified"] == {"checked": 7, "wrong": 0}
    assert result["load"]["arrivals"] == "trace" and result["load"]["speedup"] == 2


def test_the_calls_of_a_run_are_written(tmp_path: Path) -> None:
    """Each measured one, whatever its end, in the order in which they were due."""
    trace, calls = tmp_path / "trace.csv", tmp_path / "calls.csv"
    trace.write_text("t_us,payload\n" + "".join(f"{1000 * i},{i % 2}\n" for i in range(300)))
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(name.encode())
    flags = ("--trace", str(trace), "--warmup", "100ms", "--payload", str(tmp_path / "a"), str(tmp_path / "b"))
    with server(fail_every=3, fail_status=8) as found:
        result = run(tmp_path, found.port, *flags, "--threads", "2", "--calls", str(calls), code=None)
    rows = list(csv.DictReader(calls.read_text().splitlines()))
    assert [(float(row["t_us"]), int(row["payload"])) for row in rows] == [(1000.0 * i, i % 2) for i in range(100, 300)]
    assert Counter(row["outcome"] for row in rows) == result["status"]
    slowest_us = max(float(row["response_us"]) for row in rows if row["outcome"] == "OK")
    assert abs(slowest_us - result["response_time_us"]["max"]) < 0.01


def test_wrong_answers_are_found(tmp_path: Path) -> None:
    (tmp_path / "payload").write_bytes(b"\x08\x01")
    with server(answer_bytes=3) as found:
        flags = ("--rate", "200", "--duration", "300ms", "--warmup", "0s", "--payload", str(tmp_path / "payload"))
        (tmp_path / "answers").write_bytes(b"\x02\x08\x01")
        result = run(tmp_path, found.port, *flags, "--expect", str(tmp_path / "answers"), code=1)
        assert result["verified"]["wrong"] == result["verified"]["checked"] > 10
        assert re.search(r"loadgen: \d+ of \d+ answers were wrong", result["stderr"])


def test_failures_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(port: int, *arguments: str) -> tuple[int, str]:
        """(exit code, the one line on stderr)."""
        code = main(command(port, *arguments)[3:])
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1 and lines[0].startswith("loadgen: "), lines
        return code, lines[0]

    load = ("--rate", "50", "--duration", "500ms", "--warmup", "0s", "--empty-payload")
    code, line = fails(free_port(), *load)
    assert code == 1 and "cannot connect to 127.0.0.1:" in line and "refused" in line.lower()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        code, line = fails(silent.getsockname()[1], *load, "--connect-timeout", "300ms")
    assert code == 1 and "the server says nothing" in line


def test_a_failure_ends_the_program_with_one_line() -> None:
    whole = command(free_port(), "--rate", "50", "--empty-payload")
    done = subprocess.run(whole, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and done.stderr.startswith("loadgen: cannot connect")


def test_a_method_that_is_not_there_ends_the_run_early(tmp_path: Path) -> None:
    with server(path="/load.Test/Other") as found:
        result = run(tmp_path, found.port, "--rate", "200", "--duration", "60s", "--warmup", "100ms", code=1)
    assert result["duration_s"] < 50
    said = f"loadgen: the server has no method {METHOD}: all calls were answered UNIMPLEMENTED\n"
    assert result["stderr"] == said and result["stdout"] == ""
    assert set(result["status"]) <= {"UNIMPLEMENTED", "UNFINISHED"}  # what was under way when it ended


def test_calls_that_all_fail_are_a_failure_with_a_table(tmp_path: Path) -> None:
    with server(fail_every=1, fail_status=14) as found:
        result = run(tmp_path, found.port, "--rate", "200", "--duration", "300ms", "--warmup", "0s", code=1)
    assert "loadgen: no call was answered OK: UNAVAILABLE" in result["stderr"] and "UNAVAILABLE" in result["stdout"]
    assert result["verdict"] == "INVALID" and result["failed_time_us"]["count"] == result["calls"]["due"]


def test_a_server_that_stops_for_good_is_a_failure(tmp_path: Path) -> None:
    """Every measured call stays open, though those of the warm-up were answered."""
    with server(stall_at_ns=400 * MS, stall_for_ns=100 * 10**9) as found:
        flags = ("--rate", "100", "--duration", "800ms", "--warmup", "1500ms", "--grace", "100ms")
        result = run(tmp_path, found.port, *flags, code=1)
    assert result["status_with_warmup"]["OK"] > 0 and set(result["status"]) == {"UNFINISHED"}
    assert "loadgen: no call was answered OK: UNFINISHED" in result["stderr"]


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with server(service_ns=100_000) as found:
        flags = ("--rate", "300", "--duration", "60s", "--warmup", "200ms", "--empty-payload", "--progress", "json")
        whole = command(found.port, *flags, "--json", str(path))
        process = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(3)]  # the start, the warm-up, a second
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130 and "Traceback" not in said and "interrupted" in said
    result = json.loads(path.read_text())
    assert result["interrupted"] and 0.9 < result["duration_s"] < 50 and result["status"]["OK"] >= lines[2]["ok"] > 0
    assert sum(result["status"].values()) == result["calls"]["due"]


def test_the_server_of_known_behaviour_runs_alone(tmp_path: Path) -> None:
    whole = [sys.executable, "-m", "loadgen.server", "--service", "2ms"]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        flags = ("--rate", "50", "--duration", "500ms", "--warmup", "0s")
        result = run(tmp_path, int(process.stdout.readline()), *flags, code=None)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert result["response_time_us"]["p50"] > 1990
    wrong = [*whole[:3], "--service", "often"]
    done = subprocess.run(wrong, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "'often' is no duration" in done.stderr
