"""``EncoderOps`` on the CPU: the kernels of csrc/step/cpu/cpu_ops.h."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional as F

from fastqps.kernels.layers import Attention, Tables
from fastqps.ops.cpu.ops import CpuOps
from fastqps.ops.cpu.rows import is_bf16, rows_for
from fastqps.ops.cpu.strips import Strips
from fastqps.ops.cpu.tape import Tape
from fastqps.ops.interface import Reader, Rows
from fastqps.ops.step import Step, address

_COLUMNS = 16  # of a head are padded to multiples of this


class CpuEmbedding:
    """The sum of each token's rows in tables of words and, where there are such, of positions and types; its norm."""

    def __init__(self, tables: Tables, tape: Tape) -> None:
        self._tables, self._tape = tables, tape

    def __call__(self, step: Step, reader: Reader | None) -> tuple[Rows, Step]:
        tables, tape, n_tokens = self._tables, self._tape, self._tape.tokens(step.ids)
        out = tape.empty(n_tokens, len(step.ids), tables.words.shape[1], tables.words.dtype)
        tape.program.embed(
            address(out),
            is_bf16(out),
            n_tokens,
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
        )
        return rows_for(tape, out, reader), step


def _rows(table: torch.Tensor | None) -> int:
    return 0 if table is None else table.shape[0]


def _reach(bias: torch.Tensor | None, relative: torch.Tensor | None) -> int:
    if relative is not None:  # two numbers of a distance lie together in bf16
        return (relative.shape[3] // (2 if relative.dtype == torch.bfloat16 else 1) - 16) // 2
    return 0 if bias is None else bias.shape[1] // 2


class CpuEncoderOps(CpuOps):
    def embedding(self, tables: Tables) -> CpuEmbedding:
        """The step's ``positions`` have the offset in them."""
        return CpuEmbedding(tables.kept(self.keep, self.dtype), self.tape)

    def attend(self, qkv: torch.Tensor, step: Step, attention: Attention) -> torch.Tensor:
        a, size = attention, attention.size(qkv)
        out = self.tape.beside(qkv, a.heads * size)
        self.tape.program.attend(
            address(out),
            address(qkv),
            is_bf16(qkv),
            a.heads,
            size,
            starts=address(step.starts),
            n_items=self.tape.items(step.starts),
            positions=address(step.positions),
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
            opening=address(a.opening),
            n_opening=0 if a.opening is None else a.opening.shape[2],
        )
        return out

    def step_of(self, ids: Sequence[int]) -> Step:
        n = len(ids)
        positions, starts = torch.arange(n, dtype=torch.int32), torch.tensor([0, n], dtype=torch.int32)
        return Step(torch.tensor(ids, dtype=torch.int32), positions, torch.zeros_like(positions), starts)

    def last_rows(self, x: torch.Tensor, step: Step) -> torch.Tensor:
        return self.pick(x, "lasttoken", step.starts)

    def relative(self, tables: torch.Tensor) -> torch.Tensor:
        """The tables in the layout of step::Attention in csrc/step/cpu/cpu_ops.h."""
        padded = F.pad(tables, (0, 0, 0, -tables.shape[2] % _COLUMNS)).to(self.dtype)
        if self.dtype == torch.bfloat16:
            padded = padded.view(*padded.shape[:2], -1, 2, padded.shape[3]).transpose(
                3, 4
            )  # two columns of a distance lie together
        return self.keep(padded.contiguous().flatten(3))

    def projection(
        self, weight: torch.Tensor, bias: torch.Tensor | None, activation: str = "identity"
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        strips = Strips(weight.float().numpy(), None if bias is None else bias.float().numpy())

        def product(x: torch.Tensor) -> torch.Tensor:
            tape = self.tape
            out = tape.beside(x, strips.outputs)
            strips.add_to(tape.program, address(out), address(x), tape.count(x), activation)
            return out

        return product

    def pool(self, hidden: torch.Tensor, step: Step, mode: str, last: bool, skipped: int | None = None) -> torch.Tensor:
        tape, width, by_token = self.tape, hidden.shape[1], mode == "tokens"
        if by_token and not last and not is_bf16(hidden):
            return hidden
        n_items = tape.items(step.starts)
        n_rows, rows = (tape.count(hidden), len(hidden)) if by_token else (n_items, len(step.starts) - 1)
        answers = step.output if last else None
        out = tape.empty(n_rows, rows, width, torch.float32) if answers is None else answers
        source = address(out), answers is not None, address(hidden), is_bf16(hidden), width, address(step.starts)
        if mode in ("mean", "max"):
            tape.program.pool(*source, n_items, mode)
        else:
            last_id = -1 if skipped is None else skipped
            tape.program.pick_rows(*source, n_rows, mode, address(step.ids), last_id)
        return out

    def answer(self, rows: torch.Tensor, step: Step) -> torch.Tensor:
        if step.output is None:
            return rows
        self.tape.program.pick_rows(
            address(step.output), True, address(rows), is_bf16(rows), rows.shape[1], 0, self.tape.count(rows), "tokens"
        )
        return step.output

    def answer_by(
        self,
        what: str,
        compute: Callable[..., torch.Tensor],
        width: int,
        rows: Sequence[torch.Tensor],
        step: Step,
    ) -> torch.Tensor:
        out = self.tape.beside(rows[0], width)
        self.tape.call_torch(what, lambda *x: [compute(*x)], [out], *rows)
        return self.answer(out, step)
