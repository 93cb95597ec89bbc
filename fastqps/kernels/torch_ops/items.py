"""Operations from ids to rows and from rows to items: an encoder's first and last, and a static model's only one."""

from __future__ import annotations

import torch

from fastqps.kernels.layers import Tables
from fastqps.kernels.results import Embedded, Pooled
from fastqps.kernels.torch_ops.rows import normalised, scaled


def _marks(cu_seqlens: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """int64 [items + 1]: where each item begins; behind the step's items, n_tokens."""
    there = torch.arange(len(cu_seqlens), device=cu_seqlens.device) <= counts[1]
    return torch.where(there, cu_seqlens, counts[0]).long()


def _item_of(marks: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    """int64 [tokens]: the item of each row; of padding, as many as there can be."""
    return torch.searchsorted(marks[1:].contiguous(), row, right=True)


def places_of(ids: torch.Tensor, live: torch.Tensor, start: torch.Tensor, offset: int) -> torch.Tensor:
    """int64 [tokens]: each row's place in its item, ``offset`` the first; of padding, any.

    Where ``offset`` is not 0, the id below it is that of padding in texts: it is not counted, and is its own place.
    """
    row = torch.arange(len(ids), device=ids.device)
    if not offset:
        return torch.where(live, row - start, 0)
    padding = live & (ids == offset - 1)
    before = padding.cumsum(0) - padding.long()
    counted = row - start - (before - before[start.clamp(max=len(ids) - 1)])
    return torch.where(padding, -1, torch.where(live, counted, 0)) + offset


def embed_norm(
    ids: torch.Tensor,
    types: torch.Tensor | None,
    cu_seqlens: torch.Tensor,
    counts: torch.Tensor,
    tables: Tables,
    *,
    return_values: bool = True,
    return_fp8: bool = False,
    stamps: torch.Tensor | None = None,
) -> Embedded:
    """The sum of each token's rows, and its layer norm if there is one."""
    words, places, kinds, weight = tables.words, tables.places, tables.kinds, tables.weight
    row = torch.arange(len(ids), device=ids.device)
    live, marks = row < counts[0], _marks(cu_seqlens, counts)
    item = _item_of(marks, row)
    start, end = marks[item], marks[(item + 1).clamp(max=len(marks) - 1)]
    x = words[torch.where(live, ids, 0)].float()
    if kinds is not None:
        x = x + (kinds[0] if types is None else kinds[torch.where(live, types, 0)]).float()
    if places is not None:
        x = x + places[places_of(ids, live, start, tables.position_offset)].float()
    x = x if weight is None else normalised(x, tables.eps, False)
    out = scaled(x, weight, tables.bias, words.dtype, return_values, return_fp8)
    return Embedded(*out, *(torch.where(live, mark, counts[0]).int() for mark in (start, end)))


def pool(
    hidden: torch.Tensor,
    cu_seqlens: torch.Tensor,
    counts: torch.Tensor,
    mode: Pooled,
    *,
    ids: torch.Tensor | None = None,
    skipped: int | None = None,
    out: torch.Tensor | None = None,
    stamps: torch.Tensor | None = None,
) -> torch.Tensor:
    """hidden [tokens, width] → float32 [items, width]: each item's first or last row, mean or largest numbers."""
    marks, items = _marks(cu_seqlens, counts), len(cu_seqlens) - 1
    if mode in ("cls", "lasttoken"):
        row = marks[:-1] if mode == "cls" else marks[1:] - 1
        if mode == "lasttoken" and ids is not None:
            at = torch.arange(len(hidden), device=hidden.device)
            kept = torch.where((ids == skipped) | (at >= counts[0]), -1, at)
            first = torch.cat((marks[:-1], marks[-1:]))
            row = first.scatter_reduce(0, _item_of(marks, at), kept, "amax")[:-1]
        rows = hidden[row.clamp(0, len(hidden) - 1)].float()
    else:
        item = _item_of(marks, torch.arange(len(hidden), device=hidden.device))[:, None].expand_as(hidden)
        empty = hidden.new_full((items + 1, hidden.shape[1]), -torch.inf if mode == "max" else 0.0, dtype=torch.float32)
        if mode == "max":
            rows = empty.scatter_reduce(0, item, hidden.float(), "amax")[:-1]
        else:
            sums = empty.scatter_add(0, item, hidden.float())[:-1]
            rows = sums / marks.diff().clamp(min=1)[:, None]
    live = (torch.arange(items, device=hidden.device) < counts[1])[:, None]
    return rows if out is None else out.copy_(torch.where(live, rows, out))


def bag_means(
    table: torch.Tensor,
    mapping: torch.Tensor | None,
    weights: torch.Tensor | None,
    ids: torch.Tensor,
    cu_seqlens: torch.Tensor,
    counts: torch.Tensor,
    n_ids: int,
    skipped_id: int = -1,
    *,
    out: torch.Tensor | None = None,
    stamps: torch.Tensor | None = None,
) -> torch.Tensor:
    """table [rows, width] → float32 [items, width]: the weighted mean of the rows that each item's ids name."""
    marks, items = _marks(cu_seqlens, counts), len(cu_seqlens) - 1
    token = torch.arange(len(ids), device=ids.device)
    named = (token < counts[0]) & (ids >= 0) & (ids < n_ids) & (ids != skipped_id)
    known = torch.where(named, ids, 0)
    x = table[known if mapping is None else mapping[known]].float()
    if weights is not None:
        x = x * weights[known][:, None]
    x = torch.where(named[:, None], x, 0.0)
    item = _item_of(marks, token)
    sums = x.new_zeros(items + 1, x.shape[1]).index_add(0, item, x)[:-1]
    counted = x.new_zeros(items + 1).index_add(0, item, named.float())[:-1]
    rows = sums / counted.clamp(min=1)[:, None]
    live = (torch.arange(items, device=ids.device) < counts[1])[:, None]
    return rows if out is None else out.copy_(torch.where(live, rows, out))


def end_step(stamps: torch.Tensor) -> None:
    """Writes nothing: a step without a start or an end counts from its launch until it is seen to be done."""
