"""Attention of a decoder's rows over the prefix and their own cache slot."""

from __future__ import annotations

import math

import torch

from fastqps.kernels.torch_ops.slots import last_of

_GATHERED_MAX = 1 << 26  # numbers of the slots that are gathered at once: 256 MiB in float32


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
