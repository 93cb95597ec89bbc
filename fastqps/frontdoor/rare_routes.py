"""The HTTP routes that Python answers in a front door: lists of models, never a prediction."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import NamedTuple

from fastqps.frontdoor.served import ServedModels

JSON = "application/json"


class Request(NamedTuple):
    """A request. ``parameters``: the percent-decoded segments for the ``{...}`` of the pattern, in order."""

    query: str  # behind ``?``, as sent
    parameters: list[str]
    body: bytes


class Response(NamedTuple):
    """A response. ``content_type``: one of those in csrc/http/http_request.cpp."""

    status: int
    content_type: str
    body: bytes


class RareRoute(NamedTuple):
    """One route. ``pattern``: as in csrc/http/http_routes.h."""

    verb: str
    pattern: str
    answer: Callable[[Request], Response]
    slow: bool = False  # as in RareMethod
    protocol: str = ""  # in whose form the transport refuses: "openai", "tei"; "": {"error": "MESSAGE"}


def json_response(document: object, status: int = 200) -> Response:
    """A response with a document of JSON."""
    return Response(status, JSON, json_bytes(document))


def json_bytes(document: object) -> bytes:
    """The same without the response."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def rare_routes(models: ServedModels) -> list[RareRoute]:
    """The table of the routes that belong to no protocol alone."""
    started = int(time.time())

    def list_models(_: Request) -> Response:
        found = [
            {"id": model.card.name, "object": "model", "created": started, "owned_by": "fastqps"}
            for model in models.all()
        ]
        return json_response({"object": "list", "data": found})

    return [RareRoute("GET", "/v1/models", list_models, protocol="openai")]
