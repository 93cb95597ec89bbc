"""JSON over HTTP/1.1, for tests of the protocols on the HTTP port."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any

from serving import PATIENCE_S, Server


class Poster:
    """One connection to a server."""

    def __init__(self, server: Server) -> None:
        assert server.http is not None
        self._connection = HTTPConnection(server.http, timeout=PATIENCE_S)

    def __call__(self, path: str, body: Any = None, **fields: Any) -> tuple[int, Any]:
        """Status and document of a POST. ``body``: a document, or bytes as they are; else an object of the fields."""
        data = body if isinstance(body, bytes) else json.dumps(fields if body is None else body)
        self._connection.request("POST", path, data)
        return self._answer()

    def get(self, path: str) -> tuple[int, Any]:
        """Status and document of a GET."""
        self._connection.request("GET", path)
        return self._answer()

    def found(self, path: str, **fields: Any) -> Any:
        """The document of a POST that succeeds."""
        status, document = self(path, **fields)
        assert status == 200, document
        return document

    def close(self) -> None:
        self._connection.close()

    def _answer(self) -> tuple[int, Any]:
        response = self._connection.getresponse()
        assert response.getheader("content-type") == "application/json"
        return response.status, json.loads(response.read())
