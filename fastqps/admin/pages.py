"""The pages of the admin port, by path."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from fastqps import __version__
from fastqps.admin import guard
from fastqps.admin.guard import Guarded
from fastqps.admin.http import CONNECTIONS_MAX, Answer, Request
from fastqps.admin.limits import Limited, LimitsPage
from fastqps.admin.predict import Predict
from fastqps.admin.reload import Reloadable, ReloadPage
from fastqps.admin.server import Server
from fastqps.process.background import UnexpectedError
from fastqps.telemetry.live import PAGE, Sampler, Seen
from fastqps.telemetry.metrics import Metrics
from fastqps.telemetry.metrics.meter import CONTENT_TYPE as LOAD_PAGE
from fastqps.telemetry.metrics.meter import TICK_S

JSON = "application/json"


class Live:
    """The page and the answers that it and other readers ask for."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler

    async def page(self, request: Request) -> Answer:
        """The source of the live page's data."""
        return Answer(200, PAGE, "text/html; charset=utf-8")

    async def now(self, request: Request) -> Answer:
        """The last second."""
        return Answer(200, self.sampler.now, JSON)

    async def history(self, request: Request) -> Answer:
        """The last minutes."""
        return Answer(200, self.sampler.history(), JSON)

    async def counts(self, request: Request) -> Answer:
        """This moment, for whoever takes differences."""
        return Answer(200, self.sampler.counts(), JSON)


# A request that waits for its answer keeps its connection. Some connections stay free for probes and scrapers.
PREDICTING_MAX = CONNECTIONS_MAX - 16
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
POST /predict  {{"text": "..."}}, {{"pair": ["...", "..."]}}, {{"token_ids": [1, 2]}}, or a list of these

curl -d '{{"text": "hello"}}' http://ADDRESS/predict
curl -d '{{"text": "a prompt for a model that generates", "max_tokens": 20}}' http://ADDRESS/predict
"""


class Served(Seen, Guarded, Reloadable, Limited, Protocol):
    """The server that the pages show."""

    def own_target(self) -> str:
        """The gRPC target of the server's own calls."""


class Admin:
    """The admin server, from ``async with`` on. ``say(line)``: to the log. ``sampling``: runs as long; where it raises,
    nothing is true any more that pages and front doors say of the load."""

    sampling: asyncio.Task[None]

    def __init__(self, served: Served, sock: socket.socket, say: Callable[[str], None]) -> None:
        self._served, self._say = served, say
        self._metrics = Metrics(served)
        self._live = Live(Sampler(served, self._metrics.meter.shown))
        self._predict = Predict(served.own_target())
        self._predicting = 0
        self._reload = ReloadPage(served)
        self._limits = LimitsPage(served)
        self._server = Server(sock, self._answer)

    async def __aenter__(self) -> Admin:
        await self._server.__aenter__()
        self.sampling = asyncio.get_running_loop().create_task(self._sample())
        return self

    async def __aexit__(self, *error: object) -> None:
        self.sampling.cancel()
        await asyncio.wait([self.sampling])  # its exceptions are handled elsewhere
        try:
            await self._predict.close()
        finally:
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
            self._live.sampler.sample()

    def _answer(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        changes = dict.fromkeys(guard.CHANGES, "GET, HEAD, POST")
        allowed = {"/predict": "POST", **changes}.get(request.path, "GET, HEAD")
        pages: dict[str, Callable[[Request], Answer | Coroutine[Any, Any, Answer]]] = {
            "/": self._index,
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": self._metrics_page,
            "/metrics/load": self._load_page,
            "/live": self._live.page,
            "/live.json": self._live.now,
            "/live/history.json": self._live.history,
            "/live/counts.json": self._live.counts,
            "/predict": self._predict_page,
            "/reload": self._reload.answer,
            "/limits": self._limits.answer,
        }
        if refused := guard.refusal(self._served, request):
            return refused
        page = pages.get(request.path)
        if page is None:
            return Answer.text(404, f"no page {request.path[:100]}; GET / lists them")
        if request.method not in allowed.split(", "):
            text = f"{request.path} answers {allowed}\n"
            return Answer(405, text.encode(), "text/plain; charset=utf-8", allow=allowed)
        return page(request)

    def _index(self, request: Request) -> Answer:
        return Answer(200, INDEX.replace("ADDRESS", request.headers.get("host", "ADDRESS")).encode(), "text/plain")

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

    def _load_page(self, request: Request) -> Answer:
        return Answer(200, self._metrics.meter.page, LOAD_PAGE)

    async def _predict_page(self, request: Request) -> Answer:
        if not self._served.readiness().answers:
            return _refused(503, "UNAVAILABLE", "the server is not ready")
        if self._predicting >= PREDICTING_MAX:
            return _refused(
                429, "RESOURCE_EXHAUSTED", f"{PREDICTING_MAX} requests wait for answers here; the gRPC port takes more"
            )
        try:
            asked = json.loads(request.body)
        except (ValueError, RecursionError) as error:  # also what is not UTF-8
            return _refused(400, "INVALID_ARGUMENT", f"the body is not JSON: {error}")
        self._predicting += 1
        try:
            return Answer.data(*await self._predict(asked))
        except UnexpectedError as error:
            return _refused(503, "UNAVAILABLE", str(error))
        finally:
            self._predicting -= 1


def _refused(status: int, code: str, message: str) -> Answer:
    return Answer.data(status, {"error": {"code": code, "message": message}})
