"""Attention of one new row over each sequence's slot: the project's own kernel, torch's flash attention, and SDPA."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from bench.gpu.run import Run
from bench.gpu.stand import Stand, kernel_us, open_stand
from fastqps.kernels.slot_attention import slot_attention

SEQUENCES = (16, 128, 1024)
PLACES = (32, 75, 256)
HEADS = {"smollm2-135m": (9, 3, 64), "qwen2.5-0.5b": (14, 2, 64), "qwen3-0.6b": (16, 8, 128)}  # queries', keys', size
MAX_LEN = 256
ERROR_MAX = 0.05
Work = Callable[[], torch.Tensor]


def measure(run: Run) -> None:
    """All at the same number of sequences and places; every answer is compared with fp32 before it is timed."""
    stand = open_stand(run.dry)
    table: list[dict[str, Any]] = []
    for model, heads in list(HEADS.items())[: 1 if run.dry else None]:
        for sequences in (4,) if run.dry else SEQUENCES:
            for places in (5,) if run.dry else PLACES:
                if table and not run.enough(3, f"{model}, {sequences} sequences at {places}"):
                    break
                table.append({"model": model, **_point(stand, sequences, places, *heads)})
    run.raw("points", table)
    for point in table:
        told = [f"{way} {point[way]:.1f} µs" for way in ("flash", "sdpa") if isinstance(point[way], float)]
        told += [f"{way}: {point[way]}" for way in ("own", "flash", "sdpa") if isinstance(point[way], str)]
        if isinstance(point["own"], float):
            name = f"{point['model']}: one row each of {point['sequences']} sequences over {point['places']} places"
            run.figure(name, point["own"], "µs", "; ".join(told))
    if failed := [point for point in table if isinstance(point["own"], str)]:
        raise RuntimeError(f"{len(failed)} points of our own attention failed: {failed[0]['own']}")


def _point(stand: Stand, sequences: int, places: int, heads: int, kv_heads: int, size: int) -> dict[str, Any]:
    dtype = torch.bfloat16 if stand.cuda else torch.float32
    q = torch.randn(sequences, heads, size, device=stand.device).to(dtype)
    cache = torch.randn(2, sequences, kv_heads, MAX_LEN, size, device=stand.device).to(dtype)
    expected = _sdpa(q.float(), cache.float(), places)()
    found: dict[str, Any] = {"sequences": sequences, "places": places}
    ways: dict[str, Callable[[], Work]] = {
        "own": lambda: _own(q, cache, places),
        "flash": lambda: _flash(q, cache, places),
        "sdpa": lambda: _sdpa(q, cache, places),
    }
    for name, make in ways.items():
        try:
            work = make()
            error = float((work().float() - expected).abs().max())
            if not error < ERROR_MAX:
                raise ValueError(f"differs from fp32 by {error:.3g}")
            found[name] = kernel_us(stand, work, copies=10, seconds=0.02)
        except Exception as problem:  # one way that is not possible here does not hide the others
            found[name] = f"{type(problem).__name__}: {str(problem)[:100]}"
    return found


def _own(q: torch.Tensor, cache: torch.Tensor, places: int) -> Work:
    n, heads, size = q.shape
    queries = (
        (q.float() * (math.log2(math.e) / math.sqrt(size))).to(q.dtype).view(n, heads * size)
    )  # as rope_kv gives them
    whole: dict[str, Any] = {"dtype": torch.int32, "device": q.device}
    starts, slots = torch.arange(n + 1, **whole), torch.arange(n, **whole)
    positions, counts = torch.full((n,), places - 1, **whole), torch.tensor([n, n, 0], **whole)
    prefix = cache.new_empty(2, cache.shape[2], 0, size)
    return lambda: slot_attention(queries, cache, prefix, starts, positions, slots, counts, last_rows=False)


def _flash(q: torch.Tensor, cache: torch.Tensor, places: int) -> Work:
    """FlashAttention-2 over the same sequences, with a cache in the order that it reads."""
    n, heads, size = q.shape
    k, v = (part.transpose(1, 2).reshape(-1, cache.shape[2], size).contiguous() for part in cache)
    rows = torch.arange(n + 1, dtype=torch.int32, device=q.device)
    used = torch.full((n,), places, dtype=torch.int32, device=q.device)
    flash = torch.ops.aten._flash_attention_forward
    starts = rows * MAX_LEN

    def work() -> torch.Tensor:
        out = flash(q, k, v, rows, starts, 1, MAX_LEN, 0.0, False, False, seqused_k=used)
        return out[0].view(n, heads * size)  # type: ignore[no-any-return]

    return work


def _sdpa(q: torch.Tensor, cache: torch.Tensor, places: int) -> Work:
    """All are equally long here: no mask."""
    k, v = cache[0, :, :, :places], cache[1, :, :, :places]

    def work() -> torch.Tensor:
        out = functional.scaled_dot_product_attention(q.unsqueeze(2), k, v, enable_gqa=True)
        return out.reshape(len(q), -1)

    return work
