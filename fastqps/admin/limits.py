"""``POST /limits`` changes the limits of a model while it serves. ``GET /limits`` lists those of all models."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, Protocol

from fastqps.admin.asked import error, parse, unknown_model
from fastqps.admin.http import Answer, Request
from fastqps.process.readiness import Readiness
from fastqps.process.served_models import Limits, ModelLimits

KEYS = tuple(field.name for field in dataclasses.fields(Limits))


class Changes(Protocol):
    """The component that changes limits."""

    def all(self) -> list[ModelLimits]:
        """The limits of all models, by index; none of a server that runs no steps."""

    def change(self, model: int, now: Limits) -> ModelLimits:
        """Has a model obey these limits, which are within its ``most``."""


class Limited(Protocol):
    """A server whose limits can change."""

    models: Sequence[str]

    @property
    def limits(self) -> Changes:
        """The limits of its models, and the way to change them."""

    def readiness(self) -> Readiness:
        """Whether the server serves, and why not."""


class LimitsPage:
    """Both methods of the page."""

    def __init__(self, server: Limited) -> None:
        self._server = server

    def answer(self, request: Request) -> Answer:
        """The page."""
        limits = self._server.limits
        limited = limits.all()
        if request.method != "POST":
            return Answer.data(200, {"models": [_data(each) for each in limited]})
        if not limited:
            return error(400, "this server is an edge (--device remote): change limits at its upstreams")
        if not self._server.readiness().answers:
            return error(503, "the server is not ready")
        try:
            model, asked = parse(request.body, ("model", *KEYS), self._server.models)
            if model < 0:
                return unknown_model(self._server.models)
            now = _changed(limited[model], asked)
        except ValueError as wrong:
            return error(400, str(wrong))
        return Answer.data(200, _data(limits.change(model, now)))


def _changed(model: ModelLimits, asked: dict[str, Any]) -> Limits:
    if not asked:
        raise ValueError(f"nothing to change; give at least one of: {', '.join(KEYS)}")
    for key, value in asked.items():
        _check(key, value, model)
    return dataclasses.replace(model.now, **asked)


def _check(key: str, value: Any, model: ModelLimits) -> None:
    limit, shown = getattr(model.most, key), f"{key}: {json.dumps(value)[:100]}"
    if limit is None:
        does, has = ("does not generate", "items") if key == "running" else ("generates", "running")
        raise ValueError(f"{shown}: {model.model} {does}; its limit is {has}")
    if type(value) is not type(limit):
        raise ValueError(f"{shown} is not {'true or false' if isinstance(limit, bool) else 'a whole number'}")
    if isinstance(limit, bool):
        if value > limit:
            raise ValueError(f"{shown}, but the server was started with --async-steps off")
    elif not 1 <= value <= limit:
        raise ValueError(f"{shown} is not between 1 and {limit}, the most that the server was started for")


def _data(model: ModelLimits) -> dict[str, Any]:
    return {"model": model.model, **dataclasses.asdict(model.now), "most": dataclasses.asdict(model.most)}
