"""Clients that pour frames, and a check beside them: the others are served, and memory is bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from neighbour import Neighbour
from raw import BLOCK, CANCEL, EH, HEADERS, RST_STREAM, Peer, frame, message, u32
from serving import Server

from fastqps.v1 import predict_pb2 as pb

OUTPUT = {"dimensions": 4}  # so that no window is filled
BODY = pb.PredictRequest(token_ids={"ids": [5, 6]}, request_id=7, output=OUTPUT).SerializeToString()
CALL = message(BODY)
GROWTH_BYTES_MAX = 24 << 20  # of the front door, whatever one client does
CHUNK_BYTES = 32 << 10


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
