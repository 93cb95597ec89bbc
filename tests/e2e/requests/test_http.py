"""The HTTP port with stock clients: http.client, urllib and curl, over HTTP/1.1 and HTTP/2, plain and under TLS."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import resource
import shutil
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from certificates import Authority
from hpack import Decoder
from nightly import nightly
from raw import DATA, EH, ES, HEADERS, PREFACE, SETTINGS, block, frame
from serving import PATIENCE_S, Server

from fastqps import Client, __version__
from fastqps.cli import main

TOKEN = "a-token-of-the-file"
NO_ROUTE = '{"error":"there is no route %s; GET /docs shows all routes"}'
CONNECTION_BYTES_MAX = 20 << 10  # of a front door, for an idle connection: the mean of both versions of HTTP
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server]) -> Server:
    return module_server("--frontdoors=2", "--cors=on")


@pytest.fixture(scope="module")
def guarded(
    module_server: Callable[..., Server], authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Server:
    """With TLS and tokens."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text(f"{TOKEN}\n")
    return module_server(*authority.pair().flags, f"--auth-token-file={tokens}")


def connect(server: Server) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(server.http, timeout=PATIENCE_S)


def get(connection: http.client.HTTPConnection, path: str) -> tuple[int, bytes]:
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read()


def curl(*arguments: str) -> tuple[str, int, str]:
    """The version of HTTP, the status and the body."""
    command = ["curl", "-s", "--max-time", f"{PATIENCE_S:.0f}", "-w", "\n%{http_version} %{http_code}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    body, _, last = done.stdout.rpartition("\n")
    version, code = last.split()
    return version, int(code), body


def raw(server: Server) -> socket.socket:
    host, port = server.http.split(":")
    return socket.create_connection((host, int(port)), PATIENCE_S)


def test_models_in_openai_form(server: Server) -> None:
    with urllib.request.urlopen(f"http://{server.http}/v1/models", timeout=PATIENCE_S) as response:
        found = json.load(response)
        assert response.headers["Content-Type"] == "application/json"
        assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", response.headers["Date"])
    assert found["object"] == "list"
    assert [(m["id"], m["object"], m["owned_by"]) for m in found["data"]] == [("minilm", "model", "fastqps")]
    connection = connect(server)
    status, body = get(connection, "/v1/models/minilm")
    one = json.loads(body) | {"created": found["data"][0]["created"]}  # another front door may have answered
    assert status == 200 and one == found["data"][0]
    status, body = get(connection, "/v1/models/other%2Fmodel")
    error = json.loads(body)["error"]
    assert (status, error["code"], error["param"]) == (404, "model_not_found", "model") and "other/model" in error[
        "message"
    ]


def test_names_of_health(server: Server) -> None:
    connection = connect(server)
    for path in ("/health", "/ping", "/"):
        assert get(connection, path) == (200, b"")


@needs_curl
@pytest.mark.parametrize("flag", ["--http1.1", "--http2-prior-knowledge"])
def test_pages_in_browsers(server: Server, flag: str) -> None:
    """Asks as a browser does before a request that a page makes."""
    said = ["-D", "-", "-H", "Origin: https://page.example", "-X", "OPTIONS"]
    head = curl(flag, *said, f"http://{server.http}/v1/embeddings")[2].lower()
    assert "access-control-allow-origin: *" in head and "access-control-allow-methods: post, options" in head
    assert "access-control-allow-headers: *, authorization" in head


def test_unknown_paths_have_the_form_of_their_protocol(server: Server) -> None:
    connection = connect(server)
    for path, keys in (("/v1/responses", {"message", "type", "param", "code"}), ("/none", None)):
        status, body = get(connection, path)
        error = json.loads(body)["error"]
        assert status == 404 and (set(error) == keys if keys else isinstance(error, str)), body


def test_many_requests_of_one_connection(server: Server) -> None:
    connection = connect(server)
    with contextlib.closing(connection):
        for _ in range(100):
            assert get(connection, "/health") == (200, b"")
            assert get(connection, "/v1/models")[0] == 200
            assert get(connection, "/nothing") == (404, (NO_ROUTE % "/nothing").encode())
        assert get(connection, "/version") == (200, b'{"version":"%s"}' % __version__.encode())
        assert b"\nfastqps_connections{" in get(connection, "/metrics")[1]
        connection.request("DELETE", "/v1/models", b"abc")
        response = connection.getresponse()
        assert response.status == 405 and response.headers["Allow"] == "GET, HEAD, OPTIONS"
        response.read()
        connection.request("GET", "/health", b"x" * 20_000)
        assert connection.getresponse().status == 413


@needs_curl
@pytest.mark.parametrize(("flag", "version"), [("--http1.1", "1.1"), ("--http2-prior-knowledge", "2")])
def test_curl(server: Server, flag: str, version: str) -> None:
    url = f"http://{server.http}"
    assert curl(flag, f"{url}/health") == (version, 200, "")
    assert json.loads(curl(flag, f"{url}/v1/models")[2])["data"][0]["id"] == "minilm"
    assert curl(flag, f"{url}/none") == (version, 404, NO_ROUTE % "/none")
    assert curl(flag, "-d", "{}", f"{url}/v1/models")[1] == 405


CHECK = [(":method", "POST"), (":scheme", "http"), (":path", "/grpc.health.v1.Health/Check"), (":authority", "a")]
PROBE = [(":method", "GET"), (":scheme", "http"), (":path", "/health"), (":authority", "a")]
SAID = {
    "http1": b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n",
    "http2": PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, EH | ES, 1, block(PROBE)),
    "grpc": PREFACE
    + frame(SETTINGS, 0, 0)
    + frame(HEADERS, EH, 1, block([*CHECK, ("content-type", "application/grpc"), ("te", "trailers")]))
    + frame(DATA, ES, 1, bytes(5)),
}


def answered(sock: socket.socket) -> str:
    """The protocol of a good answer; "": it is none."""
    rest, fields, decoder = b"", {}, Decoder()
    while said := sock.recv(1 << 16):
        rest += said
        if rest.startswith(b"HTTP/1.1 200 OK\r\n"):
            return "http1"
        while len(rest) >= 9 and len(rest) >= (end := 9 + int.from_bytes(rest[:3], "big")):
            kind, flags, payload, rest = rest[3], rest[4], rest[9:end], rest[end:]
            fields.update(decoder.decode(payload) if kind == HEADERS else [])
            if kind in (HEADERS, DATA) and flags & ES:
                return (
                    {"0": "grpc", None: "http2"}.get(fields.get("grpc-status"), "")
                    if fields[":status"] == "200"
                    else ""
                )
    return ""


@pytest.mark.parametrize("connections", [420, *nightly(100_000)])
def test_every_port_speaks_every_protocol(
    server: Server, guarded: Server, authority: Authority, connections: int
) -> None:
    """The first bytes come at once, or in two parts. With TLS, ALPN tells the version, or the first bytes do."""
    kinds = [(server, "", protocol) for protocol in SAID]
    kinds += [(guarded, "h2", "grpc"), (guarded, "h2", "http2"), (guarded, "http/1.1", "http1")]
    kinds += [(guarded, "", protocol) for protocol in SAID]
    contexts = {alpn: ssl.create_default_context(cafile=str(authority.certificate)) for alpn in ("", "h2", "http/1.1")}
    contexts["h2"].set_alpn_protocols(["h2"])
    contexts["http/1.1"].set_alpn_protocols(["http/1.1"])
    wrong = []
    for number in range(connections):
        target, alpn, protocol = kinds[number % len(kinds)]
        host, port = (target.address, target.http)[number // len(kinds) % 2].rsplit(":", 1)
        with contextlib.closing(socket.create_connection((host, int(port)), PATIENCE_S)) as plain:
            sock = contexts[alpn].wrap_socket(plain, server_hostname="localhost") if target is guarded else plain
            cut = number % 7
            for part in (SAID[protocol][:cut], SAID[protocol][cut:]):
                sock.sendall(part)
            if (found := answered(sock)) != protocol:
                wrong.append((number, alpn, protocol, found))
            sock.close()
    assert not wrong


@needs_curl
def test_unix_socket(serve: Callable[..., Server], tmp_path: Path) -> None:
    path = tmp_path / "socket"
    server = serve(f"--port=unix:{path}", "--http-port=off")
    assert server.address == f"unix:{path}"
    with Client(server.address) as client:
        assert len(client.embed(["a text"])) == 1
    for flag, version in (("--http1.1", "1.1"), ("--http2-prior-knowledge", "2")):
        assert curl("--unix-socket", str(path), flag, "http://localhost/health") == (version, 200, "")
    server.stop()
    assert not path.exists()


@needs_curl
def test_tls_and_tokens(guarded: Server, authority: Authority) -> None:
    trusted = ("--cacert", str(authority.certificate))
    url = f"https://localhost:{guarded.http.split(':')[1]}"
    for flag, version in (("--http1.1", "1.1"), ("--http2", "2"), ("--no-alpn", "1.1")):
        assert curl(*trusted, flag, f"{url}/health") == (version, 200, "")  # without a token
        page = curl(*trusted, flag, f"{url}/docs")  # which asks for a token itself
        assert page[:2] == (version, 200) and 'id="token"' in page[2]
        assert curl(*trusted, flag, f"{url}/openapi.json")[1] == 401
        refused = curl(*trusted, flag, f"{url}/v1/models")
        assert refused[:2] == (version, 401)
        assert '"message":"this server needs the header authorization: Bearer TOKEN"' in refused[2]
        assert curl(*trusted, flag, "-H", f"Authorization: Bearer {TOKEN}", f"{url}/v1/models")[1] == 200
        assert curl(*trusted, flag, "-H", "Authorization: Bearer x", f"{url}/v1/models")[1] == 401
    plain = http.client.HTTPConnection(guarded.http, timeout=PATIENCE_S)
    assert get(plain, "/health") == (400, b"This port speaks HTTPS.\r\n")


@pytest.fixture
def room() -> Iterator[int]:
    """As many files as this process may open are open to it; the number of connections among them.

    So many that 0.15 µs for each of them in a turn of the loop is more than a request may take longer.
    """
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield min(10_000, before[1] - 1000)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_idle_and_slow_connections_disturb_nobody(server: Server, room: int) -> None:
    def median_ms(connection: http.client.HTTPConnection) -> float:
        times = []
        for _ in range(300):
            began = time.perf_counter()
            assert get(connection, "/health")[0] == 200
            times.append(time.perf_counter() - began)
        return sorted(times)[len(times) // 2] * 1e3

    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(contextlib.closing(connect(server)))
        before = median_ms(connection)
        doors = [server.child(f"frontdoor {i}") for i in range(2)]
        held_bytes = sum(door.memory_info().rss for door in doors)
        idle = [stack.enter_context(raw(server)) for _ in range(room)]
        for i, sock in enumerate(idle):
            sock.sendall(PREFACE + frame(SETTINGS, 0, 0) if i % 2 else b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        for i, sock in enumerate(idle):
            said = sock.recv(1000)
            assert said[3] == SETTINGS if i % 2 else said.startswith(b"HTTP/1.1 200 OK\r\n")
        assert sum(door.memory_info().rss for door in doors) - held_bytes < room * CONNECTION_BYTES_MAX
        slow = [stack.enter_context(raw(server)) for _ in range(200)]
        during = []
        for i in range(5):  # one byte of a header at a time
            for sock in slow:
                sock.sendall(b"GET /health"[i : i + 1])
            during.append(median_ms(connection))
        assert min(during) < 5 * before + 1
        for sock in slow:
            sock.sendall(b"health HTTP/1.1\r\nHost: a\r\n\r\n")
            assert sock.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_port_in_use_is_named(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    port = server.http.split(":")[1]
    assert main(["serve", "--device=null", "--port=0", "--admin-port=0", f"--http-port={port}"]) == 2
    assert f"port {port} on 127.0.0.1 is in use; choose another with --http-port" in capsys.readouterr().err
