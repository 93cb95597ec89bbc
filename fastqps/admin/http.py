"""A small HTTP/1.1 server on asyncio streams: whole requests in, whole answers out, everything bounded."""

from __future__ import annotations

import asyncio
import contextlib
import http
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

HEAD_BYTES_MAX = 16 << 10
BODY_BYTES_MAX = 4 << 20
CONNECTIONS_MAX = 64
READ_S = 10.0  # for one request, from its first byte
IDLE_S = 60.0  # between requests
ANSWER_S = 60.0
WRITE_S = 10.0


@dataclass(frozen=True)
class Request:
    """One request. Header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """One answer; ``text`` and ``data`` make the usual ones."""

    status: int
    body: bytes
    content_type: str
    allow: str = ""

    @staticmethod
    def text(status: int, text: str) -> Answer:
        """Plain text, one line."""
        return Answer(status, (text + "\n").encode(), "text/plain; charset=utf-8")

    @staticmethod
    def data(status: int, data: Any) -> Answer:
        """JSON."""
        return Answer(status, (json.dumps(data, ensure_ascii=False) + "\n").encode(), "application/json")


Handler = Callable[[Request], Awaitable[Answer]]


class _Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.answer = Answer.text(status, reason)


class Server:
    """Answers on a bound socket, from ``async with`` on. One request of a connection at a time."""

    def __init__(self, sock: socket.socket, handler: Handler) -> None:
        self._socket = sock
        self._handler = handler
        self._connections: set[asyncio.Task[None]] = set()
        self._idle: dict[asyncio.Task[None], asyncio.StreamWriter] = {}  # between requests, the longest first

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._connected, sock=self._socket, limit=HEAD_BYTES_MAX)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=1)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= CONNECTIONS_MAX and not self._close_idle():
            writer.transport.abort()
            return
        connection = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    def _close_idle(self) -> bool:
        """Has the connection that has been idle for longest make room, so that idle ones keep no probe out."""
        task = next(iter(self._idle), None)
        if task is None:
            return False
        self._idle.pop(task).transport.abort()
        self._connections.discard(task)
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            keep = True
            while keep:
                keep = await self._exchange(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the client has gone, or was too slow
        finally:
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; whether the connection stays open."""
        task = asyncio.current_task()
        assert task is not None
        self._idle[task] = writer
        try:
            async with asyncio.timeout(IDLE_S):
                first = await reader.readexactly(1)
        finally:
            self._idle.pop(task, None)
        try:
            async with asyncio.timeout(READ_S):
                request = await _read(first, reader, writer)
        except _Refused as refused:
            await _write(writer, refused.answer, keep=False, head_only=False)
            return False
        async with asyncio.timeout(ANSWER_S):
            answer = await self._handler(request)
        keep = request.headers.get("connection", "").lower() != "close"
        await _write(writer, answer, keep=keep, head_only=request.method == "HEAD")
        return keep


async def _read(first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
    try:
        head = first + await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise _Refused(431, f"the request's head is longer than {HEAD_BYTES_MAX} bytes") from None
    lines = head.decode("latin-1").split("\r\n")[:-2]
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise _Refused(400, "not an HTTP/1.1 request; gRPC is served on another port")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise _Refused(400, "a header line is malformed")
        headers[name.lower()] = value.strip()
    if parts[2] == "HTTP/1.0":
        headers["connection"] = "close"
    return Request(parts[0], parts[1].partition("?")[0], headers, await _body(headers, reader, writer))


async def _body(headers: Mapping[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    if "transfer-encoding" in headers:
        raise _Refused(411, "send a content-length; chunked bodies are not read")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or len(length) > 10:
        raise _Refused(400, "the content-length is malformed")
    if int(length) > BODY_BYTES_MAX:
        raise _Refused(413, f"the body is longer than {BODY_BYTES_MAX} bytes")
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return await reader.readexactly(int(length))


async def _write(writer: asyncio.StreamWriter, answer: Answer, *, keep: bool, head_only: bool) -> None:
    lines = [
        f"HTTP/1.1 {answer.status} {http.HTTPStatus(answer.status).phrase}",
        f"content-type: {answer.content_type}",
        f"content-length: {len(answer.body)}",
        "cache-control: no-store",
        f"connection: {'keep-alive' if keep else 'close'}",
    ]
    if answer.allow:
        lines.append(f"allow: {answer.allow}")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    writer.write(head if head_only else head + answer.body)
    async with asyncio.timeout(WRITE_S):
        await writer.drain()
