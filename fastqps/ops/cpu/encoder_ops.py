"""``EncoderOps`` on the CPU: the kernels of csrc/step/cpu/cpu_ops.h."""

from __future__ import annotations

import torch

from fastqps import _core
from fastqps.ops.cpu.ops import CpuOps, is_bf16
from fastqps.ops.interface import Reader, Rows
from fastqps.ops.rows import rows_for
from fastqps.ops.step import Step, address


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
            threads=torch.get_num_threads(),
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
        self,
        qkv: torch.Tensor,
        step: Step,
        heads: int,
        window: int = 0,
        rotary: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        width = qkv.shape[1] // 3
        out = qkv.new_empty(qkv.shape[0], width)
        _core.attend(
            address(out),
            address(qkv),
            is_bf16(qkv),
            heads,
            width // heads,
            starts=address(step.starts),
            n_items=len(step.starts) - 1,
            positions=address(step.positions),
            threads=torch.get_num_threads(),
            rotary=address(rotary),
            n_rotary=0 if rotary is None else len(rotary),
            window=window,
            bias=address(bias),
            reach=0 if bias is None else bias.shape[1] // 2,
        )
        return out

    def pool(self, hidden: torch.Tensor, step: Step, mode: str, last: bool) -> torch.Tensor:
        if mode == "cls":
            return hidden[step.starts[:-1]].float()
        if mode == "max":
            return torch.segment_reduce(hidden.float(), "max", lengths=step.starts.diff().long())
        items, width = len(step.starts) - 1, hidden.shape[1]
        out = torch.empty(items, width, dtype=torch.float32)
        starts, threads = address(step.starts), torch.get_num_threads()
        _core.means(address(out), address(hidden), is_bf16(hidden), width, starts, items, threads)
        return out

    def answer(self, rows: torch.Tensor, step: Step) -> torch.Tensor:
        return rows
