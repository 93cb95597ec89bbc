"""The device that computes nothing: it answers at once with rows of the model's full width. The transport's ceiling."""

from __future__ import annotations

from fastqps.models.card import ModelCard
from fastqps.runners.buffers import StepBuffers


class NullRunner:
    """Rows are filled once: the unit vector with equal components for an embedding, zero logits for a classifier."""

    instant = True

    def __init__(self, card: ModelCard, max_items: int, max_tokens: int) -> None:
        self.card = card
        self._buffers = StepBuffers.allocate(max_items, max_tokens, card.dimensions)
        if card.task == "embed":
            self._buffers.output.fill(card.dimensions**-0.5)

    def buffers(self) -> StepBuffers:
        return self._buffers

    def run(self, n_items: int, n_tokens: int, max_len: int) -> None:
        """Nothing: the rows already hold the answer."""

    def twin(self) -> NullRunner:
        return NullRunner(self.card, self._buffers.max_items, self._buffers.max_tokens)


def make_runner(card: ModelCard, max_items: int, max_tokens: int, dtype: str, threads: int) -> NullRunner:
    """A runner that needs neither weights nor torch; ``dtype`` and ``threads`` mean nothing to it."""
    del dtype, threads
    return NullRunner(card, max_items, max_tokens)
