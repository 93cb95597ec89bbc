"""The CPU cost of scrapes: /metrics/load fifty times a second, /metrics once a second."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.load import PREDICT, Load, loadgen
from bench.runner import Bench, Claim, Run, Subject, Subjects
from bench.texts import request, texts
from fastqps.models.names import resolve
from fastqps.telemetry.metrics.usage import cpu_s

LOAD_HZ, METRICS_HZ = 50, 1
PAGES = {"/metrics/load": LOAD_HZ, "/metrics": METRICS_HZ}
HEADERS = {"user-agent": "Prometheus/2.42.0", "accept": "text/plain;version=0.0.4", "accept-encoding": "gzip"}
FLAGS = ("--device", "null", "--frontdoors", "2", "--dispatchers", "2")  # of each of the two models


def measure(bench: Bench) -> None:
    """The supervisor's CPU time with scrapes less that without, on an idle server whose histograms are full."""
    payloads = bench.write(map(request, texts(256)))
    models = ("--model", "minilm", "--model", f"second={resolve('minilm')[1]}")
    server = bench.server(*models, *FLAGS, cpus=())
    loadgen(server.address, PREDICT, payloads, Load(8, 16, 2.0))

    def scraped(page: str, rate: float) -> Run:
        idle = _share(server.pid, bench.seconds)
        with scraping(server.admin, page, rate) as taken:
            share, count = _share(server.pid, bench.seconds), max(1, len(taken))
        cost_us = 1e6 * (share - idle) * bench.seconds / count
        return {"cost_us": cost_us, "bytes": sum(taken) / count, "idle_share": idle}

    bench.measure([Subject(page, partial(scraped, page, rate)) for page, rate in PAGES.items()], CLAIMS)


def _load_note(subjects: Subjects) -> str:
    page = subjects["/metrics/load"]
    percent = page.median("cost_us") * LOAD_HZ / 1e4
    return f"{page.median('bytes'):.0f} bytes; at {LOAD_HZ} a second {percent:.2f} % of a core"


def _metrics_note(subjects: Subjects) -> str:
    page = subjects["/metrics"]
    return f"{page.median('bytes') / 1024:.0f} KiB; idle {100 * page.median('idle_share'):.2f} %"


CLAIMS = (
    Claim(
        "scrape of /metrics/load, CPU", "µs", "/metrics/load", accept=200, at_most=True, figure="cost_us",
        note=_load_note,
    ),
    Claim(
        "scrape of /metrics, CPU", "ms", "/metrics", accept=20, at_most=True, figure="cost_us", scale=1e-3,
        note=_metrics_note,
    ),
)  # fmt: skip


def _share(pid: int, seconds: float) -> float:
    """Of a core, while nothing but time passes here."""
    began, before = time.monotonic(), cpu_s(pid)
    time.sleep(seconds)
    after = cpu_s(pid)
    if before is None or after is None:
        raise OSError("the server has ended")
    return (after - before) / (time.monotonic() - began)


@contextmanager
def scraping(admin: str, page: str, rate: float) -> Iterator[list[int]]:
    """Asks for a page over one connection, as scrapers do, while the body runs; the lengths of the answers."""
    taken: list[int] = []
    over = threading.Event()
    thread = threading.Thread(target=_scrape, args=(admin, page, rate, taken, over), daemon=True)
    thread.start()
    try:
        yield taken
    finally:
        over.set()
        thread.join()


def _scrape(admin: str, page: str, rate: float, taken: list[int], over: threading.Event) -> None:
    connection = http.client.HTTPConnection(admin.removeprefix("http://"), timeout=10)
    began = time.monotonic()
    while not over.wait(max(0.0, began + len(taken) / rate - time.monotonic())):
        connection.request("GET", page, headers=HEADERS)
        taken.append(len(connection.getresponse().read()))
    connection.close()
