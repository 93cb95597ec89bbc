"""Runs an encoder over the packed tokens of one step."""

from __future__ import annotations

import torch

from fastqps._core import ITEMS
from fastqps.architectures.packed import PackedModel
from fastqps.ops.cpu.encoder_ops import CpuEncoderOps
from fastqps.ops.cpu.tape import Arena
from fastqps.ops.step import Step, address
from fastqps.runners.buffers import StepBuffers
from fastqps.runners.first_steps import first_steps

# A step is computed in pieces of whole items with about so many tokens for each thread: their activations stay in the
# core's cache. Larger pieces lose 4 to 8 %, smaller ones pay more for each call.
_PIECE_TOKENS = 640


class EncoderRunner:
    """Static buffers on the CPU, and the program of a loaded model over them.

    ``arena``: the memory of runners whose steps never run at the same time.
    """

    instant = False

    def __init__(self, model: PackedModel, max_items: int, max_tokens: int, arena: Arena | None = None) -> None:
        model.keep_opening()
        self.card = model.card
        self._model, self._arena = model, arena or Arena()
        self._buffers = b = StepBuffers.allocate(model.card, max_items, max_tokens)
        self._starts = b.cu_seqlens.ctypes.data
        self._piece_starts = torch.empty(max_items + 1, dtype=torch.int32)  # count from the piece's first token
        arrays = b.input_ids, b.position_ids, b.token_type_ids, b.output
        ids, positions, types, output = map(torch.from_numpy, arrays)
        assert isinstance(model.ops, CpuEncoderOps)
        with torch.inference_mode(), model.ops.tape.record(self._arena) as self._program:
            self._program.begin_at_zero(address(self._piece_starts), self._starts, ITEMS)
            model(Step(ids, positions, types, self._piece_starts, output=output))

    def buffers(self) -> StepBuffers:
        return self._buffers

    def run(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        """Computes the rows of ``n_items`` items with ``n_tokens`` tokens in all."""
        del n_tokens, n_new
        threads = torch.get_num_threads()
        self._program.run_pieces(self._starts, n_items, _PIECE_TOKENS * threads, threads)

    def for_another_step(self) -> EncoderRunner:
        return EncoderRunner(self._model, self._buffers.max_items, self._buffers.max_tokens, self._arena)

    def for_another_lane(self) -> EncoderRunner:
        return EncoderRunner(self._model, self._buffers.max_items, self._buffers.max_tokens)

    def warm_up(self) -> None:
        """Runs a step of one short item and a full one; ``ModelError`` where the answers are no numbers."""
        first_steps(self.card, self._buffers, self.run)
