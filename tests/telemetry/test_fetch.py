"""Reading a page of an admin port: one that is there, that is too long or too slow, and none."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from pages import pages

from fastqps.errors import ConfigError
from fastqps.telemetry.live import remote as fetching
from fastqps.telemetry.live.remote import FetchError, fetch


def test_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses = [404, 503, 200, 200]
    with pages(lambda _: (statuses.pop(), [b"a page"])) as address:
        assert fetch(f"http://{address}/", "/live", 10.0) == b"a page"
        monkeypatch.setattr(fetching, "PAGE_BYTES_MAX", 5)
        with pytest.raises(FetchError, match="longer than"):
            fetch(address, "/live", 10.0)
        for kind, says in ((FetchError, "503 Service Unavailable"), (fetching.NoPageError, "404 Not Found")):
            with pytest.raises(kind, match=f"no /live at {address}: it answers {says}"):
                fetch(address, "/live", 10.0)


def bit_by_bit() -> Iterator[bytes]:
    while True:
        yield b"\n"
        time.sleep(0.02)


def test_a_page_that_comes_bit_by_bit() -> None:
    """Each bit comes in time, and there is no last one."""
    with pages(lambda _: (200, bit_by_bit())) as address, pytest.raises(FetchError, match="no answer in time"):
        fetch(address, "/live", 0.2)


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
