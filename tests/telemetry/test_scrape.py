"""Reading a server's metrics page: sums over labels, histogram quantiles, and pages that are none."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from fastqps.errors import ConfigError
from fastqps.telemetry import scrape as scraping
from fastqps.telemetry.scrape import Difference, Histogram, Scrape, ScrapeError, scrape

PAGE = """\
# TYPE fastqps_items counter
fastqps_items_total{model="a",code="OK"} 10
fastqps_items_total{model="b",code="OK"} 5
fastqps_items_total{model="a",code="INTERNAL"} 1
# TYPE fastqps_wait histogram
fastqps_wait_bucket{stage="queue",le="1.0"} 4
fastqps_wait_bucket{stage="queue",le="2.0"} 8
fastqps_wait_bucket{stage="queue",le="+Inf"} 10
fastqps_wait_sum{stage="queue"} 17
fastqps_wait_count{stage="queue"} 10
"""


class _Page(http.server.BaseHTTPRequestHandler):
    status, body = 200, PAGE.encode()

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


def test_sums_over_labels(page: type[_Page]) -> None:
    found = scrape(f"http://{page.address}/")
    assert found.total("fastqps_items_total") == 16
    assert found.total("fastqps_items_total", model="a") == 11
    assert found.by("fastqps_items_total", "code") == {"OK": 15, "INTERNAL": 1}
    assert found.by("fastqps_items_total", "code", model="b") == {"OK": 5}
    assert found.find("fastqps_items_total", model="c") is None and found.total("nothing") == 0
    assert found.histogram("fastqps_wait", stage="queue") == Histogram((1, 2, float("inf")), (4, 8, 10), 17)
    assert found.histogram("fastqps_wait", stage="none").quantile(0.5) is None


def test_labels_do_nothing_to_a_terminal(page: type[_Page]) -> None:
    page.body = b'up{model="\x1b[2Ja"} 1\n'
    assert scrape(page.address).by("up", "model") == {r"\x1b[2Ja": 1}


def test_a_difference_starts_new_series_at_zero() -> None:
    old = {("c_total", (("code", "OK"),)): 3.0}
    new = {("c_total", (("code", "OK"),)): 8.0, ("c_total", (("code", "NOT_FOUND"),)): 2.0}
    change = Difference(Scrape(old, 10.0), Scrape(new, 12.0))
    assert change.seconds == 2 and change.by("c_total", "code") == {"OK": 5, "NOT_FOUND": 2}


@pytest.mark.parametrize(
    ("counts", "q", "wanted"),
    [
        ((4, 8, 10), 0.5, 1.25),
        ((4, 8, 10), 0.4, 1.0),
        ((4, 8, 10), 0.1, 0.25),
        ((4, 8, 10), 0.99, 2.0),  # beyond the last finite edge
        ((0, 8, 8), 0.5, 1.5),  # nothing in the first bucket
        ((0, 8, 8), 1.0, 2.0),
        ((0, 0, 0), 0.5, None),
    ],
)
def test_quantiles(counts: tuple[float, ...], q: float, wanted: float | None) -> None:
    assert Histogram((1.0, 2.0, float("inf")), counts, 0.0).quantile(q) == wanted


def test_what_is_no_metrics_page(page: type[_Page], monkeypatch: pytest.MonkeyPatch) -> None:
    page.status = 503
    with pytest.raises(ScrapeError, match="it answers 503 Service Unavailable"):
        scrape(page.address)
    page.status, page.body = 200, b"<html>"
    with pytest.raises(ScrapeError, match="is not Prometheus text"):
        scrape(page.address)
    page.body = b"\xff"
    with pytest.raises(ScrapeError, match="is not Prometheus text"):
        scrape(page.address)
    page.body = PAGE.encode()
    monkeypatch.setattr(scraping, "PAGE_BYTES_MAX", 20)
    with pytest.raises(ScrapeError, match="longer than"):
        scrape(page.address)


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
    with pytest.raises(ScrapeError, match="no answer in time"):
        scrape(page.address, timeout_s=0.2)


def test_a_server_that_is_not_there_or_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ScrapeError, match=f"no metrics at {address}: no answer in time"):
            scrape(address, timeout_s=0.1)
    with pytest.raises(ScrapeError, match="Connection refused"):
        scrape(address)


@pytest.mark.parametrize("address", ["localhost", ":1", "host:", "host:0", "host:65536", "host:http", ""])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ConfigError, match="write HOST:PORT"):
        scrape(address)
