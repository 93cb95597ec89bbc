"""loadgen._native: its histograms against the package, its numbers and errors. The rest is in loadgen/csrc/tests."""

from __future__ import annotations

import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from figures import Perf
from hdrh.histogram import HdrHistogram
from hpack import Decoder
from serving import PATIENCE_S

from loadgen import _native, built, histogram

PATH = "/test.Service/Call"
MS = 1_000_000


def engine(port: int, payloads: list[bytes] | None = None, **options: Any) -> _native.Engine:
    made = _native.Engine("127.0.0.1", port, PATH, [("x-test", "1")], payloads or [b"hello"], **options)
    made.connect(PATIENCE_S)
    return made


def constant(count: int, gap_ns: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(count, dtype=np.int64) * gap_ns, np.zeros(count, np.uint32)


def finish(run: _native.Engine) -> _native.Result:
    assert run.wait(PATIENCE_S)
    found = run.result()
    assert sum(found.outcomes_all.values()) == found.due_all
    assert sum(found.outcomes.values()) == found.due
    return found


def test_histograms_have_the_layout_of_the_package() -> None:
    spread = np.exp(np.random.default_rng(5).uniform(0, np.log(3.6e12), 20_000)).astype(np.int64)
    powers = 2 ** np.arange(41)
    values = np.concatenate([np.arange(5000), powers, powers[1:] - 1, spread, [histogram.HIGHEST_NS]])
    theirs = HdrHistogram(1, histogram.HIGHEST_NS, 3)
    for value in values.tolist():
        assert theirs.record_value(value)
    found = _native.record(values)
    assert found.counts.tolist() == list(theirs.counts)
    assert (found.count, found.sum_ns) == (len(values), int(values.sum()))
    assert (found.min_ns, found.max_ns) == (0, histogram.HIGHEST_NS)
    beyond = _native.record([10**18, histogram.HIGHEST_NS]).counts
    assert np.flatnonzero(beyond).size == 1


# ---- against the server that behaves


@pytest.mark.parametrize(
    "path",
    ["loadgen/csrc/worker.cpp", "loadgen/csrc/bind/engine.cpp", "loadgen/csrc/server/new.h", "csrc/h2client/wire.cpp"],
)
def test_an_engine_of_other_sources_is_refused(path: str, tmp_path: Path) -> None:
    for part in built.PARTS:
        shutil.copytree(built.TREE / part, tmp_path / part, dirs_exist_ok=True)
    (tmp_path / "setup.py").touch()
    built.check(built.checksum(), tmp_path)
    with (tmp_path / path).open("a") as file:
        file.write("\n")
    with pytest.raises(ImportError, match="built from other sources than those in "):
        built.check(built.checksum(), tmp_path)


def test_without_sources_there_is_nothing_to_compare(tmp_path: Path) -> None:
    built.check("no tree", tmp_path)


def test_names_and_samples() -> None:
    server = _native.Server()
    run = engine(server.port, samples_max=1, sample_every=1)
    run.start(*constant(3, MS))
    (sample,) = finish(run).samples
    assert (sample.payload, sample.answer) == (0, b"hello")
    assert _native.OUTCOMES[:2] == ("OK", "CANCELLED") and _native.OUTCOMES[16] == "UNAUTHENTICATED"
    assert len(set(_native.OUTCOMES)) == len(_native.OUTCOMES)
    assert _native.NGHTTP2[0].isdigit()


def test_an_open_loop_and_its_timeline() -> None:
    server = _native.Server(service_ns=MS)
    run = engine(server.port, [b"one", b"three"], connections=2, threads=2, interval_ns=100 * MS)
    times, _ = constant(500, 2 * MS)
    run.start(times, np.arange(500, dtype=np.uint32) % 2, measure_from_ns=200 * MS)
    intervals = []
    while not run.wait(0.05):
        intervals += run.poll()
    intervals += run.poll()
    found = finish(run)
    assert found.outcomes_all == {"OK": 500} and found.due == found.response.count == 400
    assert found.service.min_ns >= MS
    assert (found.measure_from_ns, found.measure_until_ns, found.stopped) == (200 * MS, 998 * MS + 1, False)
    assert abs(found.start_unix_ns / 1e9 - time.time()) < 60
    assert [interval.index for interval in intervals] == list(range(len(intervals)))
    assert sum(interval.outcomes.get("OK", 0) for interval in intervals) == 500
    assert sum(int(interval.response_counts.sum()) for interval in intervals) == 500
    assert all(len(i.response_indexes) == len(i.response_counts) for i in intervals)
    assert intervals[-1].in_flight == intervals[-1].waiting == 0
    assert all(thread.cpu_s < thread.wall_s and thread.slept_s > 0 for thread in found.threads)


@pytest.mark.perf
def test_low_rates_cost_little(perf: Perf) -> None:
    server = _native.Server()

    def measure() -> float:  # other programs may take the CPU, but not give any
        run = engine(server.port)
        run.start(*constant(100, 5 * MS))
        thread = finish(run).threads[0]
        return thread.cpu_s / thread.wall_s

    perf("CPU of loadgen at 200 calls/s", measure, at_most=0.1)


def test_an_engine_can_be_dropped_while_it_runs() -> None:
    """That is not waited for: it would be for 1000 s, and the time-out of tests would end this one."""
    server = _native.Server()
    run = engine(server.port)
    run.start(*constant(1000, 1000 * MS))
    del run


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"payloads": []}, "at least one payload"),
        ({"call": "batch"}, "call must be unary"),
        ({"threads": 3}, "connections must be at least threads"),
        ({"expected": [b"", b""]}, "expected must"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"host": "127.0.0.1", "port": 1, "path": PATH, "headers": [], "payloads": [b""]}
    with pytest.raises(ValueError, match=message):
        _native.Engine(**{**usual, **options})


def test_bad_schedules_are_named() -> None:
    server = _native.Server()
    run = engine(server.port)
    for times, payloads, message in (
        ([3, 2], [0, 0], "not sorted"),
        ([1, 2], [0, 1], "no payload"),
        ([1, 2], [0], "as long as"),
        ([[1, 2]], [0, 0], "one dimension"),
    ):
        with pytest.raises(ValueError, match=message):
            run.start(np.array(times), np.array(payloads, np.uint32))
    with pytest.raises(ValueError, match="at least connections"):
        run.start_closed(0, MS, np.zeros(1, np.uint32))
    with pytest.raises(RuntimeError, match="not ended"):
        run.result()
    run.start(*constant(3, MS))
    with pytest.raises(RuntimeError, match="started already"):
        run.start(*constant(3, MS))
    assert finish(run).outcomes_all == {"OK": 3}
    idle = _native.Engine("127.0.0.1", 1, PATH, [], [b""])
    with pytest.raises(RuntimeError, match="not connected"):
        idle.start(*constant(1, 1))


def test_bad_servers_are_named() -> None:
    with pytest.raises(ValueError, match="times must not be negative"):
        _native.Server(service_ns=-1)
    first = _native.Server()
    with pytest.raises(OSError, match="in use"):
        _native.Server(port=first.port)
    first.stop()
    first.stop()


def request_of(listener: socket.socket) -> dict[str, str]:
    """The headers of the first request on the first connection, which then ends."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as file:
        connection.sendall(b"\0\0\0\x04\0\0\0\0\0")  # SETTINGS
        file.read(24)
        while head := file.read(9):
            payload = file.read(int.from_bytes(head[:3], "big"))
            if head[3] == 1:
                return {str(name): str(value) for name, value in Decoder().decode(payload)}
    return {}


@pytest.mark.parametrize(
    ("deadline_ms", "timeout", "most"),
    [(0, "", 0), (9_000, "u", 9_000_000), (300_000, "S", 300)],  # at most eight digits
)
def test_calls_look_like_those_of_a_grpc_client(deadline_ms: int, timeout: str, most: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        heard = pool.submit(request_of, listener)
        port = listener.getsockname()[1]
        run = engine(port)
        run.start(*constant(1, MS), deadline_ms * MS)
        assert finish(run).outcomes_all == {"CONNECTION_LOST": 1}
        asked = heard.result()
    said = asked.pop("grpc-timeout", "")
    assert asked == {
        ":method": "POST",
        ":scheme": "http",
        ":path": PATH,
        ":authority": f"127.0.0.1:{port}",
        "te": "trailers",
        "content-type": "application/grpc",
        "user-agent": "loadgen",
        "x-test": "1",
    }
    assert said[-1:] == timeout and 0.8 * most <= int(said[:-1] or 0) <= most  # what is left of it


def test_memory_does_not_grow_with_calls() -> None:
    """What a run keeps does not depend on how many calls it made."""
    import resource

    server = _native.Server()

    def peak_after(duration_ms: int) -> int:
        run = engine(server.port, connections=4, interval_ns=10 * MS)
        run.start_closed(64, duration_ms * MS, np.zeros(1, np.uint32))
        calls.append(finish(run).due_all)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    calls: list[int] = []
    before = peak_after(200)
    assert peak_after(1000) - before < 20_000  # KiB
    assert calls[1] > calls[0] + 500
