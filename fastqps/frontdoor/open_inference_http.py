"""The rare routes of the Open Inference Protocol over HTTP: the methods of open_inference.py, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, MutableSequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from fastqps.api.reflection import message_class
from fastqps.errors import StatusCode
from fastqps.frontdoor import open_inference
from fastqps.frontdoor.openapi.open_inference import UNSERVED
from fastqps.frontdoor.rare_calls import CallFailed
from fastqps.frontdoor.rare_routes import RareRoute, Request, Response, json_response
from fastqps.frontdoor.served import ServedModels

_UNAVAILABLE = 503
# The route of each method that concerns a model. Each exists also for a version of it.
_MODEL = "/v2/models/{model}"
_OF_A_MODEL = {"ModelMetadata": "", "ModelReady": "/ready", "ModelConfig": "/config", "ModelStatistics": "/stats"}


def routes(models: ServedModels) -> list[RareRoute]:
    """The table of the routes that Python answers."""
    found = [
        RareRoute("GET", "/v2", _route(models, "ServerMetadata")),
        RareRoute("GET", "/v2/health/live", _route(models, "ServerLive")),
        RareRoute("GET", "/v2/health/ready", _route(models, "ServerReady")),
        RareRoute("GET", "/v2/models/stats", _route(models, "ModelStatistics")),
        RareRoute("POST", "/v2/repository/index", lambda request: _index(models, request)),
    ]
    for name, end in _OF_A_MODEL.items():
        found.append(RareRoute("GET", _MODEL + end, _route(models, name)))
        found.append(RareRoute("GET", f"{_MODEL}/versions/{{version}}{end}", _route(models, name)))
    return found + [RareRoute(*row, _unserved(name)) for name, rows in UNSERVED.items() for row in rows]


def _route(models: ServedModels, name: str) -> Callable[[Request], Response]:
    request_type: Any = message_class(f"inference.{name}Request")

    def call(request: Request) -> Response:
        fields = dict(zip(("name", "version"), request.parameters, strict=False))
        if name == "ModelReady":  # over HTTP, 404 says that it is not served
            open_inference.find(models, **fields)
        document = to_json(open_inference.answer(models, name, request_type(**fields)))
        if name == "ModelConfig":
            document = document["config"]
        if name == "ModelReady":
            document = {"name": fields["name"], **document}
        return json_response(document, _UNAVAILABLE if document.get("ready") is False else 200)

    return call


def _index(models: ServedModels, request: Request) -> Response:
    try:
        options = json.loads(request.body or b"{}")
        ready = options.get("ready")
    except (ValueError, AttributeError, RecursionError):
        raise CallFailed(StatusCode.INVALID_ARGUMENT, "the body must be a JSON object, or empty") from None
    if not isinstance(ready, bool | None):
        raise CallFailed(StatusCode.INVALID_ARGUMENT, "ready must be a bool")
    asked: Any = message_class("inference.RepositoryIndexRequest")
    return json_response(to_json(open_inference.answer(models, "RepositoryIndex", asked(ready=bool(ready))))["models"])


def _unserved(name: str) -> Callable[[Request], Response]:
    return lambda _: open_inference.refuse(name)


def to_json(message: Any) -> dict[str, Any]:
    """A message as Triton writes it: all fields under their own names, 64-bit integers as numbers.

    Submessages that are not set are left out. protobuf's own JSON has 64-bit integers as strings.
    """
    document: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if isinstance(value, MutableSequence):  # a repeated field
            document[field.name] = [_value(field, each) for each in value]
        elif field.message_type is None or message.HasField(field.name):
            document[field.name] = _value(field, value)
    return document


def _value(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return to_json(value)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    return value
