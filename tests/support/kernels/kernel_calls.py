"""Calls of each kernel as models make them, of small sizes: for the kernels' checks, and for what can be captured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from fastqps._core import ADMITTED_WORDS, BIAS_WORDS, TARGET_WORDS
from fastqps.kernels.journal import KERNELS
from fastqps.kernels.layers import Attention, LogitChanges, Tables
from fastqps.kernels.shapes import ROWS_TOGETHER_FROM


def moved(value: Any, device: str) -> Any:
    """An argument, with its tensors on the device."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, Attention | LogitChanges | Tables):
        return replace(value, **{name: moved(each, device) for name, each in vars(value).items()})
    return value


def _ints(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.int32)


def _encoder(dtype: torch.dtype) -> dict[str, list[dict[str, Any]]]:
    width, heads, rows = 48, 2, 20
    x, weight = torch.zeros(rows, width, dtype=dtype), torch.rand(width) + 0.5
    ids, marks, counts, stamps = _ints(rows), _ints(9), _ints(16), torch.zeros(2, dtype=torch.int64)
    words, places, kinds = (torch.randn(n, width).to(dtype) for n in (70, 50, 2))
    tables = Tables(words, places, kinds, weight, weight, 1e-12)
    embed = {"ids": ids, "types": ids, "cu_seqlens": marks, "counts": counts, "tables": tables, "stamps": stamps}
    norm = {"x": x, "weight": weight, "bias": weight, "eps": 1e-12, "kind": "layer", "residual": x}
    of_many, many = torch.zeros(ROWS_TOGETHER_FROM, width, dtype=dtype), embed | {"cu_seqlens": _ints(200)}
    many |= {"ids": _ints(ROWS_TOGETHER_FROM), "types": _ints(ROWS_TOGETHER_FROM)}
    rotary, norms = torch.randn(50, 2, width // heads // 2), torch.rand(width // heads) + 0.5
    vectors = torch.randn(2, heads, width // heads, 2 * 48 + 16)
    attended = {"qkv": x.repeat(1, 3), "row_start": ids, "row_end": ids}
    opening, behind = torch.zeros(2, heads, 19, width // heads, dtype=dtype), attended | {"positions": ids}
    pool = {"hidden": x, "cu_seqlens": marks, "counts": counts, "stamps": stamps}
    bags = {"table": words, "mapping": None, "weights": None, "ids": ids, "cu_seqlens": marks}
    bags |= {"counts": counts, "n_ids": 70, "stamps": stamps}
    mapped = {"mapping": _ints(95), "weights": torch.ones(95), "n_ids": 95, "skipped_id": 3}
    return {
        "embed_norm": [
            embed | {"tables": replace(tables, position_offset=2), "return_fp8": True},
            embed | {"types": None, "cu_seqlens": _ints(600)},
            embed | {"tables": Tables(words, eps=1e-12)},
            embed | {"tables": Tables(words, weight=weight, eps=1e-12), "return_values": False, "return_fp8": True},
            embed | {"tables": Tables(words)},
            many | {"return_fp8": True},
            many | {"cu_seqlens": _ints(600)},
        ],
        "add_norm": [
            norm,
            norm | {"bias": None, "kind": "rms", "return_sum": True, "return_fp8": True},
            norm | {"residual": None, "count": counts},
            norm | {"x": of_many, "residual": of_many, "count": counts, "return_sum": True, "return_fp8": True},
        ],
        "activate": [
            {"x": x, "kind": "gelu"},
            {"x": x, "kind": "silu", "gated": True, "count": counts},
            {"x": x, "kind": "gelu_tanh", "fp8": True},
        ],
        "quantise_rows": [{"x": x}, {"x": x, "count": counts}],
        "tile_attention": [
            attended | {"attention": Attention(heads, heads)},
            attended | {"attention": Attention(heads, heads, rotary, window=8), "longest": 50},
            attended | {"attention": Attention(heads, heads), "longest": 12},
            attended | {"attention": Attention(heads, heads, bias=torch.randn(heads, 2 * 48 + 1))},
            attended | {"attention": Attention(heads, heads, relative=vectors.to(dtype))},
            attended | {"attention": Attention(heads, heads, rotary, norms, norms, 1e-6, causal=True)},
            attended | {"attention": Attention(2 * heads, 1, rotary, window=8, causal=True)},
            behind | {"attention": Attention(heads, heads, rotary, causal=True, opening=opening)},
            behind | {"attention": Attention(heads, heads, window=9, causal=True, opening=opening)},
        ],
        "pool": [pool | {"mode": mode} for mode in ("mean", "cls", "max", "lasttoken")]
        + [
            pool | {"mode": "mean", "out": torch.zeros(8, width)},
            pool | {"mode": "lasttoken", "ids": ids, "skipped": 3},
        ],
        "bag_means": [bags, bags | mapped | {"out": torch.zeros(8, width)}],
        "end_step": [{"stamps": stamps}],
    }


def _decoder(dtype: torch.dtype) -> dict[str, list[dict[str, Any]]]:
    rows, runs, heads, kv_heads, size, vocab, slots, length = 20, 6, 4, 2, 16, 90, 9, 30
    ids, starts, counts, stamps = _ints(rows), _ints(runs + 1), _ints(16), torch.zeros(2, dtype=torch.int64)
    where = {"positions": ids, "kv_slots": ids, "counts": counts}
    cache = torch.zeros(2, slots, kv_heads, length, size, dtype=dtype)
    angles = torch.randn(length + 5, size // 2)
    norm, last_token, params = torch.rand(size) + 0.5, _ints(slots), _ints(slots, ADMITTED_WORDS)
    embed = {"table": torch.randn(vocab, 24).to(dtype), "ids": ids, "kv_slots": ids, "last_token": last_token}
    places = torch.randn(length + 5, 24).to(dtype)
    embed |= {"counts": counts, "admitted": _ints(runs, ADMITTED_WORDS), "params": params, "stamps": stamps}
    rope = {"qkv": torch.zeros(rows, (heads + 2 * kv_heads) * size, dtype=dtype), "cache": cache, **where}
    rotary = torch.stack((angles.cos(), angles.sin()), 1).contiguous()
    rope |= {"attention": Attention(heads, kv_heads, rotary), "prefix_len": 5}
    attend = {"queries": torch.zeros(rows, heads * size, dtype=dtype), "cache": cache, "starts": starts, **where}
    prefix = [torch.zeros(2, kv_heads, n, size, dtype=dtype) for n in (0, 5)]
    draw = {"logits": torch.zeros(runs, vocab, dtype=dtype), "starts": starts, "kv_slots": ids, "made": _ints(runs)}
    draw |= {"params": params, "eos_ids": torch.tensor([7, 3], dtype=torch.int32), "counts": counts, "stamps": stamps}
    draw |= {"top": _ints(runs, 40)}
    draw |= {"tokens": _ints(runs), "logprobs": torch.zeros(runs), "finish": _ints(runs), "last_token": last_token}
    history = _ints(slots, length + 5)
    placed = (starts, ids, ids, _ints(runs), params, _ints(slots, BIAS_WORDS), history, draw["eos_ids"])
    change = LogitChanges(*placed, _ints(0, 4), _ints(0), counts, n_forced=0, longest=0, masks=_ints(runs, 3))
    targets = _ints(runs, TARGET_WORDS)
    rules = {"rules": _ints(3, 4), "rule_ids": _ints(4), "n_forced": 1, "longest": 2}
    more = replace(change, targets=targets, masks=_ints(runs, 1), eos_ids=_ints(0), **rules)
    return {
        "embed_tokens": [
            embed | {"positions": ids, "history": history},
            embed | {"positions": ids, "history": history, "places": places, "scale": 3.0},
        ],
        "rope_kv": [
            rope | {"attention": Attention(heads, kv_heads, rotary, norm, norm, 1e-6)},
            rope,
            rope | {"cache": cache[:, :1], "prefix_len": 0},
            rope | {"attention": Attention(heads, kv_heads)},
        ],
        "slot_attention": [
            attend | {"prefix": prefix[1], "last_rows": False},
            attend | {"prefix": prefix[0], "last_rows": True},
            attend | {"prefix": prefix[0], "last_rows": False, "cache": cache[:, :1]},
            attend | {"prefix": prefix[1], "last_rows": False, "window": 9, "cap": 2.5},
            attend | {"prefix": prefix[1], "last_rows": True, "window": 9},
        ],
        "last_rows": [{"x": torch.zeros(rows, 24, dtype=dtype), "starts": starts, "counts": counts}],
        "logit_options": [
            {"logits": draw["logits"], "changes": change},
            {"logits": torch.zeros(runs, 5, dtype=dtype), "changes": more},
        ],
        "sample": [draw, draw | {"eos_ids": _ints(0), "logits": torch.zeros(runs, 5, dtype=dtype), "targets": targets}],
    }


def calls(dtype: torch.dtype) -> list[tuple[str, dict[str, Any]]]:
    """(kernel, arguments), several of each."""
    torch.manual_seed(3)
    found = _encoder(dtype) | _decoder(dtype)
    assert set(found) == set(KERNELS)
    return [(name, arguments) for name, each in found.items() for arguments in each]
