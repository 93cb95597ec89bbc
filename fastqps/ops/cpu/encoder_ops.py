"""``EncoderOps`` on the CPU: the kernels of csrc/step/cpu/cpu_ops.h, attention spread over threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import torch

from fastqps import _core
from fastqps.ops.cpu.ops import CpuOps, is_bf16, threads
from fastqps.ops.interface import Reader, Rows
from fastqps.ops.rows import rows_for
from fastqps.ops.step import Step, address

_TOKENS_PER_THREAD_MIN = 256  # below that, handing work to a thread costs more than it saves


class CpuEmbedding:
    """The normalised sum of each token's rows in tables of words and, where there are such, of positions and types."""

    def __init__(
        self,
        tables: tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None],
        norm: tuple[torch.Tensor, torch.Tensor | None, float],
    ) -> None:
        self._words, self._places, self._kinds = tables
        self._weight, self._bias, self._eps = norm

    def __call__(self, step: Step, into: Reader | None) -> tuple[Rows, Step]:
        out = self._words.new_empty(len(step.ids), self._words.shape[1])
        _core.embed(
            address(out),
            is_bf16(out),
            len(step.ids),
            ids=address(step.ids),
            positions=address(step.positions),
            types=address(step.types),
            words=address(self._words),
            n_words=_rows(self._words),
            places=address(self._places),
            n_places=_rows(self._places),
            kinds=address(self._kinds),
            n_kinds=_rows(self._kinds),
            weight=address(self._weight),
            bias=address(self._bias),
            width=len(self._weight),
            eps=self._eps,
        )
        return rows_for(out, into), step


def _rows(table: torch.Tensor | None) -> int:
    return 0 if table is None else table.shape[0]


class CpuEncoderOps(CpuOps):
    def embedding(
        self,
        words: torch.Tensor,
        places: torch.Tensor | None,
        kinds: torch.Tensor | None,
        norm: tuple[torch.Tensor, torch.Tensor | None, float],
        position_offset: int,
    ) -> CpuEmbedding:
        """The step's ``positions`` have the offset in them."""
        keep, (weight, bias, eps) = self.keep, norm
        places, kinds = (None if table is None else keep(table.to(self.dtype)) for table in (places, kinds))
        tables = keep(words.to(self.dtype)), places, kinds
        return CpuEmbedding(tables, (keep(weight), None if bias is None else keep(bias), eps))

    def attend(
        self, qkv: torch.Tensor, step: Step, heads: int, window: int = 0, rotary: torch.Tensor | None = None
    ) -> torch.Tensor:
        tokens, width = qkv.shape[0], qkv.shape[1] // 3
        out = qkv.new_empty(tokens, width)
        run = partial(
            _core.attend,
            out.data_ptr(),
            qkv.data_ptr(),
            is_bf16(qkv),
            heads,
            width // heads,
            positions=step.positions.data_ptr(),
            rotary=address(rotary),
            window=window,
        )
        starts, items = step.starts.data_ptr(), len(step.starts) - 1
        count = min(torch.get_num_threads(), items, tokens // _TOKENS_PER_THREAD_MIN)
        if count < 2:
            run(starts=starts, n_items=items)
            return out
        jobs = [threads(count).submit(run, starts=starts + 4 * first, n_items=n) for first, n in _shares(step, count)]
        for job in jobs:
            job.result()
        return out

    def pool(self, hidden: torch.Tensor, step: Step, mode: str, last: bool) -> torch.Tensor:
        if mode == "cls":
            return hidden[step.starts[:-1]].float()
        if mode == "max":
            return torch.segment_reduce(hidden.float(), "max", lengths=step.starts.diff().long())
        items, width = len(step.starts) - 1, hidden.shape[1]
        out = torch.empty(items, width, dtype=torch.float32)
        _core.means(address(out), address(hidden), is_bf16(hidden), width, address(step.starts), items)
        return out

    def answer(self, rows: torch.Tensor, step: Step) -> torch.Tensor:
        return rows


def _shares(step: Step, count: int) -> Iterator[tuple[int, int]]:
    """(first item, items) for each thread, with about as many tokens each."""
    marks = torch.arange(1, count) * (len(step.ids) / count)
    cuts = [0, *torch.searchsorted(step.starts, marks).tolist(), len(step.starts) - 1]
    for first, last in pairwise(cuts):
        if last > first:
            yield first, last - first
