"""The CPU cost of scrapes: /metrics/load fifty times a second, /metrics once a second."""

from __future__ import annotations

import http.client
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.load import PREDICT, Load, loadgen
from bench.row import Row
from bench.texts import request, texts
from fastqps.bench.measure.workload import write_messages
from fastqps.models.names import resolve
from fastqps.process.server_process import ServerProcess
from fastqps.telemetry.metrics.usage import cpu_s

LOAD_HZ, METRICS_HZ = 50, 1
PAGES = {"/metrics/load": LOAD_HZ, "/metrics": METRICS_HZ}
HEADERS = {"user-agent": "Prometheus/2.42.0", "accept": "text/plain;version=0.0.4", "accept-encoding": "gzip"}
FLAGS = ("--device", "null", "--frontdoors", "2", "--dispatchers", "2")  # of each of the two models


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """The supervisor's CPU time with scrapes less that without, on an idle server whose histograms are full."""
    payloads = write_messages(folder / "scraped", map(request, texts(256)))
    models = ("--model", "minilm", "--model", f"second={resolve('minilm')[1]}")
    points: list[dict[str, Any]] = []
    with ServerProcess(*models, *FLAGS) as server:
        loadgen(server.address, PREDICT, payloads, Load(8, 16, 2.0))
        for _ in range(repetitions):
            idle = _share(server.pid, seconds)
            points.append({"name": "idle", "supervisor_cpu_share": idle})
            for page, rate in PAGES.items():
                with scraping(server.admin, page, rate) as taken:
                    share, count = _share(server.pid, seconds), len(taken)
                cost_us = 1e6 * (share - idle) * seconds / max(1, count)
                points.append({"name": page, "supervisor_cpu_share": share, "scrapes": count, "cost_us": cost_us})
                points[-1]["bytes"] = taken[-1] if taken else 0
    return _rows(points), points


def _rows(points: list[dict[str, Any]]) -> list[Row]:
    def median(page: str, key: str) -> float:
        return float(statistics.median(point[key] for point in points if point["name"] == page))

    idle = 100 * median("idle", "supervisor_cpu_share")
    load_us, metrics_us = median("/metrics/load", "cost_us"), median("/metrics", "cost_us")
    note = (
        f"{median('/metrics/load', 'bytes'):.0f} bytes; at {LOAD_HZ} a second {load_us * LOAD_HZ / 1e4:.2f} % of a core"
    )
    size = f"{median('/metrics', 'bytes') / 1024:.0f} KiB"
    return [
        Row("scrape of /metrics/load, CPU", load_us, "µs", 200, at_most=True, note=note),
        Row("scrape of /metrics, CPU", metrics_us / 1e3, "ms", 20, at_most=True, note=f"{size}; idle {idle:.2f} %"),
    ]


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
