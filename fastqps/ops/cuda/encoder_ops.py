"""``EncoderOps`` on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch.nn import functional as F

from fastqps._core import HEADER_WORDS
from fastqps.kernels.layers import Attention, Tables
from fastqps.kernels.results import Pooled
from fastqps.ops.cuda.operations import Operations
from fastqps.ops.cuda.ops import CudaOps, reads_fp8
from fastqps.ops.interface import Reader, Rows
from fastqps.ops.parameters import Parameters
from fastqps.ops.precision import Precision
from fastqps.ops.rows import HEAD_FUNCTIONS
from fastqps.ops.step import Step

_ROWS = 128  # a multiple of what programs of all kernels take at once


class CudaEmbedding:
    def __init__(self, tables: Tables, kernels: Operations) -> None:
        self._tables, self._embed_norm = tables, kernels.embed_norm

    def __call__(self, step: Step, reader: Reader | None) -> tuple[Rows, Step]:
        where = step.ids, step.types, step.starts, counts_of(step)
        embedded = self._embed_norm(*where, self._tables, return_fp8=reads_fp8(reader), stamps=step.stamps)
        return Rows(embedded.values, embedded.fp8, embedded.scale), replace(
            step, bounds=(embedded.row_start, embedded.row_end)
        )


class CudaEncoderOps(CudaOps):
    """``longest``: the most tokens of an item; 0: a step's."""

    def __init__(
        self,
        dtype: torch.dtype,
        where: Parameters | torch.device | str,
        precision: Precision | None = None,
        kernels: Operations | None = None,
        longest: int = 0,
    ) -> None:
        super().__init__(dtype, where, precision, kernels)
        self._longest = longest

    def embedding(self, tables: Tables) -> CudaEmbedding:
        return CudaEmbedding(tables.kept(self.keep, self.dtype), self._kernels)

    def attend(self, qkv: torch.Tensor, step: Step, attention: Attention) -> torch.Tensor:
        assert step.bounds, "the embedding hands on a step with bounds"
        positions = None if attention.opening is None else step.positions
        return self._kernels.tile_attention(qkv, *step.bounds, attention, longest=self._longest, positions=positions)

    def step_of(self, ids: Sequence[int]) -> Step:
        n = len(ids)
        tokens = -(-n // _ROWS) * _ROWS
        with self.device:
            padded = F.pad(torch.tensor(ids, dtype=torch.int32), (0, tokens - n))
            starts, counts = torch.tensor([0, n], dtype=torch.int32), torch.zeros(HEADER_WORDS, dtype=torch.int32)
            counts[:3] = torch.tensor([n, 1, n], dtype=torch.int32)
        return Step(padded, padded[:0], torch.zeros_like(padded), starts, counts)

    def last_rows(self, x: torch.Tensor, step: Step) -> torch.Tensor:
        return self._kernels.last_rows(x, step.starts, counts_of(step))

    def relative(self, tables: torch.Tensor) -> torch.Tensor:
        return self.keep(tables.to(self.dtype))

    def projection(
        self, weight: torch.Tensor, bias: torch.Tensor | None, activation: str = "identity"
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        product = partial(F.linear, weight=self.keep(weight), bias=self.keep_optional(bias, torch.float32))
        function = HEAD_FUNCTIONS[activation]
        return lambda x: function(product(x))

    def pool(self, hidden: torch.Tensor, step: Step, mode: str, last: bool, skipped: int | None = None) -> torch.Tensor:
        if mode == "tokens":
            return self.answer(hidden.float(), step) if last else hidden.float()
        return self._kernels.pool(
            hidden,
            step.starts,
            counts_of(step),
            cast(Pooled, mode),
            ids=None if skipped is None else step.ids,
            skipped=skipped,
            out=step.output if last else None,
            stamps=step.stamps if last else None,
        )

    def answer(self, rows: torch.Tensor, step: Step) -> torch.Tensor:
        if step.output is not None:
            step.output.copy_(rows)
        if step.stamps is not None:
            self._kernels.end_step(step.stamps)
        return rows

    def answer_by(
        self,
        what: str,
        compute: Callable[..., torch.Tensor],
        width: int,
        rows: Sequence[torch.Tensor],
        step: Step,
    ) -> torch.Tensor:
        del what, width
        return self.answer(compute(*rows), step)


def counts_of(step: Step) -> torch.Tensor:
    assert step.counts is not None, "a GPU's step has its counts"
    return step.counts
