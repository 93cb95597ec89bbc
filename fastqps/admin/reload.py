"""``POST /reload`` reads a model again, which serves when it is ready. ``GET /reload`` lists the served models."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from fastqps.admin.asked import check_text, error, parse, unknown_model
from fastqps.admin.http import Answer, Request
from fastqps.process.served_models import Reloaded, ReloadRefused, ServedVersion

WAIT_S = 50.0  # then the answer is that it still runs; less than a client of this port is given
KEYS = ("model", "from")
_STATUS = {"reloaded": 200, "unchanged": 200, "failed": 422}


class Reloads(Protocol):
    """The component that reloads models."""

    last: Reloaded | None

    @property
    def doing(self) -> str:
        """The step at which a running reload is; "" if none runs."""

    def start(self, model: int, path: str) -> asyncio.Task[Reloaded | None]:
        """Begins a reload. Raises ``ReloadRefused`` if it cannot begin now."""


class Reloadable(Protocol):
    """A server whose models can be reloaded."""

    models: Sequence[str]
    reloads: Any  # Reloads

    def versions(self) -> Sequence[ServedVersion]:
        """The versions of all models, by index."""


class ReloadPage:
    """Both methods of the page."""

    def __init__(self, server: Reloadable) -> None:
        self._server = server

    async def answer(self, request: Request) -> Answer:
        """The page."""
        if request.method != "POST":
            return Answer.data(200, self._state())
        try:
            model, asked = parse(request.body, KEYS, self._server.models)
            for key, value in asked.items():
                check_text(key, value)
        except ValueError as wrong:
            return error(400, str(wrong))
        if model < 0:
            return unknown_model(self._server.models)
        try:
            task = self._server.reloads.start(model, asked.get("from", ""))
        except ReloadRefused as refused:
            return error(409, str(refused))
        await asyncio.wait([task], timeout=WAIT_S)  # it continues even if no client waits for it
        if not task.done():
            return Answer.data(202, self._state())
        if task.cancelled() or task.exception() is not None:
            return error(503, "the server is about to end")
        reloaded = task.result()
        return Answer.data(_STATUS[reloaded.outcome], _data(reloaded))

    def _state(self) -> dict[str, Any]:
        last = self._server.reloads.last
        return {
            "models": [vars(version) for version in self._server.versions()],
            "doing": self._server.reloads.doing,
            "last": _data(last) if last else None,
        }


def _data(reloaded: Reloaded) -> dict[str, Any]:
    return {
        "model": reloaded.model,
        "outcome": reloaded.outcome,
        "version": reloaded.version,
        "before": reloaded.before,
        "reason": reloaded.reason,
        "seconds": round(reloaded.took_s, 3),
    }
