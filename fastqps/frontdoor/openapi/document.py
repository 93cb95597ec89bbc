"""Puts the document together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fastqps.frontdoor.openapi import cohere, ollama, open_inference, openai, rerank, text_embeddings, vllm
from fastqps.frontdoor.openapi.schemas import STRING, Json, content, fields, operation
from fastqps.version import __version__

Route = tuple[str, str]  # verb and pattern

PATH, PAGE_PATH, METRICS_PATH, VERSION_PATH = "/openapi.json", "/docs", "/metrics", "/version"
HEALTH_PATHS = ("/health", "/ping", "/")
_HEALTH = {
    "summary": "Whether the server serves",
    "security": [],
    "responses": {"200": {"description": "It does."}, "503": {"description": "It starts or drains."}},
}


def _text(summary: str, kind: str) -> Json:
    return {"summary": summary, "responses": {"200": {"description": "The text.", "content": content(STRING, kind)}}}


_PROTOCOLS = {
    "OpenAI": openai.OPERATIONS,
    "Rerank": rerank.OPERATIONS,
    "Cohere": cohere.OPERATIONS,
    "vLLM": vllm.OPERATIONS,
    "Ollama": ollama.OPERATIONS,
    "text-embeddings-inference": text_embeddings.OPERATIONS,
    "Open Inference Protocol": open_inference.OPERATIONS,
    "Server": {
        **{("GET", path): _HEALTH for path in HEALTH_PATHS},
        ("GET", PATH): operation("This document", fields("openapi", openapi=STRING), {}, refusals={}),
        ("GET", VERSION_PATH): operation("The server's version", fields("version", version=STRING), {}, refusals={}),
        ("GET", METRICS_PATH): _text("The server's metrics, as on the admin port", "text/plain"),
        ("GET", PAGE_PATH): {**_text("This document as a page to read and try", "text/html"), "security": []},
    },
}


def document(routes: Sequence[Route], aliases: Mapping[Route, Route] = {}) -> Json:
    """The document of these routes. Raises ``KeyError`` for one that nothing describes.

    ``aliases``: routes that are described as another one is, unless they are described themselves.
    """
    found = {route: {**row, "tags": [tag]} for tag, rows in _PROTOCOLS.items() for route, row in rows.items()}
    paths: dict[str, Json] = {}
    for route in routes:
        verb, pattern = route
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": STRING} for name in re.findall(r"{(\w+)}", pattern)
        ]
        described = found.get(route) or found[aliases.get(route, route)]
        paths.setdefault(pattern, {})[verb.lower()] = (
            {**described, "parameters": parameters} if parameters else described
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "fastqps",
            "version": __version__,
            "description": "Plain HTTP. gRPC has the same models: fastqps.v1.PredictService.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],  # a token where the server has some
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }
