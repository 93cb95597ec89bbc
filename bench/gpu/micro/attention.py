"""Attention over packed short sequences: the project's own kernel, torch's flash attention, and padded SDPA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from bench.gpu.run import Run
from bench.gpu.stand import Stand, kernel_us, open_stand

LENGTHS = (8, 16, 32, 64, 128)
HEADS = ((12, 32), (12, 64), (16, 128))  # and their dimension
TOKENS = 4096
TILES = ((32, 64, 2), (64, 64, 4), (64, 128, 4))  # rows, keys and warps of the own kernel's programs, beside its rule's
POINT_S = 0.02


def measure(run: Run) -> None:
    """Each at the same packed tokens; every answer is compared with fp32 before it is timed."""
    stand = open_stand(run.dry)
    table: list[dict[str, Any]] = []
    for heads, dim in HEADS[:1] if run.dry else HEADS:
        for length in LENGTHS[1:3] if run.dry else LENGTHS:
            if table and not run.enough(4, f"{heads} heads of {dim}, from {length} tokens on"):
                break
            table.append(_point(stand, 128 if run.dry else TOKENS, length, heads, dim))
    run.raw("points", table)
    for point in table:
        name = f"attention, {point['heads']} heads of {point['dim']}, texts of {point['length']} tokens"
        others = [f"{kind} {us:.1f} µs" for kind, us in point.items() if kind != "own" and isinstance(us, float)]
        others += [f"{kind}: {point[kind]}" for kind in ("own", "flash", "padded") if isinstance(point.get(kind), str)]
        if isinstance(point.get("own"), float):
            run.figure(name, point["own"], "µs", "; ".join(others))
        else:
            run.figure(f"{name}, padded SDPA", point["padded"], "µs", "; ".join(others))


def _point(stand: Stand, tokens: int, length: int, heads: int, dim: int) -> dict[str, Any]:
    items = tokens // length
    qkv = torch.randn(tokens, 3 * heads * dim, device=stand.device).to(torch.bfloat16 if stand.cuda else torch.float32)
    expected = _padded(qkv.float(), items, length, heads, dim)()
    found: dict[str, Any] = {"heads": heads, "dim": dim, "length": length, "tokens": tokens}
    ways: dict[str, Callable[[], Callable[[], torch.Tensor]]] = {
        "own": lambda: _own(qkv, items, length, heads),
        "flash": lambda: _flash(qkv, items, length, heads, dim),
        "padded": lambda: _padded(qkv, items, length, heads, dim),
    }
    for tile in TILES if stand.cuda else ():
        ways["own {}×{}".format(*tile)] = partial(_own, qkv, items, length, heads, tile)
    for name, make in ways.items():
        try:
            work = make()
            error = float((work().float() - expected).abs().max())
            if not error < 0.05:
                raise ValueError(f"differs from fp32 by {error:.3g}")
            found[name] = kernel_us(stand, work, copies=5, seconds=POINT_S)
        except Exception as problem:  # one way that is not possible here does not hide the others
            found[name] = f"{type(problem).__name__}: {str(problem)[:100]}"
    return found


def _own(
    qkv: torch.Tensor, items: int, length: int, heads: int, tile: tuple[int, int, int] | None = None
) -> Callable[[], torch.Tensor]:
    from fastqps.kernels.shapes import attention_shape
    from fastqps.kernels.tile_attention import tile_attention

    shape = attention_shape(qkv.shape[1] // 3 // heads, qkv.dtype)
    if tile:
        shape = replace(shape, queries=tile[0], keys=tile[1], warps=tile[2])
    start = torch.arange(items * length, dtype=torch.int32, device=qkv.device) // length * length
    end = start + length
    return lambda: tile_attention(qkv, start, end, heads, shape=shape)


def _flash(qkv: torch.Tensor, items: int, length: int, heads: int, dim: int) -> Callable[[], torch.Tensor]:
    """FlashAttention-2 over packed rows, as torch has it on a GPU."""
    q, k, v = (part.view(-1, heads, dim) for part in qkv.chunk(3, dim=-1))
    starts = torch.arange(items + 1, dtype=torch.int32, device=qkv.device) * length

    def work() -> torch.Tensor:
        out = torch.ops.aten._flash_attention_forward(q, k, v, starts, starts, length, length, 0.0, False, False)
        return out[0].flatten(1)  # type: ignore[no-any-return]

    return work


def _padded(qkv: torch.Tensor, items: int, length: int, heads: int, dim: int) -> Callable[[], torch.Tensor]:
    """Texts of one length need no mask: the kindest case for it. Its transposed copies count."""

    def work() -> torch.Tensor:
        q, k, v = (part.view(items, length, heads, dim).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
        out = functional.scaled_dot_product_attention(q, k, v)
        return out.transpose(1, 2).reshape(items * length, heads * dim)

    return work
