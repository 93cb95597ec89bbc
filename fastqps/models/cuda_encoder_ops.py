"""``EncoderOps`` on a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, cast

import torch

from fastqps.kernels.embed_norm import embed_norm
from fastqps.kernels.pool import pool
from fastqps.kernels.stamps import end_step
from fastqps.kernels.tile_attention import tile_attention
from fastqps.models.cuda_ops import CudaOps, reads_fp8
from fastqps.models.ops import Reader, Rows
from fastqps.models.step import Step


class CudaEmbedding:
    def __init__(
        self,
        tables: tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None],
        norm: tuple[torch.Tensor, torch.Tensor | None, float],
        position_offset: int,
    ) -> None:
        self._how = *tables, *norm, position_offset

    def __call__(self, step: Step, into: Reader | None) -> tuple[Rows, Step]:
        found = embed_norm(
            step.ids,
            step.types,
            step.starts,
            counts_of(step),
            *self._how,
            want_fp8=reads_fp8(into),
            stamps=step.stamps,
        )
        return Rows(found.values, found.fp8, found.scale), replace(step, bounds=(found.row_start, found.row_end))


class CudaEncoderOps(CudaOps):
    def embedding(
        self,
        words: torch.Tensor,
        places: torch.Tensor | None,
        kinds: torch.Tensor | None,
        norm: tuple[torch.Tensor, torch.Tensor | None, float],
        position_offset: int,
    ) -> CudaEmbedding:
        keep, (weight, bias, eps) = self.keep_optional, norm
        tables = self.keep(words.to(self.dtype)), keep(places, self.dtype), keep(kinds, self.dtype)
        return CudaEmbedding(tables, (self.keep(weight), keep(bias, torch.float32), eps), position_offset)

    def attend(
        self, qkv: torch.Tensor, step: Step, heads: int, window: int = 0, rotary: torch.Tensor | None = None
    ) -> torch.Tensor:
        assert step.bounds, "the embedding hands on a step with bounds"
        return tile_attention(qkv, *step.bounds, heads, window=window, rotary=rotary)

    def pool(self, hidden: torch.Tensor, step: Step, mode: str, last: bool) -> torch.Tensor:
        target = {"out": step.output, "stamps": step.stamps} if last else {}
        return pool(hidden, step.starts, counts_of(step), cast(Literal["cls", "mean", "max"], mode), **target)

    def answer(self, rows: torch.Tensor, step: Step) -> torch.Tensor:
        if step.output is not None:
            step.output.copy_(rows)
        if step.stamps is not None:
            end_step(step.stamps)
        return rows


def counts_of(step: Step) -> torch.Tensor:
    assert step.counts is not None, "a GPU's step has its counts"
    return step.counts
