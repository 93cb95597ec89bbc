"""What a client can do too much of, and what is looked at meanwhile: the others are served, and memory is bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from neighbour import Neighbour
from raw import (
    BLOCK,
    CANCEL,
    CONTINUATION,
    DATA,
    EH,
    HEADERS,
    PING,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    UNKNOWN,
    WINDOW_MAX,
    WINDOW_UPDATE,
    Peer,
    block,
    frame,
    message,
    setting,
    u32,
)
from serving import Server

from fastqps.v1 import predict_pb2 as pb

OUTPUT = {"dimensions": 4}  # so that no window is filled
BODY = pb.PredictRequest(token_ids={"ids": [5, 6]}, request_id=7, output=OUTPUT).SerializeToString()
CALL = message(BODY)
GROWTH_BYTES_MAX = 24 << 20  # of the front door, whatever one client does
CHUNK_BYTES = 32 << 10


def floods(server: Server) -> float:
    return server.metrics()["fastqps_transport_events_total{floods,0}"]


@contextmanager
def neighbours_served(server: Server, neighbour: Neighbour) -> Iterator[None]:
    """Meanwhile another client goes on asking, and gets all its answers; the door stays within its memory."""
    door = server.child("frontdoor 0")
    before, over, served = door.memory_info().rss, threading.Event(), 0
    broken: list[BaseException] = []

    def ask() -> None:
        nonlocal served
        try:
            while not over.is_set() or not served:
                neighbour.check()
                served += 1
                time.sleep(0.001)
        except BaseException as error:
            broken.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()  # its calls have their ends
    assert not broken, broken
    assert door.memory_info().rss - before < GROWTH_BYTES_MAX


def pour(peer: Peer, frames: Iterator[bytes], reads: bool) -> None:
    """Sends until all is sent or the server has closed, in large pieces. ``reads``: what comes is read in between."""
    chunk, size = [], 0
    for one in frames:
        chunk.append(one)
        size += len(one)
        if size >= CHUNK_BYTES:
            peer.send(*chunk)
            chunk, size = [], 0
            if reads:
                peer.linger(0.0)
        if peer.closed or peer.goaway is not None:
            break
    if chunk and not peer.closed:
        peer.send(*chunk)


def opened(count: int) -> Iterator[int]:
    return iter(range(1, 2 * count, 2))


def rapid_reset() -> Iterator[bytes]:
    """100,000 calls that are taken back at once."""
    for stream in opened(100_000):
        yield frame(HEADERS, EH, stream, BLOCK) + frame(RST_STREAM, 0, stream, u32(CANCEL))


def made_you_reset() -> Iterator[bytes]:
    """The server itself is made to reset each stream."""
    for stream in opened(100_000):
        yield frame(HEADERS, EH, stream, BLOCK) + frame(WINDOW_UPDATE, 0, stream, u32(WINDOW_MAX)) * 2


def pings() -> Iterator[bytes]:
    for i in range(10_000):
        yield frame(PING, 0, 0, i.to_bytes(8, "big"))


def settings() -> Iterator[bytes]:
    """Each walks all streams of the connection."""
    for stream in opened(500):
        yield frame(HEADERS, EH, stream, BLOCK)
    for i in range(10_000):
        yield frame(SETTINGS, 0, 0, setting(4, 65535 if i % 2 else 1 << 20))


def empty_data() -> Iterator[bytes]:
    yield frame(HEADERS, EH, 1, BLOCK)
    for _ in range(10_000):
        yield frame(DATA, 0, 1) * 100


def priorities() -> Iterator[bytes]:
    for i in range(5_000):
        yield frame(PRIORITY, 0, 2 * i + 1, u32(0) + b"\x10") * 40


def unknown_frames() -> Iterator[bytes]:
    for _ in range(20_000):
        yield frame(UNKNOWN, 0, 0, b"x" * 200)


def continuations() -> Iterator[bytes]:
    """A block in ten frames: one more than is taken."""
    yield frame(HEADERS, 0, 1, BLOCK[:10])
    for i in range(10, 19):
        yield frame(CONTINUATION, EH if i == 18 else 0, 1, BLOCK[i : None if i == 18 else i + 1])


def endless_block() -> Iterator[bytes]:
    yield frame(HEADERS, 0, 1, BLOCK)
    for i in range(100_000):
        yield frame(CONTINUATION, 0, 1, block([("x", str(i))]))


FLOODS: dict[str, tuple[Callable[[], Iterator[bytes]], bytes]] = {
    "rapid reset": (rapid_reset, b"too many resets"),
    "made you reset": (made_you_reset, b"too many resets"),
    "pings": (pings, b"too_many_pings"),
    "settings": (settings, b"too many settings"),
    "empty data": (empty_data, b"too many bytes without a request"),
    "priorities": (priorities, b"too many bytes without a request"),
    "unknown frames": (unknown_frames, b"too many bytes without a request"),
    "nine continuations": (continuations, b""),
    "endless header block": (endless_block, b""),
}
