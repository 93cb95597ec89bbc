"""The peak rates of a GPU, measured in the same run, and the bytes and FLOPs of each kind of kernel in a step, from the
shapes alone: so much a step takes at least."""

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

FP8_SPEED = 2.0  # of the tensor cores in FP8 over bf16, by their data sheet
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
    peaks = Peaks(2 * side**3 / product_us * 1e6, 2 * source.nbytes / copy_us * 1e6)
    run.raw("peaks", asdict(peaks))
    return peaks


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


@dataclass(frozen=True)
class Work:
    """The work of all launches of one kind in a step; ``flops`` of matrix products, ``speed`` over bf16."""

    launches: int
    bytes: float
    flops: float = 0.0
    speed: float = 1.0

    def bound_us(self, peaks: Peaks) -> float:
        """The least time: memory or products, whichever is longer."""
        return 1e6 * max(self.bytes / peaks.bytes_per_s, self.flops / self.speed / peaks.flops)


def encoder_work(shape: Shape, items: int, length: int, size: int) -> dict[str, Work]:
    """The work by kind, of ``items`` texts of ``length`` tokens; ``size``: bytes of a number."""
    rows = items * length
    row_bytes = float(rows * shape.hidden * size)
    return {
        "embed_norm": Work(1, 2 * row_bytes),
        **_products(shape, rows, size),
        "tile_attention": Work(
            shape.layers, shape.layers * 4 * row_bytes, shape.layers * 4.0 * rows * length * shape.hidden
        ),
        "add_norm": Work(2 * shape.layers, 2 * shape.layers * 3 * row_bytes),
        "pool": Work(1, row_bytes + 4.0 * items * shape.hidden),
    }


@dataclass(frozen=True)
class DecoderStep:
    """``running`` sequences with one row each at ``place``, and ``prompts`` of ``length`` rows."""

    running: int
    prompts: int
    length: int
    place: int

    @property
    def rows(self) -> int:
        return self.running + self.prompts * self.length

    @property
    def runs(self) -> int:
        return self.running + self.prompts

    @property
    def read(self) -> int:
        """Positions of the cache that are read at least."""
        return self.running * (self.place + 1) + self.prompts * self.length

    @property
    def seen(self) -> float:
        """Positions that all rows together attend to."""
        return self.running * (self.place + 1) + self.prompts * self.length * (self.length + 1) / 2


def decoder_work(shape: Shape, step: DecoderStep, size: int, fp8: bool = False) -> dict[str, Work]:
    """The work by kind. In FP8 products read one byte a number, and the kernels in front of them write one."""
    layers, inner, vocab = shape.layers, shape.inner, shape.vocab
    heads, head_dim, kv_heads = shape.heads, shape.head_dim, shape.kv_heads
    rows_of = float(step.rows * shape.hidden)
    per_place = 2 * kv_heads * head_dim * size
    queries = step.rows * heads * head_dim
    norms = 2 * rows_of * size if not fp8 else 2 * rows_of * size + rows_of * (size + 1)
    work = {
        "embed_tokens": Work(1, 2 * rows_of * size),
        "add_norm": Work(2 * layers + 1, 2 * layers * norms + 2.0 * step.runs * shape.hidden * size),
        **_products(shape, step.rows, size, fp8),
        "rope_kv": Work(layers, layers * 2.0 * step.rows * (heads + 2 * kv_heads) * head_dim * size),
        "slot_attention": Work(
            layers,
            layers * (step.read * per_place + 2.0 * queries * size),
            layers * 4.0 * heads * head_dim * step.seen,
        ),
        "activate": Work(layers, layers * float(step.rows * inner) * (2 * size + (1 if fp8 else size))),
        "last_rows": Work(1, 2.0 * step.runs * shape.hidden * size),
        "product head": Work(
            1,
            float(vocab * shape.hidden + step.runs * (shape.hidden + vocab)) * size,
            2.0 * step.runs * shape.hidden * vocab,
        ),
        "logit_options": Work(1, 8.0 * step.runs),  # without options: it looks at flags alone
        "sample_chunks": Work(1, float(step.runs * vocab * size)),
        "sample": Work(1, step.runs * vocab / 64 * 8.0),
    }
    if fp8:  # attention writes numbers of the model's type, which the out product cannot read
        work["quantise_rows"] = Work(layers, layers * float(queries) * (size + 1))
    return work


def _products(shape: Shape, rows: int, size: int, fp8: bool = False) -> dict[str, Work]:
    """The work of the layers' products; weights are read once a step."""
    work, speed, read = {}, FP8_SPEED if fp8 else 1.0, 1 if fp8 else size
    for name, k, n in shape.products():
        moved = float((rows * k + k * n) * read + rows * n * size)
        work[f"product {name}"] = Work(shape.layers, shape.layers * moved, shape.layers * 2.0 * rows * k * n, speed)
    return work
