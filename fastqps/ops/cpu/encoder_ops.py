"""``EncoderOps`` on the CPU: the kernels of csrc/step/cpu/cpu_ops.h."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from fastqps import _core
from fastqps.ops.cpu.ops import CpuOps, is_bf16
from fastqps.ops.interface import Reader, Rows
from fastqps.ops.rows import rows_for
from fastqps.ops.step import Step, address

_COLUMNS = 16  # of a head are padded to multiples of this


class CpuEmbedding:
    """The normalised sum of each token's rows in tables of words and, where there are such, of positions and types."""

    def __init__(
        self,
        tables: tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None],
        norm: tuple[torch.Tensor | None, torch.Tensor | None, float],
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
            width=self._words.shape[1],
            eps=self._eps,
            threads=torch.get_num_threads(),
        )
        return rows_for(out, into), step


def _rows(table: torch.Tensor | None) -> int:
    return 0 if table is None else table.shape[0]


def _reach(bias: torch.Tensor | None, relative: torch.Tensor | None) -> int:
    assert bias is None or relative is None, "one reach for both"
    if relative is not None:  # two numbers of a distance lie together in bf16
        return (relative.shape[3] // (2 if relative.dtype == torch.bfloat16 else 1) - 16) // 2
    return 0 if bias is None else bias.shape[1] // 2


class CpuEncoderOps(CpuOps):
    def embedding(
        self,
        words: torch.Tensor,
        places: torch.Tensor | None,
        kinds: torch.Tensor | None,
        norm: tuple[torch.Tensor, torch.Tensor | None, float] | None,
        position_offset: int,
    ) -> CpuEmbedding:
        """The step's ``positions`` have the offset in them."""
        weight, bias, eps = norm or (None, None, 0.0)
        places, kinds = (None if table is None else self.keep(table.to(self.dtype)) for table in (places, kinds))
        tables = self.keep(words.to(self.dtype)), places, kinds
        weight, bias = (None if table is None else self.keep(table) for table in (weight, bias))
        return CpuEmbedding(tables, (weight, bias, eps))

    def attend(
        self,
        qkv: torch.Tensor,
        step: Step,
        heads: int,
        window: int = 0,
        rotary: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        relative: torch.Tensor | None = None,
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
            relative=address(relative),
            reach=_reach(bias, relative),
        )
        return out

    def relative(self, tables: torch.Tensor) -> torch.Tensor:
        """As step::Attention in csrc/step/cpu/cpu_ops.h has them."""
        padded = F.pad(tables, (0, 0, 0, -tables.shape[2] % _COLUMNS)).to(self.dtype)
        if self.dtype == torch.bfloat16:
            padded = padded.view(*padded.shape[:2], -1, 2, padded.shape[3]).transpose(
                3, 4
            )  # two columns of a distance lie together
        return self.keep(padded.contiguous().flatten(3))

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
