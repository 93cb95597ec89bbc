"""Streams of server-sent events that fail after they began: the client gets an event with the error, then the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest
from echo_generator import write_generator
from leftovers import nothing_left
from serving import PATIENCE_S, Server


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("echo")
    write_generator(folder)
    return module_server(
        f"--model=echo={folder}", "--frontdoors=2", "--dispatchers=2", "--max-output-tokens=300", echo=True
    )


@contextmanager
def streamed(server: Server, prompt: list[int], **options: Any) -> Iterator[HTTPResponse]:
    connection = HTTPConnection(server.http, timeout=PATIENCE_S)
    body = {"prompt": prompt, "stream": True, "max_tokens": 200, **options}
    connection.request("POST", "/v1/completions", json.dumps(body))
    response = connection.getresponse()
    assert (response.status, response.getheader("content-type")) == (200, "text/event-stream")
    yield response
    # The response was complete, so the connection goes on.
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200
    connection.close()


def event(response: HTTPResponse) -> Any:
    line, end = response.readline(), response.readline()
    assert line.startswith(b"data: ") and end == b"\n"
    return json.loads(line.removeprefix(b"data: "))


async def test_a_deadline_in_mid_stream(server: Server) -> None:
    async with nothing_left(server):
        with server.gate() as gate, streamed(server, [gate.id, *b"abc"], timeout=2) as response:
            assert event(response)["choices"][0]["finish_reason"] is None
            error = event(response)["error"]
            assert error["type"] == "server_error" and "deadline" in error["message"] and error["param"] is None
            assert response.read() == b""  # no [DONE]: it is not done
            gate.open()


async def test_a_dispatcher_killed_in_mid_stream(server: Server) -> None:
    async with nothing_left(server):
        with server.gates.closed() as gate, streamed(server, [gate.id, *b"abc"]) as response:
            assert event(response)["choices"][0]["finish_reason"] is None
            killed = {name: server.child(name) for name in ("dispatcher 0", "dispatcher 1")}  # either runs it
            for process in killed.values():
                process.kill()
            error = event(response)["error"]
            assert error["type"] == "server_error" and "it cannot run again" in error["message"]
            assert response.read() == b""
        for name, process in killed.items():
            server.until_filled(name, process)
        with streamed(server, list(b"abc")) as response:
            assert response.read().endswith(b"data: [DONE]\n\n")
