"""loadgen._native: its histograms against the package, its numbers, its errors, and servers that misbehave."""

from __future__ import annotations

import ast
import os
import shutil
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from figures import Perf
from hdrh.histogram import HdrHistogram
from hpack import Decoder, Encoder
from paths import ROOT
from serving import PATIENCE_S, until
from tries import until_in_time

from loadgen import _native, built

PATH = "/test.Service/Call"
MS = 1_000_000
Talk = Callable[["Peer"], None]


def engine(port: int, payloads: list[bytes] | None = None, **options: Any) -> _native.Engine:
    made = _native.Engine("127.0.0.1", port, PATH, [("x-test", "1")], payloads or [b"hello"], **options)
    made.connect(PATIENCE_S)
    return made


def constant(count: int, gap_ns: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(count, dtype=np.int64) * gap_ns, np.zeros(count, np.uint32)


def finish(run: _native.Engine) -> _native.Result:
    assert run.wait(PATIENCE_S)
    found = run.result()
    assert sum(found["outcomes_all"].values()) == found["due_all"]
    assert sum(found["outcomes"].values()) == found["due"]
    return found


def hdr() -> HdrHistogram:
    return HdrHistogram(1, _native.HISTOGRAM_HIGHEST_NS, _native.HISTOGRAM_DIGITS)


# ---- histograms


def test_histograms_have_the_layout_of_the_package() -> None:
    random = np.random.default_rng(5)
    values = np.concatenate(
        [
            np.arange(5000),
            2 ** np.arange(42),
            2 ** np.arange(1, 42) - 1,
            np.exp(random.uniform(0, np.log(3.6e12), 20_000)).astype(np.int64),
            [_native.HISTOGRAM_HIGHEST_NS],
        ]
    ).astype(np.int64)
    values = values[values <= _native.HISTOGRAM_HIGHEST_NS]
    oracle = hdr()
    for value in values.tolist():
        assert oracle.record_value(value)
    found = _native.record(values)
    assert oracle.counts_len == _native.HISTOGRAM_LENGTH == len(found["counts"])
    assert found["counts"].tolist() == list(oracle.counts)
    assert found["count"] == len(values)
    assert found["sum_ns"] == int(values.sum())
    assert (found["min_ns"], found["max_ns"]) == (0, int(values.max()))
    cumulated = np.cumsum(found["counts"])
    for percentile in (1, 25, 50, 90, 99, 99.9, 100):
        index = int(np.searchsorted(cumulated, int(percentile / 100 * len(values) + 0.5)))
        assert _native.histogram_value_ns(index) == oracle.get_value_at_percentile(percentile)


def test_indexes_and_values_fit_together() -> None:
    for index in range(0, _native.HISTOGRAM_LENGTH, 7):
        lowest = _native.histogram_value_ns(index, "lowest")
        highest = _native.histogram_value_ns(index)
        assert lowest <= _native.histogram_value_ns(index, "median") <= highest
        if highest <= _native.HISTOGRAM_HIGHEST_NS:
            assert _native.histogram_index(lowest) == _native.histogram_index(highest) == index
    assert _native.histogram_index(10**18) == _native.histogram_index(_native.HISTOGRAM_HIGHEST_NS)
    for wrong in (lambda: _native.histogram_index(-1), lambda: _native.record([-1])):
        with pytest.raises(ValueError, match="negative"):
            wrong()
    with pytest.raises(ValueError, match="no such index"):
        _native.histogram_value_ns(_native.HISTOGRAM_LENGTH)
    with pytest.raises(ValueError, match="lowest, median or highest"):
        _native.histogram_value_ns(0, "mean")  # type: ignore[arg-type]


# ---- against the server that behaves


def promised() -> dict[str, set[str]]:
    """Names of members of each class in _native.pyi, and under "" those of the module."""
    tree = ast.parse((ROOT / "loadgen/_native.pyi").read_text())
    found: dict[str, set[str]] = {"": set()}
    for owner in [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
        name = owner.name if isinstance(owner, ast.ClassDef) else ""
        found[name] = {node.name for node in owner.body if isinstance(node, ast.FunctionDef)}
        found[name] |= {node.target.id for node in owner.body if isinstance(node, ast.AnnAssign)}  # type: ignore[union-attr]
    return found


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


def test_the_interface_is_what_it_is_said_to_be() -> None:
    server = _native.Server()
    run = engine(server.port, samples_max=1, sample_every=1)
    run.start(*constant(3, MS))
    found = finish(run)
    interval = run.poll()[0]
    names = promised()
    assert names[""] <= set(dir(_native))
    assert names["Engine"] <= set(dir(_native.Engine)) and names["Server"] <= set(dir(_native.Server))
    assert names["Result"] == set(found)
    assert names["Interval"] == set(interval)
    assert names["Histogram"] == set(found["response"])
    assert names["Sample"] == set(found["samples"][0])
    assert names["CallRecords"] == set(found["calls"])
    assert names["ConnectionResult"] == set(found["connections"][0])
    assert names["ThreadResult"] == set(found["threads"][0])
    assert _native.OUTCOMES[:2] == ("OK", "CANCELLED") and _native.OUTCOMES[16] == "UNAUTHENTICATED"
    assert len(set(_native.OUTCOMES)) == len(_native.OUTCOMES)
    assert set(_native.environment()) == {"nghttp2", "compiler", "timer_slack_ns", "cpus"}


def test_an_open_loop_and_its_timeline() -> None:
    server = _native.Server(law="constant", service_ns=MS)
    run = engine(server.port, [b"one", b"three"], connections=2, threads=2, interval_ns=100 * MS)
    times, _ = constant(500, 2 * MS)
    run.start(times, np.arange(500, dtype=np.uint32) % 2, measure_from_ns=200 * MS)
    intervals, states = [], []
    while not run.wait(0.05):
        intervals += run.poll()
        states.append(run.progress())
    intervals += run.poll()
    found = finish(run)
    assert found["outcomes_all"] == {"OK": 500}
    assert found["due"] == found["sent"] == found["response"]["count"] == 400
    assert found["response"]["sum_ns"] == found["lateness"]["sum_ns"] + found["service"]["sum_ns"]
    assert found["service"]["min_ns"] >= MS
    assert found["response"]["max_ns"] >= found["service"]["max_ns"]
    assert (found["measure_from_ns"], found["measure_until_ns"], found["stopped"]) == (200 * MS, 998 * MS + 1, False)
    assert abs(found["start_unix_ns"] / 1e9 - time.time()) < 60
    assert abs(found["start_monotonic_ns"] - time.monotonic_ns()) < 60e9
    assert [interval["index"] for interval in intervals] == list(range(len(intervals)))
    assert sum(interval["due"] for interval in intervals) == sum(interval["sent"] for interval in intervals) == 500
    assert sum(interval["outcomes"].get("OK", 0) for interval in intervals) == 500
    assert sum(int(interval["response_counts"].sum()) for interval in intervals) == 500
    assert all(len(i["response_indexes"]) == len(i["response_counts"]) for i in intervals)
    assert intervals[-1]["in_flight"] == intervals[-1]["waiting"] == 0
    assert intervals[-1]["end_ns"] == found["end_ns"]
    assert [state["due"] for state in states] == sorted(state["due"] for state in states)
    assert run.progress()["ok"] == 500
    assert [connection["sent"] for connection in found["connections"]] == [200, 200]
    assert server.counters()["calls"] == 500
    assert all(thread["cpu_s"] < thread["wall_s"] and thread["slept_s"] > 0 for thread in found["threads"])


@pytest.mark.perf
def test_low_rates_cost_little(perf: Perf) -> None:
    server = _native.Server()

    def measure() -> float:  # other programs may take the CPU, but not give any
        run = engine(server.port)
        run.start(*constant(100, 5 * MS))
        thread = finish(run)["threads"][0]
        return thread["cpu_s"] / thread["wall_s"]

    perf("CPU of loadgen at 200 calls/s", measure, at_most=0.1)


def test_a_closed_loop() -> None:
    server = _native.Server()
    run = engine(server.port, connections=3)
    run.start_closed(10, 500 * MS, np.zeros(5, np.uint32), measure_from_ns=100 * MS)
    found = finish(run)
    assert found["in_flight_max"] == 10
    assert found["due"] == found["ok_in_window"] == found["outcomes"]["OK"] < found["due_all"]
    assert found["measure_until_ns"] == 500 * MS


def test_samples_and_comparison() -> None:
    server = _native.Server()
    payloads = [os.urandom(20), os.urandom(3000)]
    run = engine(server.port, payloads, expected=[payloads[0], b"wrong"], samples_max=20, sample_every=3)
    run.start(constant(400, 100_000)[0], np.arange(400, dtype=np.uint32) % 2)
    found = finish(run)
    assert (found["checked"], found["wrong"]) == (400, 200)
    assert {sample["answer"] for sample in found["wrong_samples"]} == {payloads[1]}
    assert len(found["samples"]) == 20
    assert all(sample["answer"] == payloads[sample["payload"]] for sample in found["samples"])


def test_deadlines_are_per_call() -> None:
    server = _native.Server(law="constant", service_ns=100 * MS)
    run = engine(server.port, deadline_grace_ns=0)
    times, payloads = constant(10, MS)
    run.start(times, payloads, np.where(np.arange(10) < 5, 10_000 * MS, 500 * MS))
    found = finish(run)
    assert found["outcomes_all"] == {"OK": 5, "TIMEOUT": 5}  # the fifth is answered after 500 ms, the sixth after 600


def test_a_stop_keeps_what_was_measured() -> None:
    server = _native.Server()
    run = engine(server.port)
    run.start(*constant(100_000, MS))
    until(lambda: run.progress()["due"] > 100, "some calls")
    assert not run.wait(0)
    with pytest.raises(RuntimeError, match="not ended"):
        run.result()
    run.stop(1.0)
    found = finish(run)
    assert found["stopped"]
    assert 100 < found["due"] < 100_000
    assert found["measure_until_ns"] < 100_000 * MS


def test_an_engine_can_be_dropped_while_it_runs() -> None:
    """That is not waited for: it would be for 1000 s, and the time-out of tests would end this one."""
    server = _native.Server()
    run = engine(server.port)
    run.start(*constant(1000, 1000 * MS))
    del run


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "Call"}, "path must be"),
        ({"port": 70_000}, "port must be"),
        ({"payloads": []}, "at least one payload"),
        ({"call": "batch"}, "call must be unary"),
        ({"threads": 3}, "connections must be at least threads"),
        ({"headers": [("Upper", "x")]}, "lower case"),
        ({"call": "bidi"}, "bidi needs"),
        ({"cpus": [0, 1]}, "one CPU per thread"),
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
    for times, payloads, deadline, message in (
        ([3, 2], [0, 0], 0, "not sorted"),
        ([-1, 2], [0, 0], 0, "negative"),
        ([1, 2], [0, 1], 0, "no payload"),
        ([1, 2], [0], 0, "as long as"),
        ([1, 2], [0, 0], [1], "as long as"),
        ([1, 2], [0, 0], -5, "deadline is negative"),
        ([[1, 2]], [0, 0], 0, "one dimension"),
    ):
        with pytest.raises(ValueError, match=message):
            run.start(np.array(times), np.array(payloads, np.uint32), deadline)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least connections"):
        run.start_closed(0, MS)
    run.start(*constant(3, MS))
    with pytest.raises(RuntimeError, match="started already"):
        run.start(*constant(3, MS))
    assert finish(run)["outcomes_all"] == {"OK": 3}
    idle = _native.Engine("127.0.0.1", 1, PATH, [], [b""])
    with pytest.raises(RuntimeError, match="not connected"):
        idle.start(*constant(1, 1))


def test_bad_servers_are_named() -> None:
    with pytest.raises(ValueError, match="service_ns"):
        _native.Server(law="constant")
    with pytest.raises(ValueError, match="law must be"):
        _native.Server(law="pareto")  # type: ignore[arg-type]
    first = _native.Server()
    with pytest.raises(OSError, match="in use"):
        _native.Server(port=first.port)
    with pytest.raises(OSError):
        _native.Server(cpu=1000)
    first.stop()
    first.stop()


def test_a_cpu_that_is_not_there() -> None:
    server = _native.Server()
    made = _native.Engine("127.0.0.1", server.port, PATH, [], [b""], cpus=[1000])
    with pytest.raises(OSError):
        made.connect(1)


# ---- against servers that misbehave


class Peer:
    """The server's end of a connection, frame by frame."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.file = connection.makefile("rb")
        self.encoder, self.decoder = Encoder(), Decoder()
        self.asked: dict[int, dict[str, str]] = {}  # headers of the requests, by stream

    def send(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
        self.socket.sendall(
            struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload
        )

    def greet(self) -> None:
        self.file.read(24)
        self.send(4, 0, 0)

    def request(self) -> int:
        """The next stream on which the client has said all; 0 when it is gone."""
        while len(head := self.file.read(9)) == 9:
            payload = self.file.read(int.from_bytes(head[:3], "big"))
            if head[3] == 1:
                self.asked[int.from_bytes(head[5:], "big")] = {
                    str(name): str(value) for name, value in self.decoder.decode(payload)
                }
            if head[3] == 4 and not head[4] & 1:
                self.send(4, 1, 0)
            if head[3] in (0, 1) and head[4] & 1:
                return int.from_bytes(head[5:], "big")
        return 0

    def headers(self, stream: int, *fields: tuple[str, str], end: bool = False) -> None:
        self.send(1, 5 if end else 4, stream, self.encoder.encode(fields))


@contextmanager
def peer(talk: Talk) -> Iterator[int]:
    """A port on which each client gets this talk, and then the end of the connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):  # the client may go away first
            talk(Peer(connection))

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.settimeout(20)
            threads.append(threading.Thread(target=serve, args=(connection,)))
            threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for thread in threads:
            thread.join()


def answering(treat: Callable[[Peer, int], None]) -> Talk:
    def talk(it: Peer) -> None:
        it.greet()
        while stream := it.request():
            treat(it, stream)

    return talk


def half_an_answer(it: Peer, stream: int) -> None:
    it.headers(stream, (":status", "200"), ("content-type", "application/grpc"))
    it.send(0, 0, stream, b"\0\0\0\0\x09half")
    it.socket.shutdown(socket.SHUT_RDWR)


HOSTILE: dict[str, Callable[[Peer, int], None]] = {
    "RST_REFUSED_STREAM": lambda it, stream: it.send(3, 0, stream, struct.pack(">I", 7)),
    "RST_ENHANCE_YOUR_CALM": lambda it, stream: it.send(3, 0, stream, struct.pack(">I", 11)),
    "GOAWAY": lambda it, stream: it.send(7, 0, 0, struct.pack(">II", 0, 0)),
    "UNAVAILABLE": lambda it, stream: it.headers(stream, (":status", "200"), ("grpc-status", "14"), end=True),
    "BAD_STATUS": lambda it, stream: it.headers(stream, (":status", "200"), ("grpc-status", "lost"), end=True),
    "HTTP_502": lambda it, stream: it.headers(stream, (":status", "502"), end=True),
    "PROTOCOL_ERROR": lambda it, stream: it.socket.sendall(b"\xff" * 64),
    "CONNECTION_LOST": half_an_answer,
}


@pytest.mark.parametrize("outcome", HOSTILE)
def test_each_misdeed_has_its_own_count(outcome: str) -> None:
    def attempt() -> str:
        with peer(answering(HOSTILE[outcome])) as port:
            run = engine(port)
            run.start(*constant(6, 20 * MS))
            found = finish(run)
        assert found["outcomes_all"] == {outcome: 6}
        assert found["response"]["count"] == found["outcomes_all"].get("OK", 0) == 0
        if outcome not in ("GOAWAY", "PROTOCOL_ERROR", "CONNECTION_LOST"):
            return ""
        assert found["connections"][0]["losses"][outcome] >= 1
        return "" if found["connections"][0]["connects"] >= 2 else "all were sent on the first connection"

    until_in_time(attempt)


def test_calls_look_like_those_of_a_grpc_client() -> None:
    by_stream: dict[int, dict[str, str]] = {}

    def note(it: Peer, stream: int) -> None:
        by_stream[stream] = it.asked[stream]
        it.headers(stream, (":status", "200"), ("grpc-status", "5"), end=True)

    with peer(answering(note)) as port:
        run = engine(port)
        run.start(*constant(3, MS), np.array([0, 9_000 * MS, 300_000 * MS]))
        assert finish(run)["outcomes_all"] == {"NOT_FOUND": 3}
    asked = [by_stream[stream] for stream in sorted(by_stream)]
    assert asked[0] == {
        ":method": "POST",
        ":scheme": "http",
        ":path": PATH,
        ":authority": f"127.0.0.1:{port}",
        "te": "trailers",
        "content-type": "application/grpc",
        "user-agent": "loadgen",
        "x-test": "1",
    }
    timeouts = [headers.pop("grpc-timeout", "") for headers in asked]
    assert asked[1] == asked[2] == asked[0]
    assert timeouts[0] == ""
    assert timeouts[1].endswith("u") and 0 < int(timeouts[1][:-1]) <= 9_000_000  # what is left of it
    assert timeouts[2].endswith("S") and 240 <= int(timeouts[2][:-1]) <= 300  # at most eight digits


def test_a_slow_server_is_given_up() -> None:
    def say_nothing(it: Peer) -> None:
        it.greet()
        while it.request():
            pass

    with peer(say_nothing) as port:
        run = engine(port, deadline_grace_ns=10 * MS)
        run.start(*constant(20, MS), 300 * MS)
        found = finish(run)
    assert found["outcomes_all"] == {"TIMEOUT": 20}
    assert found["response_failed"]["min_ns"] >= 310 * MS


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 'answers "HTTP/1.1 200 OK", not HTTP/2'),
        (b"SSH-2.0-OpenSSH_9.2\r\n" * 10, "no HTTP/2"),
        (b"", "closed the connection|reset by peer"),
    ],
)
def test_servers_of_another_kind_are_found_out_when_connecting(said: bytes, reason: str) -> None:
    def talk(it: Peer) -> None:
        it.socket.sendall(said)
        if said:
            it.file.read()

    with peer(talk) as port, pytest.raises(ConnectionError, match=reason):
        engine(port)


def test_a_port_without_a_server() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        made = _native.Engine("127.0.0.1", unused.getsockname()[1], PATH, [], [b""])
        for _ in range(2):  # it may be tried again
            with pytest.raises(ConnectionError, match="Connection refused"):
                made.connect(1)


def test_memory_does_not_grow_with_calls() -> None:
    """What a run keeps does not depend on how many calls it made."""
    import resource

    server = _native.Server()

    def peak_after(duration_ms: int) -> int:
        run = engine(server.port, connections=4, interval_ns=10 * MS)
        run.start_closed(64, duration_ms * MS)
        calls.append(finish(run)["due_all"])
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    calls: list[int] = []
    before = peak_after(200)
    assert peak_after(1000) - before < 20_000  # KiB
    assert calls[1] > calls[0] + 500
