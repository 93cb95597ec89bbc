"""The admin port: pages and bounds."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import gc
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any
from unittest import mock

import fake_source
import pytest
from serving import PATIENCE_S

from fastqps.admin import Admin, http, model_pages, pages
from fastqps.admin.server import Connection
from fastqps.admin.server import Server as AdminServer
from fastqps.process.served_models import Limits, ModelLimits, Readiness, Reloaded, ReloadRefused
from fastqps.supervisor.listener import bind
from fastqps.telemetry.metrics.meter import LoadMeter

READY = Readiness((), (), (), answers=True)


class FakeReloads:
    """Ends each reload as the test says, when it says, or never."""

    last: Reloaded | None = None
    doing = ""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []
        self.end: Reloaded | ReloadRefused | None = None
        self.may_end = asyncio.Event()

    def start(self, model: int, path: str) -> asyncio.Task[Reloaded | None]:
        self.asked.append((model, path))
        if isinstance(self.end, ReloadRefused):
            raise self.end
        return asyncio.create_task(self._run())

    async def _run(self) -> Reloaded | None:
        if self.end is None:
            await self.may_end.wait()
        assert not isinstance(self.end, ReloadRefused)
        return self.end


class FakeLimits:
    """Of a model that answers and of one that generates, without steps that are prepared ahead."""

    def __init__(self) -> None:
        of_a, of_b = Limits(None, 64, 2, True), Limits(512, None, 1, False)
        self.found = [ModelLimits("a", of_a, of_a), ModelLimits('b"\n', of_b, of_b)]

    def all(self) -> list[ModelLimits]:
        return self.found

    def change(self, model: int, now: Limits) -> ModelLimits:
        self.found[model] = dataclasses.replace(self.found[model], now=now)
        return self.found[model]


class Served(fake_source.FakeSource):
    """What the pages are about, as a test wants it."""

    def __init__(self) -> None:
        super().__init__(*(fake_source.process() for _ in range(5)))
        self.found = READY
        self.token = ""
        self.local = True
        self.said: list[str] = []

        self.reloads = FakeReloads()
        self.limits = FakeLimits()

    def readiness(self) -> Readiness:
        return self.found

    def admits(self, authorization: str) -> bool:
        return self.token in ("", authorization)

    def on_loopback(self) -> bool:
        return self.local


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[tuple[socket.socket, int]]:
    with bind("127.0.0.1", 0, "--admin-port") as sock:
        yield sock, int(sock.getsockname()[1])


@contextlib.asynccontextmanager
async def admin(served: Served) -> AsyncIterator[int]:
    async with listening() as (sock, port), Admin(served, sock, served.said.append):
        yield port


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


async def exchange(port: int, data: bytes, *, eof: bool = False) -> bytes:
    """Sends bytes and reads until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    if eof:
        writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
    writer.close()
    return answer


async def call(port: int, method: str, path: str, body: bytes = b"", *more: str) -> tuple[int, dict[str, str], bytes]:
    head = "\r\n".join([f"{method} {path} HTTP/1.1", "connection: close", f"content-length: {len(body)}", *more])
    top, _, content = (await exchange(port, head.encode() + b"\r\n\r\n" + body)).partition(b"\r\n\r\n")
    first, *rest = top.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in rest)
    assert method == "HEAD" or int(headers["content-length"]) == len(content)
    return int(first.split()[1]), headers, content


async def ask(port: int, page: str, body: str, method: str = "POST") -> tuple[int, Any]:
    status, _, content = await call(port, method, page, body.encode())
    return status, json.loads(content)


async def test_pages() -> None:
    served = Served()
    async with admin(served) as port:
        status, headers, content = await call(port, "GET", "/")
        assert status == 200 and b"/readyz" in content
        accept = "accept: " + fake_source.OPENMETRICS
        status, headers, content = await call(port, "GET", "/metrics?name=x", b"", accept)
        assert headers["content-type"].startswith("application/openmetrics-text") and content.endswith(b"# EOF\n")
        status, headers, content = await call(port, "HEAD", "/metrics")
        assert (status, content) == (200, b"") and int(headers["content-length"]) > 1000
        assert json.loads((await call(port, "GET", "/readyz"))[2]) == {"ready": True, "reasons": [], "degraded": []}
        assert (await call(port, "GET", "/livez"))[0] == 200
        served.found = Readiness(("no front door is ready",), ("frontdoor 0 is down",), ("every front door",), False)
        status, _, content = await call(port, "GET", "/readyz")
        assert (status, json.loads(content)["reasons"]) == (503, ["no front door is ready"])
        assert (await call(port, "GET", "/livez"))[0] == 503
        assert (await call(port, "GET", "/nothing"))[0] == 404
        for path, allowed in (("/metrics", "GET, HEAD"), ("/reload", "GET, HEAD, POST")):
            status, headers, _ = await call(port, "DELETE", path)
            assert (status, headers["allow"]) == (405, allowed)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\nx: " + b"y" * (http.HEAD_BYTES_MAX + 1) + b"\r\n\r\n", 431),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"\x16\x03\x01 TLS\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\na: b\ncontent-length: 5\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\na: b\0c\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\na: b\rc: d\r\n\r\n", 400),
        (b"GET /\n HTTP/1.1\r\n\r\n", 400),
        (b"POST /reload HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST /reload HTTP/1.1\r\ncontent-length: 2\r\ncontent-length: 4\r\n\r\n{}{}", 400),
        (b"POST /reload HTTP/1.1\r\ncontent-length: 99999999999999\r\n\r\n", 400),
        (b"POST /reload HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % (http.BODY_BYTES_MAX + 1), 413),
        (b"POST /reload HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"GET /livez HTTP/1.0\r\n\r\n", 200),
    ],
)
async def test_odd_requests(data: bytes, status: int) -> None:
    async with admin(Served()) as port:
        answer = await exchange(port, data)
        assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:80]


async def test_connections_are_kept_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 2)
    monkeypatch.setattr(http, "READ_S", 3600.0)

    async with listening() as (sock, port), AdminServer(sock, lambda request: http.Answer.data(200, {})) as server:

        async def connect(sending: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            """One that begins a request and says nothing more. ``sending``: how many such there are then."""
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /livez HT")
            await until(lambda: len(server.sending) == sending)
            return reader, writer

        async def ended(reader: asyncio.StreamReader) -> bool:
            with contextlib.suppress(ConnectionResetError):
                return await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
            return True

        one = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            one[1].write(b"GET /livez HTTP/1.1\r\n\r\n")
            assert b"200 OK" in await one[0].readuntil(b"}\n")
        slow = await connect(1)
        third = await connect(2)  # takes the place of the idle one
        assert await ended(one[0])
        assert (await call(port, "GET", "/livez"))[0] == 200  # of the one that has been sending for longer
        assert await ended(slow[0])
        assert len(server.sending) == 1  # the third
        third[1].close()
        await until(lambda: not server.connections)
        monkeypatch.setattr(http, "READ_S", 0.05)
        fourth = await asyncio.open_connection("127.0.0.1", port)
        fourth[1].write(b"GET /livez HT")
        assert await ended(fourth[0])  # it is too slow
        assert await exchange(port, b"GET /livez HT", eof=True) == b""
        for _, writer in (one, slow, fourth):
            writer.close()


async def test_answers_that_are_awaited_keep_their_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 1)
    served = Served()
    async with admin(served) as port:
        waiting = asyncio.create_task(call(port, "POST", "/reload", b'{"model": "a"}'))
        await until(lambda: served.reloads.asked)
        with contextlib.suppress(ConnectionResetError):
            assert await exchange(port, b"") == b""  # there is no room
        assert not waiting.done()
        served.reloads.end = Reloaded("a", "reloaded", "2" * 12, "1" * 12, "", 1.0)
        served.reloads.may_end.set()
        assert (await waiting)[0] == 200


async def test_answers_that_nobody_takes_keep_no_probe_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 2)
    monkeypatch.setattr(http, "WRITE_S", 3600.0)
    large = http.Answer(200, bytes(64 << 20), "text/plain")  # more than sockets hold

    def page(request: http.Request) -> http.Answer:
        return large if request.path == "/large" else http.Answer.data(200, {})

    async with listening() as (sock, port), AdminServer(sock, page) as server:
        slow = [await asyncio.open_connection("127.0.0.1", port, limit=1024) for _ in range(2)]
        for count, (_, writer) in enumerate(slow, 1):
            writer.write(b"GET /large HTTP/1.1\r\nconnection: close\r\n\r\n")
            await until(lambda count=count: len(server.taking) == count)  # type: ignore[misc]
        assert (await call(port, "GET", "/livez"))[0] == 200
        assert len(server.taking) == 1
        for _, writer in slow:
            writer.transport.abort()


async def test_a_load_that_cannot_be_measured_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said once, also where only what is done once a second fails, and measured again."""
    monkeypatch.setattr(pages, "TICK_S", 0.001)
    tick, calls = LoadMeter.tick, 0

    def fails(meter: LoadMeter) -> None:
        nonlocal calls
        calls += 1
        if calls in (1, 2, 11, 21, 61):
            raise OSError(errno.EMFILE, "Too many open files")
        tick(meter)

    monkeypatch.setattr(LoadMeter, "tick", fails)
    served = Served()
    async with admin(served):
        await until(lambda: calls > 61)
    assert served.said == ["the load cannot be measured: OSError(24, 'Too many open files')"] * 2


async def test_a_client_that_goes_at_once(recwarn: pytest.WarningsRecorder) -> None:
    """Its page is not made, and nothing is said of that."""

    async def page() -> http.Answer:
        raise AssertionError("made")

    transport = mock.Mock(spec=asyncio.Transport)
    connection = Connection(AdminServer(mock.Mock(), lambda request: page()), asyncio.get_running_loop())
    connection.connection_made(transport)
    connection.data_received(b"GET /live HTTP/1.1\r\n\r\n")
    connection.connection_lost(None)
    await asyncio.sleep(0.01)
    transport.write.assert_not_called()
    gc.collect()
    assert not [each for each in recwarn if "never awaited" in str(each.message)]


BAD_RELOADS = [
    ("{", 400, "the body is not JSON"),
    ("[]", 400, "the body is not an object"),
    ('{"modle": "a"}', 400, "unknown key 'modle'; known: model, from"),
    ('{"model": "a", "from": 3}', 400, "from is not a string"),
    (f'{{"model": "a", "from": "{"x" * 4096}"}}', 400, "from is longer than 4095 characters"),
    ('{"model": ""}', 400, "model is not a string, or an empty one"),
    ("", 400, 'model: say which one; there are: a, b"'),
    ('{"model": "c"}', 404, 'no such model is served; there are: a, b"'),
]


async def test_who_may_post() -> None:
    served = Served()
    async with admin(served) as port:
        served.token = "Bearer right"
        for path in ("/reload", "/limits"):
            for more in ((), ("authorization: Bearer wrong",)):
                status, headers, body = await call(port, "POST", path, b"{}", *more)
                assert (status, headers["www-authenticate"]) == (401, "Bearer")
                assert b"authorization: Bearer TOKEN" in body
            assert (await call(port, "POST", path, b"{}", "authorization: Bearer right"))[0] not in (401, 403)
        for path, status in (("/metrics", 405), ("/nothing", 404)):  # no stranger learns which pages there are
            assert (await call(port, "POST", path))[0] == 401
            assert (await call(port, "POST", path, b"", "authorization: Bearer right"))[0] == status
        assert (await call(port, "GET", "/reload"))[0] == 200  # reading is for whoever reaches the port
        assert served.reloads.asked == []
        served.token, served.local = "", False
        for path in ("/reload", "/limits"):
            status, _, body = await call(port, "POST", path, b'{"model": "a"}')
            assert status == 403 and b"--auth-token-file" in body and served.reloads.asked == []
        served.local = True
        for path in ("/reload", "/limits"):
            assert (await call(port, "POST", path, b"{}", "origin: http://else.where"))[0] == 403
        assert served.reloads.asked == []


async def test_hosts_of_other_sites() -> None:
    """A page of another site whose name leads to loopback reads nothing. Where others can reach the port, its names
    are not known."""
    own = (
        "localhost",
        "localhost:9464",
        "127.0.0.1",
        "127.0.0.1:9464",
        "[::1]",
        "[::1]:9464",
        "::1",
        "10.0.0.1:80",
        "",
    )
    foreign = ("evil.example", "evil.example:9464", "localhost.evil.example", "127.0.0.1.evil.example:9464", "x")
    served = Served()
    async with admin(served) as port:
        for hosts, status in ((own, 200), (foreign, 403)):
            for host in hosts:
                assert (await call(port, "GET", "/metrics", b"", f"host: {host}"))[0] == status, host
        served.local = False
        assert (await call(port, "GET", "/metrics", b"", "host: evil.example"))[0] == 200


async def test_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served()

    async with admin(served) as port:
        for body, status, message in BAD_RELOADS:
            found = await ask(port, "/reload", body)
            assert found[0] == status and found[1]["error"].startswith(message), (body, found)
        assert served.reloads.asked == []
        served.reloads.end = Reloaded("a", "reloaded", "2" * 12, "1" * 12, "", 1.23456)
        told = {"model": "a", "outcome": "reloaded", "version": "2" * 12, "before": "1" * 12, "reason": ""}
        asked = '{"model": "a", "from": "/new"}'
        assert await ask(port, "/reload", asked) == (200, {**told, "seconds": 1.235})
        assert served.reloads.asked == [(0, "/new")]
        served.reloads.end = Reloaded(
            "a", "failed", "1" * 12, "1" * 12, "torn: \udc80", 1.0
        )  # a path's byte that is no UTF-8
        found = await ask(port, "/reload", '{"model": "a"}')
        assert (found[0], found[1]["reason"]) == (422, "torn: \udc80")
        served.reloads.end = ReloadRefused("another reload runs: warming up a")
        found = await ask(port, "/reload", '{"model": "a"}')
        assert found == (409, {"error": "another reload runs: warming up a"})
        served.reloads.end, served.reloads.doing = None, "warming up a@222222222222"
        monkeypatch.setattr(model_pages, "WAIT_S", 0.01)
        for status, method in ((202, "POST"), (200, "GET")):
            found = await ask(port, "/reload", '{"model": "a"}' if method == "POST" else "", method)
            assert found[0] == status
            assert found[1]["doing"] == "warming up a@222222222222"
            assert found[1]["models"][0] == {"model": "a", "version": "0123456789ab", "generation": 2}


BAD_LIMITS = [
    ("{", 400, "the body is not JSON"),
    ('{"model": "a", "tokens": 5}', 400, "unknown key 'tokens'; known: model, running, items, lanes, async_steps"),
    ('{"model": "a"}', 400, "nothing to change; give at least one of: running, items, lanes, async_steps"),
    ('{"items": 5}', 400, "model: say which one; there are: a, b"),
    ('{"model": 5, "items": 5}', 400, "model is not a string"),
    ('{"model": "c", "items": 5}', 404, "no such model is served; there are: a, b"),
    ('{"model": "a", "items": "5"}', 400, 'items: "5" is not a whole number'),
    ('{"model": "a", "items": true}', 400, "items: true is not a whole number"),
    ('{"model": "a", "items": 5.0}', 400, "items: 5.0 is not a whole number"),
    ('{"model": "a", "items": null}', 400, "items: null is not a whole number"),
    ('{"model": "a", "items": 0}', 400, "items: 0 is not between 1 and 64, the most that the server was started for"),
    ('{"model": "a", "items": 65}', 400, "items: 65 is not between 1 and 64"),
    ('{"model": "a", "lanes": 3}', 400, "lanes: 3 is not between 1 and 2"),
    ('{"model": "a", "async_steps": 0}', 400, "async_steps: 0 is not true or false"),
    ('{"model": "a", "running": 5}', 400, "running: 5: a does not generate; its limit is items"),
    (r'{"model": "b\"\n", "items": 5}', 400, 'items: 5: b"\n generates; its limit is running'),
    (
        r'{"model": "b\"\n", "async_steps": true}',
        400,
        "async_steps: true, but the server was started with --async-steps off",
    ),
    ('{"model": "a", "items": 5, "lanes": 3}', 400, "lanes: 3"),
]


async def test_limits() -> None:
    served = Served()

    async with admin(served) as port:
        of_a = {"running": None, "items": 64, "lanes": 2, "async_steps": True}
        of_b = {"running": 512, "items": None, "lanes": 1, "async_steps": False}
        before = {"models": [{"model": "a", **of_a, "most": of_a}, {"model": 'b"\n', **of_b, "most": of_b}]}
        for body, status, message in BAD_LIMITS:
            found = await ask(port, "/limits", body)
            assert found[0] == status and found[1]["error"].startswith(message), (body, found)
        assert await ask(port, "/limits", "", "GET") == (200, before), "a refused request changes nothing"
        lower = {"model": "a", **of_a, "items": 1, "lanes": 1, "most": of_a}
        assert await ask(port, "/limits", '{"model": "a", "items": 1, "lanes": 1}') == (200, lower)
        assert await ask(port, "/limits", '{"model": "a", "async_steps": false}') == (
            200,
            {**lower, "async_steps": False},
        )
        assert await ask(port, "/limits", '{"model": "a", "items": 64, "async_steps": true}') == (
            200,
            {**lower, "items": 64},
        )
        assert (await ask(port, "/limits", r'{"model": "b\"\n", "running": 512}'))[1] == before["models"][1]
        served.found = Readiness(("starting",), (), (), answers=False)
        assert await ask(port, "/limits", '{"model": "a", "items": 1}') == (503, {"error": "the server is not ready"})
        served.limits.found = []
        assert await ask(port, "/limits", "", "GET") == (200, {"models": []})
        found = await ask(port, "/limits", '{"model": "a", "items": 1}')
        assert found[0] == 400 and found[1]["error"].startswith("this server is an edge (--device remote)")
