"""The pages of the admin port, by path."""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from fastqps import __version__
from fastqps.admin.http import Answer, Request
from fastqps.admin.model_pages import limits_page, reload_page
from fastqps.admin.served import Served
from fastqps.admin.server import Server
from fastqps.telemetry.live import PAGE, Sampler
from fastqps.telemetry.metrics import Metrics
from fastqps.telemetry.metrics.meter import CONTENT_TYPE as LOAD_PAGE
from fastqps.telemetry.metrics.meter import TICK_S

JSON = "application/json"
CHANGES = ("/reload", "/limits")  # requests that change the server
FAILING_MAX_S = 10.0  # as far as the load looks back
_TICKS_PER_S = round(1 / TICK_S)

INDEX = f"""\
fastqps {__version__}

GET  /readyz   200 when the server serves, else 503 with the reasons
GET  /livez    200 unless only a restart of the server can help
GET  /metrics  Prometheus text, or OpenMetrics by the Accept header; /metrics/load is its short form for load balancers
GET  /live     a page to watch the server with, in a browser
POST /reload   {{"model": "...", "from": "DIRECTORY"}}: reads a model again; GET tells which versions are served
POST /limits   {{"model": "...", "lanes": 1}}: changes running, items, lanes, async_steps of a model; GET lists them
"""


class Admin:
    """The admin server, from ``async with`` on. ``say(line)``: to the log. ``sampling``: runs as long; where it raises,
    nothing is true any more that pages and front doors say of the load."""

    sampling: asyncio.Task[None]

    def __init__(self, served: Served, sock: socket.socket, say: Callable[[str], None]) -> None:
        self._served, self._say = served, say
        self._metrics = Metrics(served)
        self._live = Sampler(served, self._metrics.meter.shown)
        self._server = Server(sock, self._answer)

    async def __aenter__(self) -> Admin:
        await self._server.__aenter__()
        self.sampling = asyncio.get_running_loop().create_task(self._sample())
        return self

    async def __aexit__(self, *error: object) -> None:
        self.sampling.cancel()
        await asyncio.wait([self.sampling])  # its exceptions are handled elsewhere
        await self._server.__aexit__(*error)

    async def _sample(self) -> None:
        """Samples the load ten times a second, and the rest once. A short failure, of a file of /proc say, is logged
        and retried; a longer one is raised."""
        first = last = -_TICKS_PER_S * 3  # failures
        for tick in itertools.count(1):
            await asyncio.sleep(TICK_S)
            try:
                self._look(tick)
            except Exception as error:
                if tick - last > 2 * _TICKS_PER_S:  # some of it is only done once a second
                    first = tick
                    self._say(f"the load cannot be measured: {error!r}")
                last = tick
                if (tick - first) * TICK_S >= FAILING_MAX_S:
                    raise

    def _look(self, tick: int) -> None:
        self._metrics.meter.tick()
        if tick % _TICKS_PER_S == 0:
            self._metrics.sample()
            self._live.sample()

    def _answer(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        allowed = "GET, HEAD, POST" if request.path in CHANGES else "GET, HEAD"
        pages: dict[str, Callable[[Request], Answer | Coroutine[Any, Any, Answer]]] = {
            "/": lambda _: Answer(200, INDEX.encode(), "text/plain"),
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": self._metrics_page,
            "/metrics/load": lambda _: Answer(200, self._metrics.meter.page, LOAD_PAGE),
            "/live": lambda _: Answer(200, PAGE, "text/html; charset=utf-8"),
            "/live.json": lambda _: Answer(200, self._live.now, JSON),
            "/live/history.json": lambda _: Answer(200, self._live.history(), JSON),
            "/live/counts.json": lambda _: Answer(200, self._live.counts(), JSON),
            "/reload": partial(reload_page, self._served),
            "/limits": partial(limits_page, self._served),
        }
        if refused := _refusal(self._served, request):
            return refused
        page = pages.get(request.path)
        if page is None:
            return Answer.text(404, f"no page {request.path[:100]}; GET / lists them")
        if request.method not in allowed.split(", "):
            text = f"{request.path} answers {allowed}\n"
            return Answer(405, text.encode(), "text/plain; charset=utf-8", allow=allowed)
        return page(request)

    def _livez(self, request: Request) -> Answer:
        hopeless = self._served.readiness().hopeless
        return Answer.data(503 if hopeless else 200, {"live": not hopeless, "reasons": hopeless})

    def _readyz(self, request: Request) -> Answer:
        readiness = self._served.readiness()
        status: dict[str, Any] = {
            "ready": not readiness.reasons,
            "reasons": readiness.reasons,
            "degraded": readiness.degraded,
        }
        return Answer.data(503 if readiness.reasons else 200, status)

    def _metrics_page(self, request: Request) -> Answer:
        body, content_type = self._metrics.page(request.headers.get("accept", ""))
        return Answer(200, body, content_type)


def _refusal(served: Served, request: Request) -> Answer | None:
    """The answer to a request without access."""
    host = request.headers.get("host", "")
    if served.on_loopback() and not _is_local(host):
        return Answer.text(403, f"the host {host[:100]} is not this machine's; ask for localhost or 127.0.0.1")
    if request.method != "POST":
        return None
    if "origin" in request.headers:  # a browser's page, of any site, which loopback does not keep out
        return Answer.text(403, "pages in a browser may not POST here")
    if not served.admits(request.headers.get("authorization", "")):
        text = b"this server needs the header authorization: Bearer TOKEN, with one of its tokens\n"
        return Answer(401, text, "text/plain; charset=utf-8", challenge="Bearer")
    if request.path in CHANGES and not served.on_loopback() and served.admits(""):  # no token is needed
        return Answer.text(403, f"{request.path} needs --auth-token-file where --admin-host is not loopback")
    return None


def _is_local(host: str) -> bool:
    """Whether a Host header names no other site. A page of another site reaches loopback only by that site's name, if
    its DNS answers with 127.0.0.1."""
    name = host.rpartition(":")[0] if host.rpartition("]")[2].count(":") == 1 else host
    if name in ("", "localhost"):
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
