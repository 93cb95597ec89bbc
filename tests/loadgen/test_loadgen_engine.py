"""The whole generator against servers whose behaviour is known: queues that theory solves, stalls, refusals, none."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import grpc.aio
import numpy as np
import pytest
from loadgen_runs import METHOD, MS, run, server
from serving import PATIENCE_S
from tries import unmet, until_in_time

from loadgen import arrivals
from loadgen._native import Engine
from loadgen.histogram import Histogram
from loadgen.timeline import merged

pytestmark = pytest.mark.alone

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
        self.own_lateness_ns = Histogram.of(self.engine.result()["own_lateness"]).percentile_ns(99)
        assert set(self.engine.result()["outcomes"]) == {"OK"}
        return np.array([merged([step]).mean_ns for step in self.engine.poll()[:BATCHES]])


def test_waits_are_those_of_the_recursion() -> None:
    """M/D/1 at a load of 70 %, these very arrivals: none measures less; more comes of a busy machine."""
    service_ns, load, seconds = 3 * MS, 0.7, 3.0
    due_ns = arrivals.parse("poisson").schedule(load * 1e9 / service_ns, seconds, 0.0, SEED)
    exact_ns = lindley_ns(due_ns, service_ns)

    more_ns, late_ns = [], []
    for _ in range(6):
        with ExitStack() as stack:
            queue = Queue(stack, "constant", service_ns, seconds)
            queue.engine.start(due_ns, np.zeros(len(due_ns), np.uint32))
            queue.finish()
            mean_ns = Histogram.of(queue.engine.result()["response"]).mean_ns
        assert mean_ns > 0.99 * exact_ns
        more_ns.append(mean_ns - queue.way_ns - exact_ns)
        late_ns.append(queue.own_lateness_ns)
        if more_ns[-1] < 0.25 * (exact_ns - service_ns):
            return
    if min(late_ns) > MS:
        pytest.skip(f"this machine is too busy to measure a queue of 3 ms: {late_ns}")
    pytest.fail(f"{more_ns} ns more than {exact_ns:,.0f} ns")


@pytest.mark.nightly
def test_mean_waits_are_those_of_queueing_theory() -> None:
    """M/D/1 and M/M/1 at a load of r = 70 %: r s / 2 (1 - r) and r s / (1 - r). Both at the same time, mostly asleep.

    The 99 % interval is that of batch means. Threads that wait for a CPU add to the waits: two tries.
    """
    service_ns, load, seconds = 3 * MS, 0.7, 9.0
    theory = {"constant": load * service_ns / (2 * (1 - load)), "exponential": load * service_ns / (1 - load)}
    due_ns = arrivals.parse("poisson").schedule(load * 1e9 / service_ns, seconds, 0.0, SEED)
    exact_ns = lindley_ns(due_ns, service_ns) - service_ns  # of M/D/1: these very arrivals through the recursion
    assert abs(exact_ns / theory["constant"] - 1) < 0.1
    seen: list[str] = []
    disturbed = 0
    for _ in range(2):
        with ExitStack() as stack:
            queues = {law: Queue(stack, law, service_ns, seconds) for law in theory}
            for queue in queues.values():
                queue.engine.start(due_ns, np.zeros(len(due_ns), np.uint32))
            good = True
            for law, queue in queues.items():
                batches = queue.finish() - service_ns - queues["constant"].way_ns
                half = T99 * float(batches.std(ddof=1)) / BATCHES**0.5
                good &= abs(batches.mean() - theory[law]) <= half < 0.6 * theory[law]
                good &= law != "constant" or abs(batches.mean() / exact_ns - 1) < 0.25
                seen.append(f"{law}: {batches.mean():,.0f} ± {half:,.0f} ns, theory {theory[law]:,.0f}")
            disturbed += max(queue.own_lateness_ns for queue in queues.values()) > MS
        if good:
            print(*seen, f"recursion {exact_ns:,.0f}", sep="\n")
            return
    if disturbed == 2:
        pytest.skip(f"this machine is too busy to measure queues of 3 ms: {seen}")
    pytest.fail(f"{seen}, recursion {exact_ns:,.0f}")


def test_a_stall_shows_in_the_response_time_and_not_in_the_service_time(tmp_path: Path) -> None:
    """One second of three. With few calls open at a time, only these few are slow once sent; all others waited."""

    def attempt() -> str:
        with server(stall_at_ns=1200 * MS, stall_for_ns=1000 * MS) as stalled:
            flags = ("--rate", "400", "--arrivals", "constant", "--duration", "3s", "--warmup", "200ms")
            found = run(tmp_path, stalled.port, *flags, "--connections", "1", "--streams", "3", code=None)
        assert found["response_time_us"]["p99"] > 900_000 and found["response_time_us"]["p90"] > 400_000
        assert found["lateness_us"]["p99"] > 500_000
        stalled_second = min(found["timeline"], key=lambda second: second["ok"])
        return unmet(
            valid=found["code"] == 0,
            few_were_slow=found["service_time_us"]["p99"] < 100_000,
            those_were=found["service_time_us"]["max"] > 900_000,
            the_server_made_it_wait=found["own_lateness_us"]["p99"] < 100_000 < 900_000 < found["lateness_us"]["p99"],
            noted=any("calls waited" in note for note in found["notes"]),
            in_the_timeline=stalled_second["ok"] < 250 and max(second["waiting"] for second in found["timeline"]) > 150,
        )

    until_in_time(attempt, tries=8)


@pytest.mark.skipif(not shutil.which("h2load"), reason="needs h2load (nghttp2-client)")
def test_it_agrees_with_h2load_on_a_closed_loop(tmp_path: Path) -> None:
    """A server of 200 µs a call answers 5,000/s at the most, whoever asks: ratio of the best within 10 %."""
    body = tmp_path / "body"
    body.write_bytes(b"\0\0\0\0\x05hello")
    (tmp_path / "payload").write_bytes(b"hello")
    ours, theirs = [], []

    def attempt() -> str:
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
        return "" if abs(max(ours) / max(theirs) - 1) < 0.1 else f"{ours[-1]} and {theirs[-1]} answers/s"

    with server(law="constant", service_ns=200_000) as found:
        until_in_time(attempt)


def test_grpc_aio_measures_the_same_p50(tmp_path: Path) -> None:
    """A slow generator in plain Python, at a low rate, the same intended times: the best p50 of both differ little."""
    ours_us, theirs_us = [], []

    def attempt() -> str:
        theirs_us.append(asyncio.run(reference_us(found.port, rate=20, seconds=1.5)))
        flags = ("--rate", "20", "--arrivals", "constant", "--duration", "1500ms", "--warmup", "0s")
        ours_us.append(run(tmp_path, found.port, *flags, code=None)["response_time_us"]["p50"])
        ratio = min(theirs_us) / min(ours_us)
        return "" if abs(ratio - 1) < 0.1 else f"p50 of grpc.aio over ours: {ratio:.2f}"

    with server(law="constant", service_ns=30 * MS) as found:
        until_in_time(attempt)


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


def test_a_generator_that_shares_its_cpu_with_busy_programs_says_so(tmp_path: Path) -> None:
    cpu = str(max(os.sched_getaffinity(0)))
    spin = "import time\nend = time.time() + 120\nwhile time.time() < end: pass"
    busy = [subprocess.Popen(["taskset", "-c", cpu, sys.executable, "-c", spin]) for _ in range(4)]
    try:
        with server(law="constant", service_ns=100_000) as found:
            flags = ("--rate", "1000", "--duration", "1500ms", "--warmup", "300ms", "--cpus", cpu)
            result = run(tmp_path, found.port, *flags, code=7)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert result["verdict"] == "INVALID" and result["own_lateness_us"]["p99"] > 1000


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
    def attempt() -> str:
        with server(law="constant", service_ns=MS) as found:
            result = run(tmp_path, found.port, "-c", "50", "--duration", "1s", "--warmup", "200ms", code=None)
        assert result["loop"] == "closed" and result["offered_rate"] is None
        assert result["response_time_us"]["note"] == result["service_time_us"]["note"] == "closed loop: not for SLOs"
        assert "not for SLOs" in result["stdout"] and result["response_time_us"]["p50"] > 40_000  # 50 share 1000/s
        rate_fits, p50_fits = abs(result["rate"] / 1000 - 1) < 0.3, result["response_time_us"]["p50"] < 90_000
        return unmet(rate=rate_fits, p50=p50_fits)

    until_in_time(attempt)


def test_streams_are_measured_by_request(tmp_path: Path) -> None:
    with server(law="constant", service_ns=100_000) as found:
        ids = ("--request-id-field", "4", "--response-id-field", "4")
        flags = ("--rate", "500", "--duration", "1s", "--warmup", "100ms")
        result = run(tmp_path, found.port, *flags, "--call", "bidi", *ids, code=None)
        assert (
            set(result["status"]) == {"OK"} and result["streams"]["wrong_ids"] == 0 and result["load"]["streams"] == 1
        )

    def attempt() -> str:
        with server(law="constant", service_ns=MS, messages=3, message_gap_ns=5 * MS) as found:
            flags = ("--rate", "50", "--duration", "1s", "--warmup", "0s", "--call", "server-stream")
            result = run(tmp_path, found.port, *flags, code=None)
        ok = result["status"]["OK"]
        assert (result["messages"], result["message_gap_us"]["count"]) == (3 * ok, 2 * ok)
        first_us = result["first_message_us"]["p50"]
        assert result["response_time_us"]["p50"] > 10_900 and first_us > 900
        return "" if first_us < 5000 else f"the first message took {first_us} µs"

    until_in_time(attempt)
