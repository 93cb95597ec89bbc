"""Reading a page of an admin port: one that is there, that is too long or too slow, and none."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from fastqps.errors import ConfigError
from fastqps.telemetry import fetch as fetching
from fastqps.telemetry.fetch import FetchError, fetch


class _Page(http.server.BaseHTTPRequestHandler):
    status, body = 200, b"a page"

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *arguments: object) -> None:
        del arguments


@pytest.fixture
def page() -> Iterator[type[_Page]]:
    handler = type("Handler", (_Page,), {})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        handler.address = f"127.0.0.1:{server.server_port}"
        yield handler
        server.shutdown()
        thread.join()


def test_a_page(page: type[_Page], monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetch(f"http://{page.address}/", "/live", 10.0) == b"a page"
    monkeypatch.setattr(fetching, "PAGE_BYTES_MAX", 5)
    with pytest.raises(FetchError, match="longer than"):
        fetch(page.address, "/live", 10.0)
    for page.status, kind, says in (
        (503, FetchError, "503 Service Unavailable"),
        (404, fetching.NoPageError, "404 Not Found"),
    ):
        with pytest.raises(kind, match=f"no /live at {page.address}: it answers {says}"):
            fetch(page.address, "/live", 10.0)


def test_a_page_that_comes_bit_by_bit(page: type[_Page], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each bit comes in time, and there is no last one."""

    def dribble(self: _Page) -> None:
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"\n")
                time.sleep(0.02)

    monkeypatch.setattr(page, "do_GET", dribble)
    with pytest.raises(FetchError, match="no answer in time"):
        fetch(page.address, "/live", 0.2)


def test_a_server_that_is_not_there_or_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(FetchError, match=f"no /live at {address}: no answer in time"):
            fetch(address, "/live", 0.1)
    with pytest.raises(FetchError, match="Connection refused"):
        fetch(address, "/live", 10.0)


@pytest.mark.parametrize("address", ["localhost", ":1", "host:", "host:0", "host:65536", "host:http", ""])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ConfigError, match="write HOST:PORT"):
        fetch(address, "/live", 10.0)
