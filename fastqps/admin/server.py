"""The admin port's server. A page that needs no wait is answered in the event that brings its request: one read
fifty times a second costs no task, no timer and no wait."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
from collections.abc import Coroutine
from typing import Any, cast

from fastqps.admin import http
from fastqps.admin.http import Answer, Handler, Refused, Request

END_MAX_S = 1.0  # for open answers


class Server:
    """Answers on a bound socket, from ``async with`` on. One request of a connection at a time."""

    def __init__(self, sock: socket.socket, handler: Handler) -> None:
        self._socket = sock
        self.handler = handler
        self.connections: set[Connection] = set()
        self.idle: dict[Connection, None] = {}  # between requests, the longest first
        self.sending: dict[Connection, None] = {}  # in the middle of a request, the longest first
        self.taking: dict[Connection, None] = {}  # the unsent rest of last answers, the longest first

    async def __aenter__(self) -> Server:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self, loop), sock=self._socket)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        answering = [task for connection in self.connections if (task := connection.abort())]
        if answering:
            await asyncio.wait(answering, timeout=END_MAX_S)

    def has_room(self) -> bool:
        """Whether one more connection is allowed. The one that was idle for longest makes room for it, else the one
        that has been sending its request for longest, else the one that has not read its answer for longest. So slow
        clients cannot keep a probe out. A client that waits for an answer keeps its place:
        each page bounds the number of those."""
        if len(self.connections) >= http.CONNECTIONS_MAX and (slow := self.idle or self.sending or self.taking):
            oldest = next(iter(slow))
            oldest.abort()
            self.forget(oldest)
        return len(self.connections) < http.CONNECTIONS_MAX

    def forget(self, connection: Connection) -> None:
        """It is over."""
        self.connections.discard(connection)
        self.rest(connection)

    def rest(self, connection: Connection) -> None:
        """It neither idles nor sends, nor takes its last answer."""
        for slow in (self.idle, self.sending, self.taking):
            slow.pop(connection, None)


class Connection(asyncio.Protocol):
    """One client. Each state has its time limit: idle, sending a request, waiting for its answer, taking it."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._received = bytearray()
        self._head: tuple[Request, int] | None = None  # the request whose body is awaited
        self._last: tuple[bytes, Request, int] | None = None  # as it came, and what it means
        self._answering: asyncio.Task[None] | None = None
        self._turn: asyncio.Handle | None = None  # the next request of those that came together
        self._slow: asyncio.TimerHandle | None = None  # when a request, or the taking of an answer, takes too long
        self._full = self._over = self._paused = False
        self._idle_since_s = loop.time()

    # ---- what the transport says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self._idle_timer = self._loop.call_later(http.IDLE_S, self._look_idle)
        if not self._server.has_room():
            self._transport.abort()
            return
        self._server.connections.add(self)
        self._server.idle[self] = None

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self._received += data
        if not self._busy:
            self._advance()
        elif len(self._received) > http.HEAD_BYTES_MAX:  # the next ones wait in the socket
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """A client that has closed its sending side still gets its answer."""
        self._over = self._busy
        return self._over

    def pause_writing(self) -> None:
        self._full = True
        self._limit(http.WRITE_S)

    def resume_writing(self) -> None:
        self._full = False
        self._limit(None)
        if not self._busy:
            self._advance()

    def connection_lost(self, error: Exception | None) -> None:
        self._server.forget(self)
        self._idle_timer.cancel()
        self._limit(None)
        if self._turn:
            self._turn.cancel()
        if self._answering:
            self._answering.cancel()

    # ---- requests and answers

    @property
    def _busy(self) -> bool:
        return self._full or self._answering is not None or self._turn is not None

    def abort(self) -> asyncio.Task[None] | None:
        """Ends it now; the task that still has to end, if there is one."""
        self._transport.abort()
        if self._answering:
            self._answering.cancel()
        return self._answering

    def _advance(self) -> None:
        """Takes up a request if one is there as a whole."""
        self._turn = None
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        try:
            request = self._take()
        except Refused as refused:
            self._write(refused.answer, keep=False)
            return
        if request is None:
            if self._received or self._head:
                self._server.idle.pop(self, None)
                self._server.sending.setdefault(self)
                if self._slow is None:
                    self._limit(http.READ_S)
            return
        self._limit(None)
        self._server.sending.pop(self, None)
        answer = self._server.handler(request)
        if isinstance(answer, Answer):
            self._answer(request, answer)
        else:
            self._server.idle.pop(self, None)
            self._answering = self._loop.create_task(self._wait(request, answer))
            self._answering.add_done_callback(lambda _: answer.close())  # its client may be gone before it begins

    async def _wait(self, request: Request, coming: Coroutine[Any, Any, Answer]) -> None:
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(http.ANSWER_S):
                    answer = await coming
                self._answering = None
                self._answer(request, answer)
        finally:
            if self._answering:  # there is no answer
                self._answering = None
                self._transport.abort()

    def _answer(self, request: Request, answer: Answer) -> None:
        keep = not self._over and request.headers.get("connection", "").lower() != "close"
        self._write(answer, keep=keep, head_only=request.method == "HEAD")
        if not keep:
            return
        self._idle_since_s = self._loop.time()
        self._server.idle.pop(self, None)
        self._server.idle[self] = None
        if self._received and not self._full:  # other connections have their turn before its next one
            self._turn = self._loop.call_soon(self._advance)

    def _write(self, answer: Answer, *, keep: bool, head_only: bool = False) -> None:
        self._transport.write(http.encode(answer, keep=keep, head_only=head_only))
        if not keep:
            self._over = True
            self._server.rest(self)
            self._server.taking[self] = None
            self._limit(http.WRITE_S)
            self._transport.close()  # when all of it has been taken

    def _take(self) -> Request | None:
        """The request that stands at the front, if all of it is here."""
        if self._head is None:
            end = self._received.find(b"\r\n\r\n", 0, http.HEAD_BYTES_MAX)
            if end < 0 and len(self._received) < http.HEAD_BYTES_MAX:
                return None
            if end < 0:
                raise Refused(431, f"the request's head is longer than {http.HEAD_BYTES_MAX} bytes")
            head = bytes(self._received[:end])
            if self._last is None or self._last[0] != head:  # scrapers ask for the same again and again
                self._last = head, *http.parse_head(head.decode("latin-1"))
            self._head = self._last[1:]
            del self._received[: end + 4]
            if self._head[0].headers.get("expect", "").lower() == "100-continue":
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request, length = self._head
        if len(self._received) < length:
            return None
        self._head = None
        if not length:
            return request
        body = bytes(self._received[:length])
        del self._received[:length]
        return dataclasses.replace(request, body=body)

    # ---- time limits

    def _limit(self, seconds: float | None) -> None:
        if self._slow:
            self._slow.cancel()
        self._slow = None if seconds is None else self._loop.call_later(seconds, self._transport.abort)

    def _look_idle(self) -> None:
        """Closes idle connections. One timer serves all requests and fires once a minute."""
        left_s = self._idle_since_s + http.IDLE_S - self._loop.time()
        if self in self._server.idle and left_s <= 0:
            self._transport.abort()
        else:
            self._idle_timer = self._loop.call_later(max(left_s, 1.0), self._look_idle)
