"""Runs an encoder over the packed tokens of one step."""

from __future__ import annotations

import torch

from fastqps.models.attention import Step
from fastqps.models.packed import PackedModel
from fastqps.runners.buffers import StepBuffers


class EncoderRunner:
    """Static buffers on the CPU and a loaded model over them."""

    def __init__(self, model: PackedModel, max_items: int, max_tokens: int) -> None:
        self.card = model.card
        self._model = model
        self._buffers = StepBuffers.allocate(max_items, max_tokens, model.card.dimensions)
        b = self._buffers
        arrays = (b.input_ids, b.position_ids, b.token_type_ids, b.cu_seqlens, b.output)
        self._ids, self._positions, self._types, self._starts, self._output = map(torch.from_numpy, arrays)

    def buffers(self) -> StepBuffers:
        return self._buffers

    def run(self, n_items: int, n_tokens: int, max_len: int) -> None:
        """Computes the rows of ``n_items`` items with ``n_tokens`` tokens in all, the longest ``max_len``."""
        step = Step(
            self._ids[:n_tokens],
            self._positions[:n_tokens],
            self._types[:n_tokens],
            self._starts[: n_items + 1],
            max_len,
        )
        self._output[:n_items] = self._model(step)
