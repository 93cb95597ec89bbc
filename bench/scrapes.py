"""The CPU cost of scrapes: /metrics/load fifty times a second, /metrics once a second."""

from __future__ import annotations

import http.client
import time
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
        began = _spent_s(server.pid)
        time.sleep(bench.seconds)
        idle_s, count = _spent_s(server.pid) - began, max(1, round(rate * bench.seconds))
        taken = _scrape(server.admin, page, rate, count)
        cost_s = _spent_s(server.pid) - began - 2 * idle_s
        return {"cost_us": 1e6 * cost_s / count, "bytes": taken / count, "idle_share": idle_s / bench.seconds}

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


def _spent_s(pid: int) -> float:
    spent = cpu_s(pid)
    if spent is None:
        raise OSError("the server has ended")
    return spent


def _scrape(admin: str, page: str, rate: float, count: int) -> int:
    """Asks for a page over one connection, as scrapers do, ``rate`` times a second; the length of all answers."""
    connection = http.client.HTTPConnection(admin.removeprefix("http://"), timeout=10)
    began, taken = time.monotonic(), 0
    for number in range(1, count + 1):
        connection.request("GET", page, headers=HEADERS)
        taken += len(connection.getresponse().read())
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
    connection.close()
    return taken
