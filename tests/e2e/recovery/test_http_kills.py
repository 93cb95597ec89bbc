"""Kills, drains and reloads beside clients of every protocol over HTTP: each request is answered once, with the values
that belong to it, or refused with a status that means that it can be sent again."""

from __future__ import annotations

import base64
import json
import signal
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest
from echo_dispatcher import echo
from serving import PATIENCE_S, Server, until
from tokenized_classifiers import IDENTITY, classifier_at

DIMENSIONS = 384
RETRYABLE = (429, 503)
LOST, REFUSED, ANSWERED = "lost", "refused", "200"  # lost: a connection that had been served
Ask = tuple[str, dict[str, Any], Callable[[Any], list[list[float]]], list[list[float]]]


def ids_of(number: int, item: int) -> list[int]:
    return [1 + number % 20_000, *[7] * (item + number % 5), 1 + item]


def openai(number: int) -> Ask:
    items = [ids_of(number, item) for item in range(3)]

    def read(found: Any) -> list[list[float]]:
        vectors = [base64.b64decode(each["embedding"]) for each in found["data"]]
        return [list(struct.unpack("<4f", vector)) for vector in vectors]

    fields = {"model": "minilm", "input": items, "dimensions": 4, "normalize": False, "encoding_format": "base64"}
    return "/v1/embeddings", fields, read, [echo(ids) for ids in items]


def open_inference(number: int) -> Ask:
    items = [[1 + number % 20_000, 8, 9], [5, number % 7, 11]]
    data = [one for ids in items for one in ids]
    tensor = {"name": "input_ids", "datatype": "INT64", "shape": [len(items), 3], "data": data}

    def read(found: Any) -> list[list[float]]:
        values = found["outputs"][0]["data"]
        return [values[i * DIMENSIONS : i * DIMENSIONS + 4] for i in range(len(items))]

    fields = {"inputs": [tensor], "parameters": {"normalize": False}}
    return "/v2/models/minilm/infer", fields, read, [echo(ids) for ids in items]


def tei(number: int) -> Ask:
    items = [ids_of(number, item) for item in range(2)]
    fields = {"inputs": items, "normalize": False}
    return "/embed", fields, lambda found: [row[:4] for row in found], [echo(ids) for ids in items]


def rerank(number: int) -> Ask:
    """Of these only that there is one result for each document: all begin with the same token."""
    documents = [f"document {number}", "other", "third"]
    fields = {"model": "ranker", "query": "a", "documents": documents}

    def read(found: Any) -> list[list[float]]:
        return [[float(index)] for index in sorted(result["index"] for result in found["results"])]

    return "/v1/rerank", fields, read, [[0.0], [1.0], [2.0]]


PROTOCOLS = (openai, open_inference, tei, rerank)


class Load:
    """A client of each protocol that goes on asking over a connection of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._over = threading.Event()
        self.ends: dict[str, Counter[str]] = {make.__name__: Counter() for make in PROTOCOLS}
        self.wrong: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(make,)) for make in PROTOCOLS for _ in range(2)]

    def _run(self, make: Callable[[int], Ask]) -> None:
        number, connection = 0, HTTPConnection(self._server.http or "", timeout=PATIENCE_S)
        while not self._over.is_set():
            number += 1
            fresh = connection.sock is None
            try:
                end = self._ask(connection, *make(number))
            except (OSError, HTTPException):
                end = REFUSED if fresh else LOST  # with its front door
                connection.close()
                self._over.wait(0.05)
            except Exception as error:
                end = "wrong"
                self.wrong.append(f"{make.__name__} {number}: {error!r}")
            self.ends[make.__name__][end] += 1
        connection.close()

    def _ask(self, connection: HTTPConnection, path: str, fields: Any, read: Callable[..., Any], expected: Any) -> str:
        connection.request("POST", path, json.dumps(fields))
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            assert response.status in RETRYABLE and json.loads(body), (response.status, body)
            self._over.wait(0.01)
        else:
            found = read(json.loads(body))
            assert found == expected, (found, expected)
        return str(response.status)

    def more(self, count: int = 30) -> None:
        """Until so many more of each protocol have been answered."""
        before = {name: ends[ANSWERED] for name, ends in self.ends.items()}

        def answered() -> bool:
            return all(ends[ANSWERED] >= before[name] + count for name, ends in self.ends.items())

        until(answered, f"{count} more answers of each: {self.ends}, {self.wrong[:3]}")

    def check(self, *allowed: str) -> None:
        assert not self.wrong, self.wrong[:5]
        for name, ends in self.ends.items():
            assert not ends.keys() - {ANSWERED, *allowed}, (name, ends)

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join(PATIENCE_S)


@pytest.fixture(scope="module")
def ranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(classifier_at(tmp_path_factory.mktemp("ranker"), 1, **IDENTITY))


@pytest.fixture
def server(serve: Callable[..., Server], ranker: Path) -> Server:
    return serve("--model=minilm", f"--model=ranker={ranker}", "--frontdoors=2", "--dispatchers=2", echo=True)


def kill_twice(server: Server, load: Load, worker: str) -> None:
    load.more()
    for _ in range(2):
        old = server.child(worker)
        old.send_signal(signal.SIGKILL)
        server.until_filled(worker, old)
        load.more()


def test_a_front_door_takes_its_own_connections_along_and_nothing_else(server: Server) -> None:
    load = Load(server)
    with load.running():
        kill_twice(server, load, "frontdoor 1")
    load.check(LOST, REFUSED)
    lost = sum(ends[LOST] for ends in load.ends.values())
    assert lost <= 2 * 2 * len(PROTOCOLS)  # what was under way, one request of a connection
    server.until_idle()


def test_a_dispatchers_death_a_reload_and_a_drain(server: Server) -> None:
    """The first two are not seen at all. In a drain what is under way is answered; behind `Connection: close` a client
    finds the port closed."""
    load = Load(server)
    with load.running():
        kill_twice(server, load, "dispatcher 0")
        status, found = server.reload(model="minilm")
        assert status == 200, found
        load.more()
        load.check()
        server.signal(signal.SIGTERM)
        assert server.wait() == 0, server.log()
    load.check("503", REFUSED)
    server.check_gone()
