"""A decoder's rows and their cache slots: embeddings, rotary positions, keys and values, attention, the last rows.

Padding must write nothing. An index made of it repeats the first row's write instead, with the same numbers; in a step
without rows the place keeps what it holds.
"""

from __future__ import annotations

import math

import torch

from fastqps._core import HEADER_TARGETS
from fastqps.kernels.layers import Attention
from fastqps.kernels.torch_ops.attention import normed, turned

_LOG2_E = 1.4426950408889634
_GATHERED_MAX = 1 << 26  # numbers of the slots that are gathered at once: 256 MiB in float32


def repeated(n: int, count: torch.Tensor) -> torch.Tensor:
    """int64 [n]: the rows below ``count``, then the first one again and again."""
    row = torch.arange(n, device=count.device)
    return torch.where(row < count, row, 0)


def scripted(targets: torch.Tensor | None, counts: torch.Tensor) -> torch.Tensor:
    """bool [S], or one for all: the runs that have ``targets`` [S, TARGET_WORDS], if the header ``counts`` says so."""
    if targets is None:
        return torch.zeros(1, dtype=torch.bool, device=counts.device)
    return (targets[:, 0] > 0) & (counts[HEADER_TARGETS] != 0)


def embed_tokens(
    table: torch.Tensor,
    ids: torch.Tensor,
    kv_slots: torch.Tensor,
    last_token: torch.Tensor,
    counts: torch.Tensor,
    *,
    admitted: torch.Tensor,
    params: torch.Tensor,
    positions: torch.Tensor,
    history: torch.Tensor,
    places: torch.Tensor | None = None,
    scale: float = 1.0,
    stamps: torch.Tensor | None = None,
) -> torch.Tensor:
    """The row of ``table`` [vocabulary, width] for each of ``ids`` [T], times ``scale``, and that of its position in
    ``places`` [positions, width]. -1 stands for the slot's newest token."""
    any_new, record = counts[2] > 0, admitted[repeated(len(admitted), counts[2])]
    slot = torch.where(any_new, record[:, 0], 0).long()
    params[slot] = torch.where(any_new, record, params[slot])
    live = torch.arange(len(ids), device=ids.device) < counts[0]
    newest = last_token[torch.where(live, kv_slots, 0)]
    resolved = torch.where(live, torch.where(ids < 0, newest, ids), 0)
    row, any_row = repeated(len(ids), counts[0]), counts[0] > 0
    slot, at = (torch.where(any_row, x[row], 0).long() for x in (kv_slots, positions))
    history[slot, at] = torch.where(any_row, resolved[row], history[slot, at])
    if places is None and scale == 1.0:
        return table[resolved]
    x = table[resolved].float() * scale
    if places is not None:
        x += places[torch.where(live, positions, 0)]
    return x.to(table.dtype)


def last_rows(x: torch.Tensor, starts: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """x [T, width], starts int32 [S + 1], counts int32 [≥ 2] → [S, width]."""
    return x[last_of(starts, counts)]


def last_of(starts: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """int64 [S]: the last row of each run; 0 behind the step's runs."""
    live = torch.arange(len(starts) - 1, device=starts.device) < counts[1]
    return torch.where(live, starts[1:] - 1, 0).long()


def rope_kv(
    qkv: torch.Tensor,
    cache: torch.Tensor,
    attention: Attention,
    positions: torch.Tensor,
    kv_slots: torch.Tensor,
    counts: torch.Tensor,
    *,
    prefix_len: int,
) -> torch.Tensor:
    """Keeps keys and values of ``counts[0]`` rows in ``cache``; → the queries, turned if there are angles, and scaled.

    Their factor holds log2 e: ``slot_attention`` takes powers of two.
    """
    heads, kv_heads, head_dim, rows = attention.heads, attention.kv_heads, cache.shape[4], len(qkv)
    any_row, row = counts[0] > 0, repeated(rows, counts[0])
    q, k, v = qkv[row].float().view(rows, -1, head_dim).split_with_sizes([heads, kv_heads, kv_heads], 1)
    q, k = normed(q, k, attention)
    position = torch.where(any_row, positions[row], prefix_len).long()
    if attention.rotary is not None:
        turns = attention.rotary[position][:, None]
        q, k = turned(q, turns), turned(k, turns)
    at = position - prefix_len
    slot = torch.where(any_row, kv_slots[row], 0).long()
    for part, new in zip(cache, (k, v), strict=True):
        place = part.transpose(1, 2)
        place[slot, at] = torch.where(any_row, new.to(cache.dtype), place[slot, at])
    queries: torch.Tensor = q * (head_dim**-0.5 * _LOG2_E)
    return queries.flatten(1).to(qkv.dtype)


def slot_attention(
    queries: torch.Tensor,
    cache: torch.Tensor,
    prefix: torch.Tensor,
    starts: torch.Tensor,
    positions: torch.Tensor,
    kv_slots: torch.Tensor,
    counts: torch.Tensor,
    *,
    last_rows: bool,
    window: int | None = None,
    cap: float | None = None,
) -> torch.Tensor:
    """Every row attends to the prefix and to its own slot up to itself; ``rope_kv`` comes before."""
    rows, head_dim, prefix_len = len(queries), cache.shape[4], prefix.shape[2]
    live = torch.arange(rows, device=queries.device) < counts[0]
    slots = torch.where(live, kv_slots, 0).long()
    at = torch.where(live, positions - prefix_len, 0).long()
    q = queries.float().view(rows, -1, head_dim) * math.log(2)  # their factor holds log2 e
    if last_rows:
        last = last_of(starts, counts)
        q, at, slots = q[last], at[last], slots[last]
    together = max(1, _GATHERED_MAX // (2 * cache.shape[2] * cache.shape[3] * head_dim))
    chunks = [slice(begin, begin + together) for begin in range(0, len(q), together)]
    attended = [_attended(q[c], at[c], slots[c], cache, prefix, window, cap) for c in chunks]
    return torch.cat(attended).to(queries.dtype)


def _attended(
    q: torch.Tensor,
    at: torch.Tensor,
    slots: torch.Tensor,
    cache: torch.Tensor,
    prefix: torch.Tensor,
    window: int | None,
    cap: float | None,
) -> torch.Tensor:
    """q [rows, heads, size] of places ``at`` in ``slots``, int64 [rows] → [rows, heads · size]."""
    own_k, own_v = cache[:, slots].float()  # [rows, kv_heads, max_len, size]
    shared_k, shared_v = prefix.float()  # [kv_heads, prefix_len, size]
    n_shared, n_own = shared_k.shape[1], own_k.shape[2]
    place = torch.arange(-n_shared, n_own, device=q.device)
    seen = place <= at[:, None]
    if window:
        seen &= place >= at[:, None] - window
    seen = seen[:, None, None]  # [rows, 1, 1, prefix_len + max_len]
    q = q.unflatten(1, (own_k.shape[1], -1))
    scores = torch.cat((torch.einsum("rkgd,kld->rkgl", q, shared_k), torch.einsum("rkgd,rkld->rkgl", q, own_k)), -1)
    if cap:
        scores = cap * torch.tanh(scores / cap)
    weights = torch.where(seen, scores, -torch.inf).softmax(-1)
    shared, own = weights.split_with_sizes((n_shared, n_own), -1)
    own_v = torch.where(seen[..., n_shared:].mT, own_v, 0.0)  # what a longer sequence left there may be no number
    return (torch.einsum("rkgl,kld->rkgd", shared, shared_v) + torch.einsum("rkgl,rkld->rkgd", own, own_v)).flatten(1)
