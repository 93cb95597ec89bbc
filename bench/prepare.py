"""The time to prepare a step of generation, 1,024 running sequences and 32 new prompts, in C++ and with torch."""

from __future__ import annotations

import re
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from bench.reference_batch import ReferenceBatch
from bench.row import Row
from fastqps.bench.results.result import BenchError
from fastqps.runners.decode_buffers import DecodeBuffers

RUNNING, NEW, LENGTH = 1024, 32, 50
BENCH = Path(__file__).parents[1] / "build/native/bench/bench_decode"


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """Medians of each, in turn."""
    del folder, seconds
    native, with_torch = [], []
    for _ in range(repetitions):
        native.append(_native())
        with_torch.append(python_us(RUNNING, NEW))
    ours = statistics.median(prepare for prepare, _ in native)
    theirs = statistics.median(with_torch)
    retire = statistics.median(retire for _, retire in native)
    what = f"step of {RUNNING:,} sequences and {NEW} prompts of {LENGTH}"
    rows = [
        Row(f"preparing a {what}", ours, "µs", 30, at_most=True, note=f"taking its tokens back: {retire:.1f} µs"),
        Row("preparing over Python and torch", theirs / ours, "×", 20, note=f"lists made to tensors: {theirs:,.0f} µs"),
    ]
    points = [{"name": "native", "prepare_us": [p for p, _ in native], "retire_us": [r for _, r in native]}]
    return rows, [*points, {"name": "torch", "prepare_us": with_torch}]


def _native() -> tuple[float, float]:
    done = subprocess.run([BENCH, "2000"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"prepare_us ([\d.]+) retire_us ([\d.]+)", done.stdout)
    if not found:
        raise BenchError(f"{BENCH}: {done.stderr or done.stdout}")
    return float(found[1]), float(found[2])


def python_us(running: int, new: int, rounds: int = 50) -> float:
    """Median µs of the same with the reference that the tests hold the C++ against: ``running`` sequences that go on,
    and ``new`` prompts."""
    runs = running + new
    buffers = DecodeBuffers.allocate(runs, running + new * LENGTH)
    batch = ReferenceBatch(runs, 0)
    step = batch.add(**buffers.blocks())
    batch.begin(step)
    for user in range(running):
        batch.admit(step, [1000], user=user, max_tokens=1 << 30)
    batch.seal(step)
    ids, took = [1000] * LENGTH, []
    for _ in range(rounds):
        began = time.perf_counter()
        batch.begin(step)
        for user in range(running, runs):
            batch.admit(step, ids, user=user, max_tokens=1 << 30)
        batch.seal(step)
        took.append(1e6 * (time.perf_counter() - began))
        for user in range(running, runs):
            batch.drop(user)
    return statistics.median(took)
