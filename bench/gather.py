"""The time to pack 256 requests of 32 tokens into a step: the stepper's gather, and the same with torch."""

from __future__ import annotations

import re
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import torch

from bench.row import Row
from fastqps.bench.results.result import BenchError

ITEMS, LENGTH = 256, 32
BENCH = Path(__file__).parents[1] / "build/native/bench/bench_gather"


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """Medians of each, in turn."""
    del folder, seconds
    native, with_torch = [], []
    for _ in range(repetitions):
        native.append(_native())
        with_torch.append(python_us(ITEMS))
    ours, theirs = statistics.median(native), statistics.median(with_torch)
    note = f"torch slicing and copying: {theirs:,.0f} µs"
    rows = [
        Row(f"gather of {ITEMS} × {LENGTH} tokens", ours, "µs", 20, at_most=True, note="claims included"),
        Row("gather over torch", theirs / ours, "×", 20, note=note),
    ]
    return rows, [{"name": "gather", "us": native}, {"name": "torch", "us": with_torch}]


def _native() -> float:
    done = subprocess.run([BENCH, "2000"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"gather_us ([\d.]+)", done.stdout)
    if not found:
        raise BenchError(f"{BENCH}: {done.stderr or done.stdout}")
    return float(found[1])


def python_us(items: int, rounds: int = 50) -> float:
    """Median µs of copying rows of ids, counting positions, clearing types and writing starts into packed tensors."""
    rows = [torch.randint(0, 30000, (LENGTH,), dtype=torch.int32) for _ in range(items)]
    ids, positions, types = (torch.zeros(items * LENGTH, dtype=torch.int32) for _ in range(3))
    starts = torch.zeros(items + 1, dtype=torch.int32)
    count = torch.arange(512, dtype=torch.int32)
    took = []
    for _ in range(rounds):
        began, at = time.perf_counter(), 0
        for i, row in enumerate(rows):
            end = at + len(row)
            ids[at:end].copy_(row)
            positions[at:end].copy_(count[: len(row)])
            types[at:end].zero_()
            at = end
            starts[i + 1] = at
        took.append(1e6 * (time.perf_counter() - began))
    return statistics.median(took)
