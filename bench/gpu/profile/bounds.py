"""The peak rates of a GPU, measured in the same run, and how near a step comes to them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from bench.gpu.models.shapes import Shape
from bench.gpu.stand import Stand, time_us


@dataclass(frozen=True)
class Peaks:
    """``flops``: of a large bf16 product; ``bytes_per_s``: of a large copy, read and written."""

    flops: float
    bytes_per_s: float

    def as_json(self) -> dict[str, float]:
        """For the raw figures."""
        return asdict(self)

    def gemm_us(self, shape: Shape, tokens: float) -> float:
        """The layers' matrix products of so many tokens at that peak."""
        return 2 * shape.body_parameters * tokens / self.flops * 1e6

    def head_us(self, shape: Shape, rows: float) -> float:
        """The head's product of so many sampled rows."""
        return 2 * shape.hidden * shape.vocab * rows / self.flops * 1e6

    def cache_us(self, shape: Shape, positions: float) -> float:
        """Reading so many positions of the KV cache."""
        return shape.kv_bytes * positions / self.bytes_per_s * 1e6

    def encoder_us(self, shape: Shape, tokens_per_item: float) -> float:
        """The least time of one item of an encoder: its matrix products."""
        return self.gemm_us(shape, tokens_per_item)

    def decoder_us(self, shape: Shape, tokens_in: int, tokens_out: int) -> float:
        """The least time of one request of a decoder: matrix products, heads of its sampled rows, and the KV cache
        read at every generated token. Weights are read for hundreds of rows at once and not counted."""
        positions = sum(range(tokens_in, tokens_in + tokens_out))
        rows = tokens_in + tokens_out - 1
        return self.gemm_us(shape, rows) + self.head_us(shape, tokens_out) + self.cache_us(shape, positions)


def measure_peaks(stand: Stand) -> Peaks:
    """A product of random bf16 numbers and a copy, both larger than any cache."""
    side, numbers = (8192, 1 << 29) if stand.cuda else (64, 1 << 12)
    a, b = (torch.randn(side, side, dtype=torch.bfloat16, device=stand.device) for _ in range(2))
    product_us = time_us(stand, lambda: torch.mm(a, b), seconds=0.3)
    source = torch.empty(numbers, dtype=torch.bfloat16, device=stand.device)
    target = torch.empty_like(source)
    copy_us = time_us(stand, lambda: target.copy_(source), seconds=0.1)
    return Peaks(2 * side**3 / product_us * 1e6, 2 * source.nbytes / copy_us * 1e6)


def share(peaks: Peaks, floor_us: float, rate: float) -> str:
    """How much of the device's time the floor of every answer is, at this rate."""
    return (
        f"floor {floor_us:.3g} µs each at {peaks.flops / 1e12:.0f} TFLOP/s and {peaks.bytes_per_s / 1e12:.2f} TB/s "
        f"(measured): {100 * floor_us * rate / 1e6:.0f} % of the time"
    )


def finite(value: Any) -> float | None:
    """A number for a file of JSON, which has no NaN."""
    number = float(value)
    return number if number == number and abs(number) != float("inf") else None
