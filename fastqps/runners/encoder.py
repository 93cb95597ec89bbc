"""Runs an encoder over the packed tokens of one step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch

from fastqps.architectures.packed import PackedModel
from fastqps.ops.step import Step
from fastqps.runners.buffers import StepBuffers
from fastqps.runners.first_steps import first_steps

# A step is computed in pieces of whole items with about so many tokens for each thread: their activations stay in the
# core's cache. Larger pieces lose 4 to 8 %, smaller ones pay more for each call.
_PIECE_TOKENS = 640


class EncoderRunner:
    """Static buffers on the CPU and a loaded model over them."""

    instant = False

    def __init__(self, model: PackedModel, max_items: int, max_tokens: int) -> None:
        self.card = model.card
        self._model = model
        self._buffers = StepBuffers.allocate(model.card, max_items, max_tokens)
        b = self._buffers
        arrays = (b.input_ids, b.position_ids, b.token_type_ids, b.cu_seqlens, b.output)
        self._ids, self._positions, self._types, self._starts, self._output = map(torch.from_numpy, arrays)

    def buffers(self) -> StepBuffers:
        return self._buffers

    def run(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        """Computes the rows of ``n_items`` items with ``n_tokens`` tokens in all."""
        del n_new  # all of them
        for first, last in self._pieces(n_items, n_tokens):
            begin, end = int(self._buffers.cu_seqlens[first]), int(self._buffers.cu_seqlens[last])
            step = Step(
                self._ids[begin:end],
                self._positions[begin:end],
                self._types[begin:end],
                self._starts[first : last + 1] - begin,
            )
            rows = slice(begin, end) if self._buffers.by_token else slice(first, last)
            self._output[rows] = self._model(step)

    def for_another_step(self) -> EncoderRunner:
        return EncoderRunner(self._model, self._buffers.max_items, self._buffers.max_tokens)

    def for_another_lane(self) -> EncoderRunner:
        return self.for_another_step()

    def warm_up(self) -> None:
        """Runs a step of one short item and a full one; ``ModelError`` where the answers are no numbers."""
        first_steps(self.card, self._buffers, self.run)

    def _pieces(self, n_items: int, n_tokens: int) -> Iterator[tuple[int, int]]:
        """(first item, end) of each piece: as many pieces as the tokens ask for, of nearly equal size."""
        count = max(1, round(n_tokens / (_PIECE_TOKENS * torch.get_num_threads())))
        starts = self._buffers.cu_seqlens[: n_items + 1]
        marks = [n_tokens * i // count for i in range(1, count)]
        cuts = sorted({0, *starts.searchsorted(marks).tolist(), n_items})
        yield from pairwise(cuts)
