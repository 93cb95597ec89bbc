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

from raw import DATA, EH, ES, HEADERS, PATH, WINDOW_UPDATE, Peer, block, check_good, frame, message, request, u32
from serving import PATIENCE_S

from fastqps.v1 import predict_pb2 as pb

LOOK_S = 0.01
_PAGE = 4096


class Victim:
    """One connection that asks for one short text at a time."""

    def __init__(self, address: str, token: str, model: str) -> None:
        self._peer = Peer(address)
        self._head = block(request(PATH + "Predict", ("authorization", f"Bearer {token}")))
        output = {"dimensions": 4}
        ask = pb.PredictRequest(model=model, text="a b", request_id=7, output=output)
        self._body = message(ask.SerializeToString())
        self._stream = -1

    def call(self) -> None:
        self._stream += 2
        self._peer.send(
            frame(HEADERS, EH, self._stream, self._head),
            frame(DATA, ES, self._stream, self._body),
        )
        answer = self._peer.answer(self._stream)
        check_good(answer)
        self._peer.send(frame(WINDOW_UPDATE, 0, 0, u32(len(answer.data))))
        del self._peer.answers[self._stream]

    def close(self) -> None:
        self._peer.socket.close()


class HttpVictim:
    """The same over HTTP/1.1: each answer is held against the first."""

    def __init__(self, address: str, token: str) -> None:
        self._connection = HTTPConnection(address, timeout=PATIENCE_S)
        self._headers = {"Authorization": f"Bearer {token}"}
        fields = {"model": "minilm", "input": "a b", "dimensions": 4, "encoding_format": "base64"}
        self._body = json.dumps(fields)
        self._first: bytes | None = None

    def call(self) -> None:
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
