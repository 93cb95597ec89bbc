"""Rows on the CPU in the form that their reader takes."""

from __future__ import annotations

import torch

from fastqps.kernels.results import Activation
from fastqps.kernels.torch_ops.rows import quantise_rows
from fastqps.ops.cpu.tape import Tape
from fastqps.ops.fp8 import E4M3
from fastqps.ops.interface import Reader, Rows
from fastqps.ops.step import address


def rows_for(tape: Tape, x: torch.Tensor, reader: Reader | None) -> Rows:
    """x [rows, width] with what ``reader`` reads of it."""
    if reader is None or not reader.fp8:
        return Rows(x)
    fp8, scale = tape.beside(x, x.shape[1], E4M3), tape.beside(x, 1, torch.float32)
    tape.call_torch("quantised rows", quantise_rows, (fp8, scale), x)
    return Rows(x, fp8, scale)


def gate_halves(tape: Tape, both: torch.Tensor, kind: Activation) -> torch.Tensor:
    """The activation of the first half of each row, times the second half."""
    inner = both.shape[1] // 2
    out = tape.beside(both, inner)
    tape.program.gate(address(out), address(both), is_bf16(both), tape.count(both), inner, kind)
    return out


def is_bf16(x: torch.Tensor) -> bool:
    return x.dtype == torch.bfloat16
