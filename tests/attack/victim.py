"""Another client's calls, and what the server's processes hold meanwhile."""

from __future__ import annotations

import base64
import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from serving import PATIENCE_S

LOOK_S = 0.01
_PAGE = 4096


class HttpVictim:
    """One connection of HTTP/1.1 that asks for one short text at a time: each answer is held against the first."""

    def __init__(self, address: str, token: str) -> None:
        self._connection = HTTPConnection(address, timeout=PATIENCE_S)
        self._headers = {"Authorization": f"Bearer {token}"}
        fields = {"model": "minilm", "input": "a b", "dimensions": 4, "encoding_format": "base64"}
        self._body = json.dumps(fields)
        self._first: bytes | None = None

    def check(self) -> None:
        self._connection.request("POST", "/v1/embeddings", self._body, self._headers)
        response = self._connection.getresponse()
        found = response.read()
        assert response.status == 200, found
        self._first = self._first or found
        assert found == self._first and len(base64.b64decode(json.loads(found)["data"][0]["embedding"])) == 16

    def close(self) -> None:
        self._connection.close()


def ask_livez(admin: str) -> None:
    """One GET of /livez on a connection of its own."""
    with urllib.request.urlopen(f"http://{admin}/livez", timeout=60) as answer:
        assert answer.status == 200


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


@contextmanager
def growth(pid: int) -> Iterator[list[int]]:
    """The most bytes that a process has beyond those at the beginning: one number, complete at the end."""
    before, most, over = resident_bytes(pid), [0], threading.Event()

    def look() -> None:
        while not over.wait(LOOK_S):
            most[0] = max(most[0], resident_bytes(pid) - before)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        over.set()
        looking.join()
