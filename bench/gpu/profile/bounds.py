"""The peak rates of a GPU, measured in the same run, and how near a step comes to them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import torch

from bench.gpu.models.shapes import Shape
from bench.gpu.run import Run

WARM, ROUNDS = 3, 5  # calls in front, and of which the median counts


@dataclass(frozen=True)
class Peaks:
    """``flops``: of a large bf16 product; ``bytes_per_s``: of a large copy, read and written."""

    flops: float
    bytes_per_s: float

    def encoder_us(self, shape: Shape, tokens: float) -> float:
        """The least time of so many tokens: the layers' matrix products at that peak."""
        return 2 * shape.body_parameters * tokens / self.flops * 1e6

    def decoder_us(self, shape: Shape, tokens_in: int, tokens_out: int) -> float:
        """The least time of one request of a decoder: matrix products, heads of its sampled rows, and the KV cache
        read at every generated token. Weights are read for hundreds of rows at once and not counted."""
        head_us = 2 * shape.hidden * shape.vocab * tokens_out / self.flops * 1e6
        positions = sum(range(tokens_in, tokens_in + tokens_out))
        cache_us = shape.kv_bytes * positions / self.bytes_per_s * 1e6
        return self.encoder_us(shape, tokens_in + tokens_out - 1) + head_us + cache_us

    def share(self, floor_us: float, rate: float) -> str:
        """How much of the device's time the floor of every answer is, at this rate."""
        return (
            f"floor {floor_us:.3g} µs each at {self.flops / 1e12:.0f} TFLOP/s and {self.bytes_per_s / 1e12:.2f} TB/s "
            f"(measured): {100 * floor_us * rate / 1e6:.0f} % of the time"
        )


def measure_peaks(run: Run) -> Peaks:
    """A product of random bf16 numbers and a copy, both larger than any cache; tiny ones on the CPU in a dry run."""
    side, numbers = (64, 1 << 12) if run.dry else (8192, 1 << 29)
    kinds: dict[str, Any] = {"dtype": torch.bfloat16, "device": "cpu" if run.dry else "cuda:0"}
    a, b = (torch.randn(side, side, **kinds) for _ in range(2))
    source = torch.empty(numbers, **kinds)
    timed = _cpu_us if run.dry else _cuda_us
    product_us = timed(partial(torch.mm, a, b), 0.3)
    copy_us = timed(partial(torch.empty_like(source).copy_, source), 0.1)
    found = Peaks(2 * side**3 / product_us * 1e6, 2 * source.nbytes / copy_us * 1e6)
    run.raw("peaks", asdict(found))
    return found


def _cpu_us(work: Callable[[], object], seconds: float) -> float:
    """One call: a dry run proves that it runs."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e6


def _cuda_us(work: Callable[[], object], seconds: float) -> float:
    """One call, as the device runs it behind others, in rounds of ``seconds`` in all."""

    def elapsed_us(calls: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1000

    elapsed_us(WARM)
    calls = max(1, int(seconds * 1e6 / ROUNDS / max(1e-3, elapsed_us(1))))
    return median(elapsed_us(calls) for _ in range(ROUNDS)) / calls
