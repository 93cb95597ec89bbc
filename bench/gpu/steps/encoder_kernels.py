"""The kernels of an encoder's step, on packed texts of 32 tokens."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn import functional

from bench.gpu.models.shapes import Shape
from bench.gpu.stand import Stand
from bench.gpu.steps.kernels import Make, Timed
from fastqps.kernels.activate import activate
from fastqps.kernels.add_norm import add_norm
from fastqps.kernels.embed_norm import embed_norm
from fastqps.kernels.pool import pool
from fastqps.kernels.quantise_rows import quantise_rows
from fastqps.kernels.tile_attention import tile_attention

TOKENS, LENGTH = 4096, 32


def rows(stand: Stand, tokens: int, width: int) -> torch.Tensor:
    """Random ones in the model's type."""
    return torch.randn(tokens, width, device=stand.device).to(torch.bfloat16 if stand.cuda else torch.float32)


def tokens_on(stand: Stand) -> int:
    """Of a step; few where kernels are interpreted."""
    return TOKENS if stand.cuda else 2 * LENGTH


def whole(stand: Stand, *values: int) -> torch.Tensor:
    """int32 [len(values)]."""
    return torch.tensor(values, dtype=torch.int32, device=stand.device)


def marks(stand: Stand, tokens: int) -> torch.Tensor:
    """cu_seqlens of texts of LENGTH tokens."""
    return torch.arange(0, tokens + 1, LENGTH, dtype=torch.int32, device=stand.device)


def _embed(stand: Stand, shape: Shape) -> Iterator[Timed]:
    n = tokens_on(stand)
    words, places, kinds = (
        rows(stand, shape.vocab, shape.hidden),
        rows(stand, 512, shape.hidden),
        rows(stand, 2, shape.hidden),
    )
    weight = torch.ones(shape.hidden, device=stand.device)
    ids = torch.randint(0, shape.vocab, (n,), dtype=torch.int32, device=stand.device)
    starts, counts = marks(stand, n), whole(stand, n, n // LENGTH)

    def work() -> object:
        return embed_norm(ids, torch.zeros_like(ids), starts, counts, words, places, kinds, weight, weight, 1e-12)

    yield Timed(f"embed_norm of {n} rows", work, 2.0 * n * shape.hidden * words.element_size())


def _norm(stand: Stand, shape: Shape) -> Iterator[Timed]:
    x, residual = (rows(stand, tokens_on(stand), shape.hidden) for _ in range(2))
    weight = torch.ones(shape.hidden, device=stand.device)

    def work(fp8: bool = False) -> object:
        return add_norm(x, weight, weight, 1e-12, "layer", residual=residual, want_fp8=fp8)

    yield Timed(f"add_norm of {len(x)} rows", work, 3.0 * x.nbytes)
    if stand.cuda:
        yield Timed(f"add_norm of {len(x)} rows, to FP8 too", lambda: work(True), 3.5 * x.nbytes)
        yield Timed(f"quantise_rows of {len(x)} rows", lambda: quantise_rows(x), 1.5 * x.nbytes)


def _activate(stand: Stand, shape: Shape) -> Iterator[Timed]:
    x = rows(stand, tokens_on(stand), int(shape.sizes["intermediate_size"]))
    yield Timed(f"activate of {len(x)} rows, gelu", lambda: activate(x, "gelu"), 2.0 * x.nbytes)
    if stand.cuda:
        yield Timed(f"activate of {len(x)} rows, gelu, to FP8", lambda: activate(x, "gelu", fp8=True), 1.5 * x.nbytes)


def _activated_product(stand: Stand, shape: Shape) -> Iterator[Timed]:
    """The product in front of the activation with it: as two kernels, and as the one that cuBLASLt makes of them."""
    x, weight = (
        rows(stand, tokens_on(stand), shape.hidden),
        rows(stand, int(shape.sizes["intermediate_size"]), shape.hidden),
    )
    bias = weight[:, 0].contiguous()
    moved, flop = float(x.nbytes + weight.nbytes), 2.0 * len(x) * weight.numel()
    written = len(x) * len(weight) * x.element_size()

    def apart() -> object:
        return activate(functional.linear(x, weight, bias), "gelu")

    def fused() -> object:
        return torch._addmm_activation(bias, x, weight.t(), use_gelu=True)

    yield Timed(f"product of {len(x)} rows, then gelu", apart, moved + 3.0 * written, flop)
    yield Timed(f"product of {len(x)} rows, gelu in it", fused, moved + written, flop)


def _attend(stand: Stand, shape: Shape) -> Iterator[Timed]:
    n = tokens_on(stand)
    qkv, heads = rows(stand, n, 3 * shape.hidden), int(shape.sizes["num_attention_heads"])
    start = torch.arange(n, dtype=torch.int32, device=stand.device) // LENGTH * LENGTH

    def work() -> object:
        return tile_attention(qkv, start, start + LENGTH, heads)

    moved, flops = qkv.nbytes * 4 / 3, 4.0 * n * LENGTH * shape.hidden
    yield Timed(f"tile_attention of {n} rows", work, moved, flops)
    if stand.cuda:  # torch has FlashAttention over packed rows on a GPU only
        q, k, v = (part.view(-1, heads, shape.head_dim) for part in qkv.chunk(3, dim=-1))
        ends, flash = marks(stand, n), torch.ops.aten._flash_attention_forward

        def peer() -> object:
            return flash(q, k, v, ends, ends, LENGTH, LENGTH, 0.0, False, False)

        yield Timed(f"FlashAttention of {n} rows", peer, moved, flops)


def _pool(stand: Stand, shape: Shape) -> Iterator[Timed]:
    x = rows(stand, tokens_on(stand), shape.hidden)
    starts, counts = marks(stand, len(x)), whole(stand, len(x), len(x) // LENGTH)
    yield Timed(f"pool of {len(x)} rows, mean", lambda: pool(x, starts, counts, "mean"), float(x.nbytes))


KERNELS: dict[str, Make] = {
    "embed_norm": _embed,
    "add_norm": _norm,
    "activate": _activate,
    "activated_product": _activated_product,
    "tile_attention": _attend,
    "pool": _pool,
}
