"""The HTTP routes that Python answers in a front door: lists of models, never a prediction."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Callable
from importlib import resources
from typing import NamedTuple

from fastqps import _front
from fastqps.frontdoor.openapi.document import HEALTH_PATHS, METRICS_PATH, PAGE_PATH, PATH, VERSION_PATH, document
from fastqps.frontdoor.openapi.openai import ROOTS
from fastqps.frontdoor.openapi.text_embeddings import VERTEX_PATH
from fastqps.frontdoor.served import ServedModels
from fastqps.version import __version__

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
METRICS_S = 5.0


class Request(NamedTuple):
    """A request. ``parameters``: the percent-decoded segments for the ``{...}`` of the pattern, in order."""

    query: str  # behind ``?``, as sent
    parameters: list[str]
    body: bytes


class Response(NamedTuple):
    """A response. ``content_type``: one of those in csrc/transport/http/http_request.cpp."""

    status: int
    content_type: str
    body: bytes


class RareRoute(NamedTuple):
    """One route. ``pattern``: as in csrc/transport/http/http_routes.h."""

    verb: str
    pattern: str
    answer: Callable[[Request], Response]
    slow: bool = False  # as in RareMethod
    protocol: str = ""  # in whose form the transport refuses: "openai", "tei"; "": {"error": "MESSAGE"}


def json_response(value: object, status: int = 200) -> Response:
    """A response with a document of JSON."""
    return Response(status, JSON, json_bytes(value))


def json_bytes(value: object) -> bytes:
    """The same without the response."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def rare_routes(models: ServedModels) -> list[RareRoute]:
    """The table of the routes that belong to no protocol alone."""
    started = int(time.time())

    def described(name: str) -> dict[str, object]:
        about: dict[str, object] = {"id": name, "object": "model", "created": started, "owned_by": "fastqps"}
        if model := models.find(name):
            card = model.card
            about |= {"task": card.task, "chat": card.chat is not None}
            about["max_model_len"] = len(card.prefix_ids) + card.max_input_tokens + card.max_output_tokens
        return about

    def list_models(_: Request) -> Response:
        return json_response({"object": "list", "data": [described(name) for name in models.names()]})

    def one_model(request: Request) -> Response:
        if models.find(request.parameters[0]):
            return json_response(described(request.parameters[0]))
        message = f"model: {request.parameters[0][:200]!r} is not served; GET /v1/models lists what is"
        error = {"message": message, "type": "invalid_request_error", "param": "model", "code": "model_not_found"}
        return json_response({"error": error}, 404)

    return [
        *(RareRoute("GET", f"{root}/v1/models", list_models, protocol="openai") for root in ROOTS),
        *(RareRoute("GET", f"{root}/v1/models/{{model}}", one_model, protocol="openai") for root in ROOTS),
        RareRoute("GET", VERSION_PATH, lambda _: json_response({"version": __version__})),
    ]


def metrics_route(admin: str) -> RareRoute:
    """The route of the server's metrics, which the admin port has: ``admin`` is its HOST:PORT."""
    host, _, port = admin.rpartition(":")

    def answer(_: Request) -> Response:
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=METRICS_S)
        with contextlib.closing(connection):
            try:
                connection.request("GET", METRICS_PATH)
                page = connection.getresponse()
                return Response(page.status, TEXT, page.read())
            except (OSError, http.client.HTTPException) as error:
                return json_response({"error": f"the admin port does not answer: {error}"}, 503)

    return RareRoute("GET", METRICS_PATH, answer, slow=True)


def add_document_page(door: _front.Door) -> None:
    """The page that shows the OpenAPI document. It asks for a token itself, because a browser sends none for a page."""
    door.add_page(PAGE_PATH, resources.files("fastqps.frontdoor.openapi").joinpath("page.html").read_text())


def document_route(door: _front.Door) -> RareRoute:
    """The route of the OpenAPI document: of all routes that there are when the first request comes."""
    made: list[Response] = []

    def answer(_: Request) -> Response:
        if not made:
            aliases = {
                ("POST", door.predict_route): ("POST", VERTEX_PATH),
                ("GET", door.health_route): ("GET", HEALTH_PATHS[0]),
            }
            made.append(json_response(document(door.http_routes(), aliases)))
        return made[0]

    return RareRoute("GET", PATH, answer)
