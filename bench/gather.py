"""The time to pack 256 requests of 32 tokens into a step: the stepper's gather, and the same with torch."""

from __future__ import annotations

import re
import statistics
import subprocess
import time

import torch

from bench.result_file import ROOT
from bench.runner import Bench, Claim, Run, Subject
from fastqps.bench.results.result import BenchError

ITEMS, LENGTH = 256, 32
CLAIMS = (
    Claim(
        f"gather of {ITEMS} × {LENGTH} tokens", "µs", "gather", accept=20, at_most=True, figure="gather_us",
        note="claims included",
    ),
    Claim("gather over torch", "×", "torch", "gather", 20, figure="gather_us"),
)  # fmt: skip


def measure(bench: Bench) -> None:
    """Both in turn."""
    native, with_torch = lambda: native_us("bench_gather"), lambda: {"gather_us": python_us(ITEMS)}
    bench.measure([Subject("gather", native), Subject("torch", with_torch)], CLAIMS)


def native_us(program: str) -> Run:
    """The times that a program of csrc/bench prints, by name."""
    path = ROOT / "build/native/bench" / program
    done = subprocess.run([path, "2000"], capture_output=True, text=True, timeout=60, check=False)
    if not (figures := re.findall(r"(\w+_us) ([\d.]+)", done.stdout)):
        raise BenchError(f"{path}: {done.stderr or done.stdout}")
    return {name: float(value) for name, value in figures}


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
