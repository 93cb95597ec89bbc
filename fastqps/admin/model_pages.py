"""Pages about one model. ``POST /reload`` reads it again, and it serves when it is ready; ``POST /limits`` changes its
limits while it serves. ``GET`` lists the versions and the limits of all models."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from fastqps.admin.http import Answer, Request
from fastqps.admin.served import Served
from fastqps.process.served_models import Limits, ModelLimits, Reloaded, ReloadRefused

VALUE_CHARS_MAX = 4095  # the longest path that there is
WAIT_S = 50.0  # for a reload; then the answer is that it still runs; less than a client of this port is given
RELOAD_KEYS = ("model", "from")
LIMITS = tuple(field.name for field in dataclasses.fields(Limits))
_STATUS = {"reloaded": 200, "unchanged": 200, "failed": 422}


async def reload_page(served: Served, request: Request) -> Answer:
    """Both methods of ``/reload``."""
    if request.method != "POST":
        return Answer.data(200, _state(served))
    try:
        model, asked = _parse(request.body, RELOAD_KEYS, served.models)
        for key, value in asked.items():
            _check_text(key, value)
    except ValueError as wrong:
        return _error(400, str(wrong))
    if model < 0:
        return _unknown_model(served.models)
    try:
        task = served.reloads.start(model, asked.get("from", ""))
    except ReloadRefused as refused:
        return _error(409, str(refused))
    await asyncio.wait([task], timeout=WAIT_S)  # it continues even if no client waits for it
    if not task.done():
        return Answer.data(202, _state(served))
    if task.cancelled() or task.exception() is not None:
        return _error(503, "the server is about to end")
    reloaded = task.result()
    assert reloaded, "it was one model's"
    return Answer.data(_STATUS[reloaded.outcome], _reloaded(reloaded))


def _state(served: Served) -> dict[str, Any]:
    last = served.reloads.last
    return {
        "models": [vars(version) for version in served.versions()],
        "doing": served.reloads.doing,
        "last": _reloaded(last) if last else None,
    }


def _reloaded(reloaded: Reloaded) -> dict[str, Any]:
    data = dataclasses.asdict(reloaded)
    data["seconds"] = round(data.pop("took_s"), 3)
    return data


def limits_page(served: Served, request: Request) -> Answer:
    """Both methods of ``/limits``."""
    limited = served.limits.all()
    if request.method != "POST":
        return Answer.data(200, {"models": [_limits(each) for each in limited]})
    if not limited:
        return _error(400, "this server is an edge (--device remote): change limits at its upstreams")
    if not served.readiness().answers:
        return _error(503, "the server is not ready")
    try:
        model, asked = _parse(request.body, ("model", *LIMITS), served.models)
        if model < 0:
            return _unknown_model(served.models)
        now = _changed(limited[model], asked)
    except ValueError as wrong:
        return _error(400, str(wrong))
    return Answer.data(200, _limits(served.limits.change(model, now)))


def _changed(model: ModelLimits, asked: dict[str, Any]) -> Limits:
    if not asked:
        raise ValueError(f"nothing to change; give at least one of: {', '.join(LIMITS)}")
    for key, value in asked.items():
        _check_limit(key, value, model)
    return dataclasses.replace(model.now, **asked)


def _check_limit(key: str, value: Any, model: ModelLimits) -> None:
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


def _limits(model: ModelLimits) -> dict[str, Any]:
    return {"model": model.model, **dataclasses.asdict(model.now), "most": dataclasses.asdict(model.most)}


def _parse(body: bytes, keys: Sequence[str], models: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """(index of ``model`` in ``models``, or -1 for one that is not served; the other keys). Raises ``ValueError``."""
    try:
        asked = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    if not isinstance(asked, dict):
        raise ValueError('the body is not an object such as {"model": "minilm"}')
    if unknown := next((key for key in asked if key not in keys), None):
        raise ValueError(f"unknown key {unknown[:100]!r}; known: {', '.join(keys)}")
    if "model" not in asked and len(models) > 1:
        raise ValueError(f"model: say which one; there are: {', '.join(models)}")
    name = asked.pop("model", models[0])
    _check_text("model", name)
    return (list(models).index(name) if name in models else -1), asked


def _check_text(key: str, value: Any) -> None:
    """Raises ``ValueError`` unless the value is a string that is not empty or too long."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key} is not a string, or an empty one")
    if len(value) > VALUE_CHARS_MAX:
        raise ValueError(f"{key} is longer than {VALUE_CHARS_MAX} characters")


def _unknown_model(models: Sequence[str]) -> Answer:
    """The answer about a model that is not served."""
    return _error(404, f"no such model is served; there are: {', '.join(models)}")


def _error(status: int, message: str) -> Answer:
    """An answer that says what is wrong."""
    return Answer.data(status, {"error": message})
