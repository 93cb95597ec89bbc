"""Runners as a device with captured steps has them: tensors of a fixed size, and a header that says how much is used.

What lies behind is garbage, and the device derives an encoder's positions itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fastqps._core import HEADER_COPIES, HEADER_TARGETS, Program
from fastqps.architectures.packed import PackedModel
from fastqps.ops.cuda.decode_ops import CudaDecodeOps
from fastqps.ops.cuda.encoder_ops import CudaEncoderOps
from fastqps.ops.cuda.operations import torch_operations
from fastqps.ops.decode_step import DecodeStep
from fastqps.ops.parameters import Parameters
from fastqps.ops.precision import Precision
from fastqps.ops.step import Step
from fastqps.runners.buffers import StepBuffers
from fastqps.runners.decoder import DecoderRunner

GARBAGE = (-(1 << 31), -9, (1 << 31) - 1)


def spoil(array: Any) -> None:
    """Overwrites int32 numbers with what would be out of every range."""
    array.reshape(-1)[:] = np.resize(np.array(GARBAGE, np.int32), array.size)


class TorchEncoderOps(CudaEncoderOps):
    """Those of a GPU on this CPU, with plain torch in the place of the kernels."""

    def __init__(self, dtype: torch.dtype, where: Parameters | str = "cpu", precision: Precision | None = None) -> None:
        super().__init__(dtype, where, precision, torch_operations())


class TorchDecodeOps(CudaDecodeOps):
    """As ``TorchEncoderOps``."""

    def __init__(self, dtype: torch.dtype, where: Parameters | str = "cpu", precision: Precision | None = None) -> None:
        super().__init__(dtype, where, precision, torch_operations())


class PaddedEncoder:
    """The model over steps of ``max_items`` and ``max_tokens``."""

    def __init__(self, model: PackedModel, max_items: int, max_tokens: int) -> None:
        self.card, self._model = model.card, model
        self._b = StepBuffers.allocate(model.card, max_items, max_tokens)

    def buffers(self) -> StepBuffers:
        return self._b

    def run(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        b = self._b
        for array in (b.input_ids[n_tokens:], b.token_type_ids[n_tokens:], b.cu_seqlens[n_items + 1 :], b.position_ids):
            spoil(array)
        b.output.fill(np.nan)
        ids, positions, types, starts = map(
            torch.from_numpy, (b.input_ids, b.position_ids, b.token_type_ids, b.cu_seqlens)
        )
        counts = torch.tensor([n_tokens, n_items, n_new, *[-9] * 13], dtype=torch.int32)
        stamps = torch.zeros(2, dtype=torch.int64)
        step = Step(ids, positions, types, starts, counts, output=torch.from_numpy(b.output), stamps=stamps)
        self._model(step)


class PaddedDecoder(DecoderRunner):
    def _record(self) -> Program:
        return Program()  # each step runs the model itself

    def run(self, n_runs: int, n_tokens: int, n_admitted: int, /) -> None:
        b = self._buffers
        for array in (b.input_ids[n_tokens:], b.positions[n_tokens:], b.kv_slots[n_tokens:], b.admitted[n_admitted:]):
            spoil(array)
        spoil(b.starts[n_runs + 1 :])
        spoil(b.made[n_runs:])
        spoil(b.targets[n_runs if b.header[HEADER_TARGETS] else 0 :])
        counts = torch.tensor([n_tokens, n_runs, n_admitted, *[-9] * 13], dtype=torch.int32)
        counts[HEADER_TARGETS] = int(b.header[HEADER_TARGETS])
        *runs, top = self._runs
        step = DecodeStep(
            *self._rows,
            self._starts,
            *runs,
            self._admitted,
            counts,
            masks=self._masks,
            targets=self._targets,
            top=top,
            stamps=torch.zeros(2, dtype=torch.int64),
        )
        with torch.inference_mode():
            self._copy_slots()
            self._model(step, self._state)

    def _copy_slots(self) -> None:
        """As a GPU's launch, in front of the model."""
        state, b = self._state, self._buffers
        for begin, to, n in b.copies[: b.header[HEADER_COPIES]].tolist():
            state.cache[:, :, to, :, :n] = state.cache[:, :, begin, :, :n]
            history = state.history[:, state.prefix_len :]
            history[to, :n] = history[begin, :n]

    def for_another_step(self) -> PaddedDecoder:
        return PaddedDecoder(self.card, self._model, self._state, self._buffers.max_tokens)
