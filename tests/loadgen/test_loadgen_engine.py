"""The whole generator against servers whose behaviour is known: queues that theory solves, stalls, refusals, none."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from pathlib import Path
from statistics import median

import grpc.aio
import numpy as np
import pytest
from figures import Perf
from loadgen_runs import METHOD, MS, command, run, server
from serving import PATIENCE_S
from tries import until_in_time

from loadgen import arrivals
from loadgen._native import Engine
from loadgen.histogram import Histogram

SEED = 17


# ---- theory


def lindley_ns(due_ns: np.ndarray, service_ns: float) -> float:
    """Mean response time of a queue with these arrivals and one server of constant speed."""
    free_ns, total = 0.0, 0.0
    for at in due_ns.tolist():
        free_ns = max(free_ns, at) + service_ns
        total += free_ns - at
    return total / len(due_ns)


def responses(port: int, due_ns: np.ndarray) -> Histogram:
    """Response times of calls that are due then."""
    engine = Engine("127.0.0.1", port, METHOD, [], [b"x"], connections=4)
    engine.connect(PATIENCE_S)
    engine.start(due_ns, np.zeros(len(due_ns), np.uint32))
    assert engine.wait(PATIENCE_S) and set(engine.result().outcomes) == {"OK"}
    return Histogram.of(engine.result().response)


@pytest.mark.perf
def test_waits_are_those_of_the_recursion(perf: Perf) -> None:
    """M/D/1 at a load of 70 %, these very arrivals: none measures less; more comes of a busy machine."""
    service_ns, load, seconds = 3 * MS, 0.7, 3.0
    due_ns = arrivals.parse("poisson").schedule(load * 1e9 / service_ns, seconds, 0.0, SEED)
    exact_ns = lindley_ns(due_ns, service_ns)

    def measure() -> float:
        with server(service_ns=service_ns) as found:
            alone = responses(found.port, np.arange(0, 600 * MS, 20 * MS, dtype=np.int64))
            mean_ns = responses(found.port, due_ns).mean_ns
        assert mean_ns > 0.99 * exact_ns
        return (mean_ns - alone.percentile_ns(50)) / (exact_ns - service_ns)  # less the way there and back

    perf("waits in M/D/1 over the recursion's", measure, at_most=1.25, tries=6)


@pytest.mark.perf
def test_grpc_aio_measures_the_same_p50(tmp_path: Path, perf: Perf) -> None:
    """A slow generator in plain Python, at a low rate, the same intended times: the best p50 of both differ little."""
    ours_us, theirs_us = [], []

    def measure() -> float:
        theirs_us.append(asyncio.run(reference_us(found.port, rate=20, seconds=1.5)))
        flags = ("--rate", "20", "--arrivals", "constant", "--duration", "1500ms", "--warmup", "0s")
        ours_us.append(run(tmp_path, found.port, *flags, code=None)["response_time_us"]["p50"])
        return min(ours_us) / min(theirs_us)

    with server(service_ns=30 * MS) as found:
        perf("p50 over grpc.aio's", measure, at_least=0.9, at_most=1.1, tries=12)


async def reference_us(port: int, rate: float, seconds: float) -> float:
    """The p50 of an open loop with grpc.aio, from the intended times."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(METHOD, lambda message: message, lambda message: message)
        await call(b"x")
        began = time.perf_counter()

        async def one(due_s: float) -> float:
            await asyncio.sleep(max(0.0, began + due_s - time.perf_counter()))
            await call(b"x")
            return time.perf_counter() - began - due_s

        return 1e6 * median(await asyncio.gather(*(one(i / rate) for i in range(round(rate * seconds)))))


# ---- verdicts of real runs


def test_an_absurd_rate_is_the_generator_s_limit(tmp_path: Path) -> None:
    with server() as found:
        flags = ("--rate", "5M", "--arrivals", "constant", "--duration", "500ms", "--warmup", "0s", "--grace", "200ms")
        result = run(tmp_path, found.port, *flags, code=7)
    assert result["verdict"] == "INVALID" and "generator-bound" in result["reasons"][0]
    assert result["stdout"].startswith("INVALID") and result["achieved_rate"] < 0.995 * result["offered_rate"]
    assert result["own_lateness_us"]["p99"] > 1000
    # So far behind that nothing of the measured window was sent at all: no failure of the server's either.
    with server() as found:
        flags = ("--rate", "5M", "--arrivals", "constant", "--duration", "100ms", "--warmup", "1s", "--grace", "200ms")
        result = run(tmp_path, found.port, *flags, code=7)
    assert set(result["status"]) == {"NOT_SENT"} and "generator-bound" in result["reasons"][0]


def test_a_generator_that_is_kept_from_its_cpu_says_so(tmp_path: Path) -> None:
    """Half a second of two, in which the whole process stands still."""
    path = tmp_path / "result.json"
    with server(service_ns=100_000) as found:
        flags = ("--rate", "200", "--duration", "2s", "--warmup", "0s", "--empty-payload", "--progress", "json")
        whole = command(found.port, *flags, "--json", str(path))
        with subprocess.Popen(whole, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout and process.stdout.readline()  # it starts
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.5)
            process.send_signal(signal.SIGCONT)
            process.communicate(timeout=PATIENCE_S)
    result = json.loads(path.read_text())
    assert (process.returncode, result["verdict"]) == (7, "INVALID") and result["own_lateness_us"]["p99"] > 1000


@pytest.mark.parametrize("few", [(), ("--connections", "1", "--streams", "2")], ids=["many streams", "few streams"])
def test_a_slow_server_is_never_the_generator_s_fault(tmp_path: Path, few: tuple[str, ...]) -> None:
    """Twice what the server can do: UNSTABLE. Few streams, so that calls wait for a free one: just the same.

    Unless the machine keeps the generator from its work: then it says so, and is asked again.
    """

    def attempt() -> str:
        with server(service_ns=10 * MS) as found:
            flags = ("--rate", "200", "--duration", "1500ms", "--warmup", "100ms", "--grace", "100ms", *few)
            result = run(tmp_path, found.port, *flags, code=None)
        assert sum(result["status"].values()) == result["calls"]["due"] > result["status"]["OK"]
        if result["code"] == 7:
            return f"{result['reasons']}"
        assert (result["code"], result["verdict"]) == (6, "UNSTABLE"), result["reasons"]
        assert "fell behind throughout" in result["reasons"][0]
        if few:
            assert any("calls waited" in note for note in result["notes"])
            assert max(second["waiting"] for second in result["timeline"]) > 50
            assert result["own_lateness_us"]["p99"] < result["lateness_us"]["p99"] / 2
        return ""

    until_in_time(attempt)


# ---- results


def test_a_closed_loop_labels_its_latencies(tmp_path: Path) -> None:
    with server(service_ns=MS) as found:
        result = run(tmp_path, found.port, "-c", "50", "--duration", "1s", "--warmup", "200ms", code=None)
    response_us = result["response_time_us"]
    assert result["loop"] == "closed" and result["offered_rate"] is None
    assert response_us["note"] == result["service_time_us"]["note"] == "closed loop: not for SLOs"
    assert "not for SLOs" in result["stdout"] and result["rate"] < 1010  # so fast is the server
    assert result["rate"] * response_us["mean"] / 1e6 == pytest.approx(50, rel=0.3)  # Little's law


def test_streams_are_measured_by_message(tmp_path: Path) -> None:
    with server(service_ns=MS, messages=3, message_gap_ns=5 * MS) as found:
        flags = ("--rate", "50", "--duration", "1s", "--warmup", "0s", "--call", "server-stream")
        result = run(tmp_path, found.port, *flags, code=None)
    ok, first_us = result["status"]["OK"], result["first_message_us"]["p50"]
    assert (result["messages"], result["message_gap_us"]["count"]) == (3 * ok, 2 * ok)
    assert first_us > 900 and result["response_time_us"]["p50"] > first_us + 9_900
