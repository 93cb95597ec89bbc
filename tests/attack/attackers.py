"""Clients that take what they can get: ``python attackers.py NAME ADDRESS ADMIN TOKEN``, until they are killed.

Each prints a line when it begins.

Those of the HTTP port are in http_attackers.py.
"""

from __future__ import annotations

import gzip
import itertools
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from http_attackers import HTTP_ATTACKERS
from raw import DATA, EH, ES, HEADERS, PATH, SETTINGS, Peer, block, frame, message, request, setting
from word_files import ENDLESS, GROWS, PANICS_SLOWLY

from fastqps.v1 import predict_pb2 as pb

HEALTH = "/grpc.health.v1.Health/Check"
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
MESSAGE_BYTES = 4 << 20
CONTROL_BYTES = 16 << 10
GZIP = ("grpc-encoding", "gzip")


def head(path: str, token: str, *more: tuple[str, str]) -> bytes:
    """``token``: "" for a client that has none."""
    return block(request(path, *more, *([("authorization", f"Bearer {token}")] if token else [])))


def bomb(size: int, model: str = "") -> bytes:
    """A compressed request whose text has so many bytes."""
    body = pb.PredictRequest(model=model, text="a " * (size // 2 - 32), truncate=True).SerializeToString()
    return message(gzip.compress(body), flag=1)


def connections(address: str) -> Iterator[Peer]:
    """One after the other."""
    while True:
        with Peer(address) as peer:
            yield peer


# ---- each is a function of address, admin address and token


def compressed_streams(address: str, admin: str, token: str) -> None:
    """14 streams of small messages that inflate to 64 KiB, behind one that inflates to 4 MiB: 7 MB in all, again and
    again."""
    opening, large, small = head(PATH + "PredictStream", token, GZIP), bomb(MESSAGE_BYTES), bomb(64 << 10)
    for peer in connections(address):
        streams = range(1, 29, 2)
        for stream in streams:
            peer.send(frame(HEADERS, EH, stream, opening))
        rest = {stream: large + small * (500_000 // len(small)) for stream in streams}
        until = time.monotonic() + 20
        while any(rest.values()) and not peer.closed and time.monotonic() < until:
            for stream in streams:
                size = min(16384, peer.window(stream), len(rest[stream]))
                if size <= 0 or peer.stopped(stream):
                    continue
                peer.send(frame(DATA, 0, stream, rest[stream][:size]))
                rest[stream] = rest[stream][size:]
                peer.windows[stream] = peer.windows.get(stream, 0) - size
                peer.connection_window -= size
            peer.linger(0.001)


def unary_bombs(address: str, admin: str, token: str) -> None:
    """78 messages of 6 KB in ten seconds, each of which inflates to 4 MiB."""
    opening, body = head(PATH + "Predict", token, GZIP), bomb(MESSAGE_BYTES)
    for peer in connections(address):
        for stream in range(1, 2001, 2):
            peer.send(frame(HEADERS, EH, stream, opening), frame(DATA, ES, stream, body))
            peer.linger(10 / 78)
            if peer.closed:
                break


def unfinished_messages(address: str, admin: str, token: str) -> None:
    """Without a token: 64 health checks of 4 MiB, three bytes short, and a byte now and then."""
    opening = head(HEALTH, "")
    for peer in connections(address):
        for stream in range(1, 129, 2):
            peer.send(frame(HEADERS, EH, stream, opening))
            peer.send_data(stream, message(b"x" * (MESSAGE_BYTES - 3), length=MESSAGE_BYTES), 0)
        for _ in range(50):
            for stream in range(1, 129, 2):
                if not peer.stopped(stream):
                    peer.send(frame(DATA, 0, stream, b"x"))
            peer.linger(0.1)


def health_bombs(address: str, admin: str, token: str) -> None:
    """Without a token: 64 compressed health checks at a time, each of which inflates to 4 MiB."""
    opening, body = head(HEALTH, "", GZIP), message(gzip.compress(bytes(MESSAGE_BYTES)), flag=1)
    for peer in connections(address):
        for first in range(1, 4096, 128):
            for stream in range(first, first + 128, 2):
                peer.send(frame(HEADERS, EH, stream, opening), frame(DATA, ES, stream, body))
            peer.linger(0.05)
            if peer.closed:
                break


def reflection_messages(address: str, admin: str, token: str) -> None:
    """Streams of questions with names as long as may be, and lists of models, whose answers nobody reads."""
    names = message(b"\x22" + b"\xf0\x7f" + b"x" * (CONTROL_BYTES - 16))
    for peer in connections(address):
        peer.socket.settimeout(0.2)
        with suppress(OSError):
            for stream in itertools.count(1, 4):
                peer.socket.sendall(frame(HEADERS, EH, stream, head(REFLECTION, token)))
                for _ in range(3):
                    peer.socket.sendall(frame(DATA, 0, stream, names[:16384]) + frame(DATA, 0, stream, names[16384:]))
                listing = head(PATH + "ListModels", token)
                peer.socket.sendall(frame(HEADERS, EH, stream + 2, listing) + frame(DATA, ES, stream + 2, message(b"")))
        time.sleep(0.1)


def idle_streams(address: str, admin: str, token: str) -> None:
    """12 connections of 530 streams that say nothing."""
    opening, peers = head(PATH + "PredictStream", token), []
    for peer in itertools.islice((Peer(address) for _ in itertools.count()), 12):
        peers.append(peer)
        for stream in range(1, 1061, 2):
            peer.send(frame(HEADERS, EH, stream, opening))
    while True:
        for peer in peers:
            peer.linger(0.02)


def window_settings(address: str, admin: str, token: str) -> None:
    """Settings that each change the windows of 500 streams, until the connection ends, and again on the next one."""
    opening = head(PATH + "PredictStream", token)
    for peer in connections(address):
        peer.send(*(frame(HEADERS, EH, stream, opening) for stream in range(1, 1001, 2)))
        for window in itertools.cycle((1 << 20, 65535)):
            peer.send(frame(SETTINGS, 0, 0, setting(4, window)))
            if peer.closed:
                break
            peer.linger(0.0)


def admin_bytes(address: str, admin: str, token: str) -> None:
    """Heads of requests that break HTTP's rules."""
    host, port = admin.split(":")
    heads = [
        b"GET /livez HTTP/1.1\r\nhost: a\nx: b\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: a\x00b\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n" + b"x: y\r\n" * 2000 + b"\r\n",
        b"GET " + b"/" * 20_000,
        b"\x00" * 30_000,
        b"POST /reload HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
    ]
    for bad in itertools.cycle(heads):
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=5) as one:
            one.sendall(bad)
            one.recv(4096)


def poison_texts(address: str, admin: str, token: str) -> None:
    """Many texts at a time of each kind that hurts a tokenizer that is not native."""
    opening = head(PATH + "Predict", token)
    texts = (ENDLESS, PANICS_SLOWLY, GROWS)
    bodies = [message(pb.PredictRequest(model="hurtful", text=t, truncate=True).SerializeToString()) for t in texts]
    for peer in connections(address):
        for stream in range(1, 2001, 2):
            peer.send(frame(HEADERS, EH, stream, opening))
            peer.send_data(stream, bodies[stream // 2 % len(bodies)])
            peer.linger(0.05)
            if peer.closed:
                break


ATTACKERS: dict[str, Callable[[str, str, str], None]] = HTTP_ATTACKERS | {
    f.__name__: f
    for f in (
        compressed_streams, unary_bombs, unfinished_messages, health_bombs, reflection_messages, idle_streams,
        window_settings, admin_bytes, poison_texts,
    )
}  # fmt: skip

if __name__ == "__main__":
    print("begins", flush=True)
    while True:
        with suppress(OSError, AssertionError):  # the server has closed its connection
            ATTACKERS[sys.argv[1]](*sys.argv[2:])
