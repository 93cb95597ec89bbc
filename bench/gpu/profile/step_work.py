"""The bytes and FLOPs of each kind of kernel in a step, from the shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

from bench.gpu.models.shapes import Shape
from bench.gpu.profile.bounds import Peaks

FP8_SPEED = 2.0  # of the tensor cores in FP8 over bf16, by their data sheet


@dataclass(frozen=True)
class Work:
    """Of all launches of one kind in a step; ``flops`` of matrix products, ``speed`` over bf16."""

    launches: int
    bytes: float
    flops: float = 0.0
    speed: float = 1.0

    def bound_us(self, peaks: Peaks) -> float:
        """The least time: memory or products, whichever is longer."""
        return 1e6 * max(self.bytes / peaks.bytes_per_s, self.flops / self.speed / peaks.flops)


def encoder_work(shape: Shape, items: int, length: int, size: int) -> dict[str, Work]:
    """By kind, of ``items`` texts of ``length`` tokens; ``size``: bytes of a number."""
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
    """By kind. In FP8 products read one byte a number, and the kernels in front of them write one."""
    layers, inner, vocab = shape.layers, shape.inner, shape.vocab
    heads, head_dim, kv_heads = shape.heads, shape.head_dim, shape.kv_heads
    rows_of = float(step.rows * shape.hidden)
    per_place = 2 * kv_heads * head_dim * size
    queries = step.rows * heads * head_dim
    norms = 2 * rows_of * size if not fp8 else 2 * rows_of * size + rows_of * (size + 1)
    found = {
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
        found["quantise_rows"] = Work(layers, layers * float(queries) * (size + 1))
    return found


def _products(shape: Shape, rows: int, size: int, fp8: bool = False) -> dict[str, Work]:
    """Of the layers; weights are read once a step."""
    found, speed, read = {}, FP8_SPEED if fp8 else 1.0, 1 if fp8 else size
    for name, k, n in shape.products():
        moved = float((rows * k + k * n) * read + rows * n * size)
        found[f"product {name}"] = Work(shape.layers, shape.layers * moved, shape.layers * 2.0 * rows * k * n, speed)
    return found
