"""The whole generator against servers whose behaviour is known: queues that theory solves, stalls, refusals, none."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import grpc.aio
import numpy as np
import pytest
from figures import Perf, Unmeasured
from loadgen_runs import METHOD, MS, command, run, server
from serving import PATIENCE_S
from tries import until_in_time

from loadgen import arrivals
from loadgen._native import Engine
from loadgen.histogram import Histogram
from loadgen.timeline import merged

T99 = 2.86  # Student's t, 99 %, 19 degrees of freedom
BATCHES = 20
SEED = 17


# ---- theory


def lindley_ns(due_ns: np.ndarray, service_ns: float) -> float:
    """Mean response time of a queue with these arrivals and one server of constant speed."""
    free_ns, total = 0.0, 0.0
    for at in due_ns.tolist():
        free_ns = max(free_ns, at) + service_ns
        total += free_ns - at
    return total / len(due_ns)


class Queue:
    """One server with a law, and what a run against it measured."""

    def __init__(self, stack: ExitStack, law: str, service_ns: int, seconds: float) -> None:
        self.port = stack.enter_context(server(law=law, service_ns=service_ns, seed=11)).port
        alone = self._engine()  # single calls: what the way there and back takes
        alone.start(np.arange(0, 600 * MS, 20 * MS, dtype=np.int64), np.zeros(30, np.uint32))
        assert alone.wait(PATIENCE_S)
        found = Histogram.of(alone.result()["response"])
        self.way_ns = (found.percentile_ns(50) if law == "constant" else found.min_ns) - service_ns
        self.engine = self._engine(interval_ns=round(seconds * 1e9 / BATCHES))

    def _engine(self, **options: Any) -> Engine:
        found = Engine("127.0.0.1", self.port, METHOD, [], [b"x"], connections=4, **options)
        found.connect(PATIENCE_S)
        return found

    def finish(self) -> np.ndarray:
        """Mean response time of each of the batches."""
        while not self.engine.wait(0.2):
            pass
        assert set(self.engine.result()["outcomes"]) == {"OK"}
        return np.array([merged([step]).mean_ns for step in self.engine.poll()[:BATCHES]])


@pytest.mark.perf
def test_waits_are_those_of_the_recursion(perf: Perf) -> None:
    """M/D/1 at a load of 70 %, these very arrivals: none measures less; more comes of a busy machine."""
    service_ns, load, seconds = 3 * MS, 0.7, 3.0
    due_ns = arrivals.parse("poisson").schedule(load * 1e9 / service_ns, seconds, 0.0, SEED)
    exact_ns = lindley_ns(due_ns, service_ns)

    def measure() -> float:
        with ExitStack() as stack:
            queue = Queue(stack, "constant", service_ns, seconds)
            queue.engine.start(due_ns, np.zeros(len(due_ns), np.uint32))
            queue.finish()
            mean_ns = Histogram.of(queue.engine.result()["response"]).mean_ns
        assert mean_ns > 0.99 * exact_ns
        return (mean_ns - queue.way_ns - service_ns) / (exact_ns - service_ns)

    perf("waits in M/D/1 over the recursion's", measure, at_most=1.25, tries=6)


@pytest.mark.perf
def test_mean_waits_are_those_of_queueing_theory(perf: Perf) -> None:
    """M/D/1 and M/M/1 at a load of r = 70 %: r s / 2 (1 - r) and r s / (1 - r). Both at the same time, mostly asleep.

    The figure is the distance from theory over half the 99 % interval, which is that of batch means. Threads that wait
    for a CPU add to the waits.
    """
    service_ns, load, seconds = 3 * MS, 0.7, 9.0
    theory = {"constant": load * service_ns / (2 * (1 - load)), "exponential": load * service_ns / (1 - load)}
    due_ns = arrivals.parse("poisson").schedule(load * 1e9 / service_ns, seconds, 0.0, SEED)

    def measure() -> float:
        with ExitStack() as stack:
            queues = {law: Queue(stack, law, service_ns, seconds) for law in theory}
            for queue in queues.values():
                queue.engine.start(due_ns, np.zeros(len(due_ns), np.uint32))
            waits = {law: queue.finish() - service_ns - queues["constant"].way_ns for law, queue in queues.items()}
        halves = {law: T99 * float(batches.std(ddof=1)) / BATCHES**0.5 for law, batches in waits.items()}
        if any(halves[law] > 0.6 * theory[law] for law in theory):
            raise Unmeasured(f"the intervals are too wide: {halves}")
        return max(abs(float(waits[law].mean()) - theory[law]) / halves[law] for law in theory)

    perf("waits off queueing theory's, over half the interval", measure, at_most=1.0, tries=2)


def test_a_stall_shows_in_the_response_time_and_not_in_the_service_time(tmp_path: Path) -> None:
    """One second of three. With few calls open at a time, only these few are slow once sent; all others waited."""
    with server(stall_at_ns=1200 * MS, stall_for_ns=1000 * MS) as stalled:
        flags = ("--rate", "400", "--arrivals", "constant", "--duration", "3s", "--warmup", "200ms")
        found = run(tmp_path, stalled.port, *flags, "--connections", "1", "--streams", "3", code=None)
    response, service, late = (found[f"{name}_us"] for name in ("response_time", "service_time", "lateness"))
    assert response["p99"] > 900_000 and response["p90"] > 400_000 and late["p99"] > 500_000
    assert service["max"] > 900_000 and service["p99"] < response["p99"] / 2
    assert found["own_lateness_us"]["p99"] < late["p99"] / 2, "the server made it wait"
    assert any("calls waited" in note for note in found["notes"])
    stalled_second = min(found["timeline"], key=lambda second: second["ok"])
    assert stalled_second["ok"] < 250 and max(second["waiting"] for second in found["timeline"]) > 150


@pytest.mark.perf
@pytest.mark.skipif(not shutil.which("h2load"), reason="needs h2load (nghttp2-client)")
def test_it_agrees_with_h2load_on_a_closed_loop(tmp_path: Path, perf: Perf) -> None:
    """A server of 200 µs a call answers 5,000/s at the most, whoever asks: the ratio of the best."""
    body = tmp_path / "body"
    body.write_bytes(b"\0\0\0\0\x05hello")
    (tmp_path / "payload").write_bytes(b"hello")
    ours, theirs = [], []

    def measure() -> float:
        flags = ("--closed", "1024", "--connections", "4", "--duration", "1s", "--warmup", "200ms")
        ours.append(run(tmp_path, found.port, *flags, "--payload", str(tmp_path / "payload"), code=None)["rate"])
        asked = ["h2load", "-t1", "-c4", "-m256", "-D1", "-d", str(body)]
        headers = ["-Hte: trailers", "-Hcontent-type: application/grpc"]
        url = f"http://127.0.0.1:{found.port}{METHOD}"
        whole = [*asked, *headers, url]
        said = subprocess.run(whole, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
        rate = re.search(r"finished in .*?, ([\d.]+) req/s", said)
        assert rate
        theirs.append(float(rate[1]))
        return max(ours) / max(theirs)

    with server(law="constant", service_ns=200_000) as found:
        perf("rate of a closed loop over h2load's", measure, at_least=0.9, at_most=1.1, tries=12)


@pytest.mark.perf
def test_grpc_aio_measures_the_same_p50(tmp_path: Path, perf: Perf) -> None:
    """A slow generator in plain Python, at a low rate, the same intended times: the best p50 of both differ little."""
    ours_us, theirs_us = [], []

    def measure() -> float:
        theirs_us.append(asyncio.run(reference_us(found.port, rate=20, seconds=1.5)))
        flags = ("--rate", "20", "--arrivals", "constant", "--duration", "1500ms", "--warmup", "0s")
        ours_us.append(run(tmp_path, found.port, *flags, code=None)["response_time_us"]["p50"])
        return min(ours_us) / min(theirs_us)

    with server(law="constant", service_ns=30 * MS) as found:
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
    with server(law="constant", service_ns=100_000) as found:
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
        with server(law="constant", service_ns=10 * MS) as found:
            flags = ("--rate", "200", "--duration", "1500ms", "--warmup", "100ms", "--grace", "100ms", *few)
            result = run(tmp_path, found.port, *flags, code=None)
        assert sum(result["status"].values()) == result["calls"]["due"] > result["status"]["OK"]
        if result["code"] == 7:
            return f"{result['reasons']}"
        assert (result["code"], result["verdict"]) == (6, "UNSTABLE"), result["reasons"]
        assert "fell behind throughout" in result["reasons"][0]
        return ""

    until_in_time(attempt)


# ---- results


def test_a_closed_loop_labels_its_latencies(tmp_path: Path) -> None:
    with server(law="constant", service_ns=MS) as found:
        result = run(tmp_path, found.port, "-c", "50", "--duration", "1s", "--warmup", "200ms", code=None)
    response_us = result["response_time_us"]
    assert result["loop"] == "closed" and result["offered_rate"] is None
    assert response_us["note"] == result["service_time_us"]["note"] == "closed loop: not for SLOs"
    assert "not for SLOs" in result["stdout"] and result["rate"] < 1010  # so fast is the server
    assert result["rate"] * response_us["mean"] / 1e6 == pytest.approx(50, rel=0.3)  # Little's law


def test_streams_are_measured_by_request(tmp_path: Path) -> None:
    with server(law="constant", service_ns=100_000) as found:
        ids = ("--request-id-field", "4", "--response-id-field", "4")
        flags = ("--rate", "500", "--duration", "1s", "--warmup", "100ms")
        result = run(tmp_path, found.port, *flags, "--call", "bidi", *ids, code=None)
        assert (
            set(result["status"]) == {"OK"} and result["streams"]["wrong_ids"] == 0 and result["load"]["streams"] == 1
        )

    with server(law="constant", service_ns=MS, messages=3, message_gap_ns=5 * MS) as found:
        flags = ("--rate", "50", "--duration", "1s", "--warmup", "0s", "--call", "server-stream")
        result = run(tmp_path, found.port, *flags, code=None)
    ok, first_us = result["status"]["OK"], result["first_message_us"]["p50"]
    assert (result["messages"], result["message_gap_us"]["count"]) == (3 * ok, 2 * ok)
    assert first_us > 900 and result["response_time_us"]["p50"] > first_us + 9_900
