"""JSON over HTTP/1.1, for tests of the protocols on the HTTP port."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from serving import PATIENCE_S, Server


class Poster:
    """One connection to a server."""

    def __init__(self, server: Server) -> None:
        assert server.http is not None
        self._connection = HTTPConnection(server.http, timeout=PATIENCE_S)

    def __call__(self, path: str, body: Any = None, **fields: Any) -> tuple[int, Any]:
        """Status and document of a POST. ``body``: a document, or bytes as they are; else an object of the fields."""
        data = body if isinstance(body, bytes) else json.dumps(fields if body is None else body).encode()
        return self._document(*self.send("POST", path, data))

    def get(self, path: str) -> tuple[int, Any]:
        """Status and document of a GET."""
        return self._document(*self.send("GET", path))

    def found(self, path: str, **fields: Any) -> Any:
        """The document of a POST that succeeds."""
        status, document = self(path, **fields)
        assert status == 200, document
        return document

    def send(self, verb: str, path: str, body: bytes = b"", **headers: str) -> tuple[HTTPResponse, bytes]:
        """A response and its content."""
        self._connection.request(verb, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = self._connection.getresponse()
        return response, response.read()

    def close(self) -> None:
        self._connection.close()

    def _document(self, response: HTTPResponse, content: bytes) -> tuple[int, Any]:
        assert response.getheader("content-type") == "application/json"
        return response.status, json.loads(content)
