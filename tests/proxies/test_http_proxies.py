"""Proxies in front of the HTTP port pass bodies, statuses and events, and lose nothing when a server ends."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from echo_generator import PACE, write_generator
from serving import PATIENCE_S, Server, until

from proxies.envoy import EnvoyHttp
from proxies.front import must_be_installed
from proxies.nginx import NginxHttp
from proxies.proxy import Proxy

KINDS: dict[str, type[Proxy]] = {kind.program: kind for kind in (EnvoyHttp, NginxHttp)}
FLAGS = ("--frontdoors=1", "--dispatchers=1", "--lame-duck=2s")


@pytest.fixture
def servers(serve: Callable[..., Server], tmp_path: Path) -> list[Server]:
    write_generator(tmp_path / "echo")
    models = ("--model=minilm", f"--model=echo={tmp_path / 'echo'}", "--max-running=8")
    return [serve(*models, *FLAGS, echo=True) for _ in range(2)]


@pytest.fixture(params=KINDS)
def proxy(request: pytest.FixtureRequest, servers: list[Server]) -> Iterator[Proxy]:
    must_be_installed(request.param)
    backends = [server.http for server in servers]
    with KINDS[request.param](backends) as found:
        yield found


def ask(connection: HTTPConnection, path: str, body: object) -> tuple[int, Any]:
    connection.request("POST", path, json.dumps(body))
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def test_http_passes(proxy: Proxy, servers: list[Server]) -> None:
    body = {"model": "minilm", "input": ["a text", "b" * 30_000], "truncate": True}
    with closing(HTTPConnection(proxy.address, timeout=PATIENCE_S)) as connection:
        for _ in range(20):  # on one connection of the client's
            status, found = ask(connection, "/v1/embeddings", body)
            assert status == 200, found
            assert [len(each["embedding"]) for each in found["data"]] == [384, 384]
        status, found = ask(connection, "/v1/embeddings", {"model": "nope", "input": "a"})
        assert status == 404 and found["error"]["code"] == "model_not_found", "as the server said it"
        check_events(connection, servers)
    for server in servers:
        server.until_idle()
    check_end(proxy, servers[0])


def check_events(connection: HTTPConnection, servers: list[Server]) -> None:
    """The first ones are here while the text is being made. Who goes away then ends the work."""
    prompt = [PACE + 400, *b"a" * 100]
    body = {"model": "echo", "prompt": prompt, "stream": True, "max_tokens": 100}
    connection.request("POST", "/v1/completions", json.dumps(body))
    response = connection.getresponse()
    assert response.getheader("Content-Type", "").startswith("text/event-stream")
    for _ in range(3):  # a proxy that buffers may send the first one with the headers
        assert response.readline().startswith(b"data: {") and response.readline() == b"\n"
    assert sum(server.work()["fastqps_slots_used"] for server in servers) == 1
    connection.close()


def check_end(proxy: Proxy, server: Server) -> None:
    """It ends under load. No request fails."""
    done = 0

    def more(count: int) -> None:
        nonlocal done
        with closing(HTTPConnection(proxy.address, timeout=PATIENCE_S)) as connection:
            for _ in range(count):
                status, found = ask(connection, "/v1/embeddings", {"model": "minilm", "input": "a"})
                assert status == 200, found
                done += 1

    server.signal(signal.SIGTERM)
    until(lambda: more(10) or not server.processes(), "the server ends")
    more(20)
    assert done >= 30
