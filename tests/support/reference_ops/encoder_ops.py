"""``EncoderOps`` in plain torch, on any device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn import functional as F

from fastqps.kernels.torch_ops.items import places_of
from fastqps.ops.interface import HeadNorms, Reader, Rows
from fastqps.ops.step import Step
from reference_ops.ops import ReferenceNorm, ReferenceOps, rows_for, turned

_QUERIES = 512  # rows whose scores are held at once


@dataclass(frozen=True)
class Items:
    """Which item each row of a step belongs to, all int64."""

    starts: torch.Tensor  # [items + 1]; behind the step's items, its tokens
    item: torch.Tensor  # [tokens]; of padding, as many as there can be
    position: torch.Tensor  # [tokens]: from 0, in the item; 0 of padding
    used: torch.Tensor  # bool [tokens]: it is no padding

    @classmethod
    def of(cls, step: Step) -> Items:
        counts, device = step.counts, step.starts.device
        if counts is None:
            counts = torch.tensor([len(step.ids), len(step.starts) - 1], device=device)
        there = torch.arange(len(step.starts), device=device) <= counts[1]
        starts = torch.where(there, step.starts, counts[0]).long()
        row = torch.arange(len(step.ids), device=device)
        used = row < counts[0]
        item = torch.searchsorted(starts[1:].contiguous(), row, right=True)
        return cls(starts, item, torch.where(used, row - starts[item], 0), used)


class ReferenceEmbedding:
    def __init__(
        self,
        tables: tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None],
        norm: ReferenceNorm | None,
        position_offset: int,
    ) -> None:
        self._words, self._places, self._kinds = tables
        self._norm, self._offset = norm, position_offset

    def __call__(self, step: Step, into: Reader | None) -> tuple[Rows, Step]:
        items = Items.of(step)
        out = self._words[torch.where(items.used, step.ids, 0)].float()
        if self._places is not None:
            start = torch.arange(len(step.ids), device=step.ids.device) - items.position
            out = out + self._places[places_of(step.ids, items.used, start, self._offset)].float()
        if self._kinds is not None:
            out = out + self._kinds[torch.where(items.used, step.types, 0)].float()
        if self._norm is not None:
            out = self._norm(out, None).tensor
        return rows_for(out.to(self._words.dtype), into), step


class ReferenceEncoderOps(ReferenceOps):
    def embedding(
        self,
        words: torch.Tensor,
        places: torch.Tensor | None,
        kinds: torch.Tensor | None,
        norm: tuple[torch.Tensor, torch.Tensor | None, float] | None,
        position_offset: int,
    ) -> ReferenceEmbedding:
        places, kinds = (None if table is None else self.keep(table.to(self.dtype)) for table in (places, kinds))
        tables = self.keep(words.to(self.dtype)), places, kinds
        return ReferenceEmbedding(tables, self.norm(*norm, "layer") if norm else None, position_offset)

    def attend(
        self,
        qkv: torch.Tensor,
        step: Step,
        heads: int,
        window: int = 0,
        rotary: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        relative: torch.Tensor | None = None,
        *,
        kv_heads: int | None = None,
        causal: bool = False,
        norms: HeadNorms | None = None,
    ) -> torch.Tensor:
        items, tokens = Items.of(step), len(qkv)
        kv_heads = kv_heads or heads
        rows = qkv.float().view(tokens, heads + 2 * kv_heads, -1).transpose(0, 1)  # [heads, tokens, size]
        q, k, v = rows.split_with_sizes([heads, kv_heads, kv_heads])
        if norms:
            q, k = (
                ReferenceNorm(weight, None, norms.eps, "rms")(x, None).tensor
                for x, weight in ((q, norms.query), (k, norms.key))
            )
        k, v = (x.repeat_interleave(heads // kv_heads, 0) for x in (k, v))
        v = torch.where(items.used[:, None], v, 0.0)  # padding may be no numbers, and 0 times those is none either
        if rotary is not None:
            q, k = turned(q, rotary[items.position]), turned(k, rotary[items.position])
        outputs = []
        for first in range(0, tokens, _QUERIES):
            rows = slice(first, first + _QUERIES)
            seen = items.item[rows, None] == items.item
            if window:
                seen = seen & ((items.position[rows, None] - items.position).abs() <= window)
            if causal:
                seen = seen & (items.position[rows, None] >= items.position)
            scores = q[:, rows] @ k.transpose(1, 2)
            distance = torch.where(seen, items.position[rows, None] - items.position, 0)
            if relative is not None:
                keys, queries = relative.float()[..., (relative.shape[3] - 16) // 2 + distance]
                scores += (q[:, rows].transpose(1, 2)[..., None] * keys).sum(1)
                scores += (k.transpose(1, 2)[:, :, None] * queries).sum(1)
            scores = scores / q.shape[2] ** 0.5
            if bias is not None:
                scores = scores + bias[:, bias.shape[1] // 2 + distance]
            outputs.append(torch.where(seen, scores, -torch.inf).softmax(-1) @ v)
        return torch.cat(outputs, 1).transpose(0, 1).reshape(tokens, -1).to(qkv.dtype)

    def relative(self, tables: torch.Tensor) -> torch.Tensor:
        return self.keep(tables.to(self.dtype))

    def projection(self, weight: torch.Tensor, bias: torch.Tensor | None) -> Callable[[torch.Tensor], torch.Tensor]:
        return partial(F.linear, weight=self.keep(weight), bias=None if bias is None else self.keep(bias))

    def pool(self, hidden: torch.Tensor, step: Step, mode: str, last: bool, skipped: int | None = None) -> torch.Tensor:
        items, count = Items.of(step), len(step.starts) - 1
        if mode in ("cls", "lasttoken"):
            row = items.starts[:-1] if mode == "cls" else items.starts[1:] - 1
            if mode == "lasttoken" and skipped is not None:
                at = torch.arange(len(hidden), device=hidden.device)
                kept = torch.where(step.ids == skipped, -1, at)
                first = torch.cat((items.starts[:-1], items.starts[-1:]))
                row = first.scatter_reduce(0, items.item, kept, "amax")[:-1]
            rows = hidden[row.clamp(0, len(hidden) - 1)].float()
        else:
            rows = hidden.new_full((count + 1, hidden.shape[1]), -torch.inf, dtype=torch.float32)
            item = items.item[:, None].expand_as(hidden)
            wide = hidden.float()
            if mode == "max":
                rows = rows.scatter_reduce(0, item, wide, "amax")[:-1]
            else:
                sums = torch.zeros_like(rows).scatter_add(0, item, wide)[:-1]
                rows = sums / items.starts.diff().clamp(min=1)[:, None]
        return self.answer(rows, step) if last else rows

    def answer(self, rows: torch.Tensor, step: Step) -> torch.Tensor:
        if step.output is not None:
            step.output.copy_(rows)
        return rows
