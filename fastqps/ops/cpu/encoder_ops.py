"""``EncoderOps`` on the CPU: the kernels of csrc/step/cpu/cpu_ops.h."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional as F

from fastqps import _core
from fastqps.kernels.layers import Attention, Tables
from fastqps.ops.cpu.linear import is_bf16
from fastqps.ops.cpu.ops import CpuOps
from fastqps.ops.cpu.strips import Strips
from fastqps.ops.interface import Reader, Rows
from fastqps.ops.rows import rows_for
from fastqps.ops.step import Step, address

_COLUMNS = 16  # of a head are padded to multiples of this


class CpuEmbedding:
    """The sum of each token's rows in tables of words and, where there are such, of positions and types; its norm."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def __call__(self, step: Step, reader: Reader | None) -> tuple[Rows, Step]:
        tables = self._tables
        out = tables.words.new_empty(len(step.ids), tables.words.shape[1])
        _core.embed(
            address(out),
            is_bf16(out),
            len(step.ids),
            ids=address(step.ids),
            positions=address(step.positions),
            types=address(step.types),
            words=address(tables.words),
            n_words=_rows(tables.words),
            places=address(tables.places),
            n_places=_rows(tables.places),
            kinds=address(tables.kinds),
            n_kinds=_rows(tables.kinds),
            weight=address(tables.weight),
            bias=address(tables.bias),
            width=out.shape[1],
            eps=tables.eps,
            threads=torch.get_num_threads(),
        )
        return rows_for(out, reader), step


def _last_rows(step: Step, skipped: int | None) -> torch.Tensor:
    """The last token of each item that is not ``skipped``; its first one where all are."""
    rows = step.starts[1:] - 1
    while skipped is not None and (again := (step.ids[rows] == skipped) & (rows > step.starts[:-1])).any():
        rows = rows - again.int()
    return rows


def _rows(table: torch.Tensor | None) -> int:
    return 0 if table is None else table.shape[0]


def _reach(bias: torch.Tensor | None, relative: torch.Tensor | None) -> int:
    if relative is not None:  # two numbers of a distance lie together in bf16
        return (relative.shape[3] // (2 if relative.dtype == torch.bfloat16 else 1) - 16) // 2
    return 0 if bias is None else bias.shape[1] // 2


class CpuEncoderOps(CpuOps):
    def embedding(self, tables: Tables) -> CpuEmbedding:
        """The step's ``positions`` have the offset in them."""
        return CpuEmbedding(tables.kept(self.keep, self.dtype))

    def attend(self, qkv: torch.Tensor, step: Step, attention: Attention) -> torch.Tensor:
        a, size = attention, attention.size(qkv)
        out = qkv.new_empty(qkv.shape[0], a.heads * size)
        _core.attend(
            address(out),
            address(qkv),
            is_bf16(qkv),
            a.heads,
            size,
            starts=address(step.starts),
            n_items=len(step.starts) - 1,
            positions=address(step.positions),
            threads=torch.get_num_threads(),
            rotary=address(a.rotary),
            n_rotary=_rows(a.rotary),
            window=a.window,
            bias=address(a.bias),
            relative=address(a.relative),
            reach=_reach(a.bias, a.relative),
            kv_heads=a.kv_heads,
            causal=a.causal,
            q_norm=address(a.q_norm),
            k_norm=address(a.k_norm),
            eps=a.eps,
        )
        return out

    def relative(self, tables: torch.Tensor) -> torch.Tensor:
        """The tables in the layout of step::Attention in csrc/step/cpu/cpu_ops.h."""
        padded = F.pad(tables, (0, 0, 0, -tables.shape[2] % _COLUMNS)).to(self.dtype)
        if self.dtype == torch.bfloat16:
            padded = padded.view(*padded.shape[:2], -1, 2, padded.shape[3]).transpose(
                3, 4
            )  # two columns of a distance lie together
        return self.keep(padded.contiguous().flatten(3))

    def projection(self, weight: torch.Tensor, bias: torch.Tensor | None) -> Callable[[torch.Tensor], torch.Tensor]:
        strips = Strips(weight.float().numpy(), None if bias is None else bias.float().numpy())
        return lambda x: torch.from_numpy(strips(x.numpy(), torch.get_num_threads()))

    def pool(self, hidden: torch.Tensor, step: Step, mode: str, last: bool, skipped: int | None = None) -> torch.Tensor:
        if mode == "cls":
            return hidden[step.starts[:-1]].float()
        if mode == "lasttoken":
            return hidden[_last_rows(step, skipped)].float()
        items, width = len(step.starts) - 1, hidden.shape[1]
        out = torch.empty(items, width, dtype=torch.float32)
        starts, threads = address(step.starts), torch.get_num_threads()
        pooled = _core.maxima if mode == "max" else _core.means
        pooled(address(out), address(hidden), is_bf16(hidden), width, starts, items, threads)
        return out

    def answer(self, rows: torch.Tensor, step: Step) -> torch.Tensor:
        return rows
