"""``POST /reload`` reads a model again, which serves when it is ready. ``GET /reload`` lists the served models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Protocol

from fastqps.admin.http import Answer, Request
from fastqps.process.reloaded import Reloaded, ReloadRefused, ServedVersion

WAIT_S = 50.0  # then the answer is that it still runs; less than a client of this port is given
KEYS = ("model", "from")
VALUE_CHARS_MAX = 4095  # the longest path that there is
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
            model, path = self._asked(request.body)
        except ValueError as error:
            return _error(400, str(error))
        if model < 0:
            return _error(404, f"no such model is served; there are: {', '.join(self._server.models)}")
        try:
            task = self._server.reloads.start(model, path)
        except ReloadRefused as refused:
            return _error(409, str(refused))
        await asyncio.wait([task], timeout=WAIT_S)  # it continues even if no client waits for it
        if not task.done():
            return Answer.data(202, self._state())
        if task.cancelled() or task.exception() is not None:
            return _error(503, "the server is about to end")
        found = task.result()
        return Answer.data(_STATUS[found.outcome], _data(found))

    def _state(self) -> dict[str, Any]:
        last = self._server.reloads.last
        return {
            "models": [vars(version) for version in self._server.versions()],
            "doing": self._server.reloads.doing,
            "last": _data(last) if last else None,
        }

    def _asked(self, body: bytes) -> tuple[int, str]:
        """(model's index, or -1 for one that is not served; directory, or "")."""
        try:
            asked = json.loads(body or b"{}")
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the body is not JSON: {error}") from None
        if not isinstance(asked, dict):
            raise ValueError('the body is not an object such as {"model": "minilm"}')
        if unknown := next((key for key in asked if key not in KEYS), None):
            raise ValueError(f"unknown key {unknown[:100]!r}; known: {', '.join(KEYS)}")
        for key, value in asked.items():
            if not isinstance(value, str) or not value:
                raise ValueError(f"{key} is not a string, or an empty one")
            if len(value) > VALUE_CHARS_MAX:
                raise ValueError(f"{key} is longer than {VALUE_CHARS_MAX} characters")
        models = self._server.models
        if "model" not in asked and len(models) > 1:
            raise ValueError(f"model: say which one; there are: {', '.join(models)}")
        name = asked.get("model", models[0])
        return (list(models).index(name) if name in models else -1), asked.get("from", "")


def _data(found: Reloaded) -> dict[str, Any]:
    return {
        "model": found.model,
        "outcome": found.outcome,
        "version": found.version,
        "before": found.before,
        "reason": found.reason,
        "seconds": round(found.took_s, 3),
    }


def _error(status: int, message: str) -> Answer:
    return Answer.data(status, {"error": message})
