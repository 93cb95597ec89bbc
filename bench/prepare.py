"""The time to prepare a step of generation, 1,024 running sequences and 32 new prompts, in C++ and with torch."""

from __future__ import annotations

import statistics
import time

from bench.gather import native_us
from bench.reference_batch import ReferenceBatch
from bench.runner import Bench, Claim, Subject, Subjects
from fastqps.runners.decode_buffers import DecodeBuffers

RUNNING, NEW, LENGTH = 1024, 32, 50


def _retire(subjects: Subjects) -> str:
    return f"taking its tokens back: {subjects['native'].median('retire_us'):.1f} µs"


CLAIMS = (
    Claim(
        f"preparing a step of {RUNNING:,} sequences and {NEW} prompts of {LENGTH}", "µs", "native", accept=30,
        at_most=True, figure="prepare_us", note=_retire,
    ),
    Claim("preparing over Python and torch", "×", "torch", "native", 20, figure="prepare_us"),
)  # fmt: skip


def measure(bench: Bench) -> None:
    """Both in turn."""
    native, with_torch = lambda: native_us("bench_decode"), lambda: {"prepare_us": python_us(RUNNING, NEW)}
    bench.measure([Subject("native", native), Subject("torch", with_torch)], CLAIMS)


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
    prompts, took = [[1000 + i] * LENGTH for i in range(NEW)], []
    for _ in range(rounds):
        began = time.perf_counter()
        batch.begin(step)
        for user, ids in enumerate(prompts, running):
            batch.admit(step, ids, user=user, max_tokens=1 << 30)
        batch.seal(step)
        took.append(1e6 * (time.perf_counter() - began))
        for user in range(running, runs):
            batch.drop(user)
    return statistics.median(took)
