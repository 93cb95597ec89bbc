"""The time to prepare a step of generation: 1,024 running sequences and 32 new prompts."""

from __future__ import annotations

from bench.gather import native_us
from bench.runner import Bench, Claim, Subject, Subjects


def _retire(subjects: Subjects) -> str:
    return f"taking its tokens back: {subjects['native'].median('retire_us'):.1f} µs"


CLAIMS = (
    Claim(
        "preparing a step of 1,024 sequences and 32 prompts of 50", "µs", "native", accept=30, at_most=True,
        figure="prepare_us", note=_retire,
    ),
)  # fmt: skip


def measure(bench: Bench) -> None:
    """As csrc/bench/bench_decode.cpp counts it."""
    bench.measure([Subject("native", lambda: native_us("bench_decode"))], CLAIMS)
