"""The load generator itself: how much one core of it can ask for, and whether it sees what h2load sees."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.load import PREDICT, Load, h2load, loadgen
from bench.row import Row
from bench.texts import request, texts, write_body
from bench.transport import LOAD_CPU, SERVER_CPU
from fastqps.bench.measure.child_process import child_process
from fastqps.bench.measure.workload import write_messages

OFFERED = 300_000  # calls per second of the open loop
KNOWN = 50_000  # calls per second of a server that takes no longer and no shorter
OPEN = 256  # streams on each of 16 connections, so that hardly any call waits for one


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """A native echo on one core, the generators in turn on the other; then a server whose rate is known."""
    texts_ = texts(1)
    payloads = write_messages(folder / "payloads", map(request, texts_))
    body = write_body(folder / "body", request(texts_[0]))
    deep = Load(16, 64, seconds)
    points: list[dict[str, Any]] = []

    def ours(name: str, address: str, load: Load, rate: float | None = None) -> None:
        points.append({"name": name, **loadgen(address, PREDICT, payloads, load, LOAD_CPU, rate=rate)})

    def theirs(name: str, address: str) -> None:
        points.append({"name": name, "rate": h2load(address, PREDICT, body, deep, LOAD_CPU)})

    with _server() as echo, _server("--service", f"constant:{10**9 // KNOWN}ns") as known:
        for _ in range(repetitions):
            ours("closed", echo, deep)
            theirs("h2load", echo)
            ours("open", echo, Load(16, OPEN, seconds), OFFERED)
            ours("closed, known", known, deep)
            theirs("h2load, known", known)
    return _rows(points), points


def _rows(points: list[dict[str, Any]]) -> list[Row]:
    def median(name: str) -> float:
        return float(statistics.median(point["rate"] for point in points if point["name"] == name))

    # A run in which the generator was late by itself is no proof that it can ask for so much.
    runs = [point for point in points if point["name"] == "open"]
    valid = [run for run in runs if run["verdict"] == "VALID"]
    best = min(runs, key=lambda run: run["own_lateness_us"]["p99"])
    kept = statistics.median(run["rate"] for run in valid) if valid else 0.0
    note = f"{len(valid)} of {len(runs)} runs VALID; best: own lateness p99 {best['own_lateness_us']['p99']:,.0f} µs"
    apart = abs(median("closed, known") / median("h2load, known") - 1)
    return [
        Row("loadgen on one core, closed loop, to a native echo", median("closed"), "/s", 300_000),
        Row("h2load in the same run", median("h2load"), "/s"),
        Row(f"loadgen, open loop, {OFFERED:,}/s offered", kept, "/s", 0.995 * OFFERED, note=note),
        Row(f"loadgen apart from h2load, {KNOWN:,}/s server", 100 * apart, "%", 10, at_most=True),
    ]


@contextlib.contextmanager
def _server(*flags: str) -> Iterator[str]:
    """The address of loadgen's own server, pinned to the server's core."""
    command = [sys.executable, "-m", "loadgen.server", "--port", "0", "--cpu", str(SERVER_CPU), *flags]
    with child_process(command, end_s=10, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield f"127.0.0.1:{int(process.stdout.readline())}"
