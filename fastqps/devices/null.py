"""The device that computes nothing: it answers at once with rows of the model's full width. The transport's ceiling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastqps._core import PARAM_SLOT, PARAM_WORDS
from fastqps.devices.place import Place
from fastqps.models.card import ModelCard
from fastqps.runners.buffers import StepBuffers
from fastqps.runners.decode_buffers import DecodeBuffers
from fastqps.runners.kinds import DECODE, ENCODE


class NullRunner:
    """Rows are filled once: the unit vector with equal components for an embedding, zero logits for a classifier."""

    instant = True

    def __init__(self, card: ModelCard, max_items: int, max_tokens: int) -> None:
        self.card = card
        self._buffers = StepBuffers.allocate(card, max_items, max_tokens)
        if card.traits.form == "vector":
            self._buffers.output.fill(card.dimensions**-0.5)

    def buffers(self) -> StepBuffers:
        return self._buffers

    def run(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        """Nothing: the rows already hold the answer."""

    def for_another_step(self) -> NullRunner:
        return NullRunner(self.card, self._buffers.max_items, self._buffers.max_tokens)

    def for_another_lane(self) -> NullRunner:
        return self.for_another_step()

    def warm_up(self) -> None:
        """Nothing to warm."""


def make_encoder(card: ModelCard, max_items: int, max_tokens: int, place: Place) -> NullRunner:
    """A runner that needs neither weights nor torch; ``place`` means nothing to it."""
    del place
    return NullRunner(card, max_items, max_tokens)


class NullDecoder:
    """Every run's token is the same one, which ends nothing; a sequence ends at its length."""

    instant = True

    def __init__(self, card: ModelCard, max_runs: int, max_tokens: int, lengths: NDArray[np.int32] | None = None):
        self.card = card
        self._buffers = DecodeBuffers.allocate(max_runs, max_tokens)
        middle = card.vocab_size // 2  # special tokens are at either end of a vocabulary
        self._buffers.tokens.fill(next(i for i in range(middle, card.vocab_size) if i not in card.eos_ids))
        self._lengths = np.zeros(max_runs, np.int32) if lengths is None else lengths  # by cache slot

    def buffers(self) -> DecodeBuffers:
        return self._buffers

    def run(self, n_runs: int, n_tokens: int, n_admitted: int, /) -> None:
        """Marks the sequences that have ended; their tokens are written already."""
        b = self._buffers
        self._lengths[b.admitted[:n_admitted, PARAM_SLOT]] = b.admitted[:n_admitted, PARAM_WORDS["max_tokens"]]
        last = self._lengths[b.kv_slots[b.starts[:n_runs]]] <= b.made[:n_runs] + 1
        b.finish[:n_runs] = np.where(last, 2, 0)

    def for_another_step(self) -> NullDecoder:
        b = self._buffers
        return NullDecoder(self.card, b.max_runs, b.max_tokens, self._lengths)

    def for_another_lane(self) -> NullDecoder:
        b = self._buffers
        return NullDecoder(self.card, b.max_runs, b.max_tokens)

    def warm_up(self) -> None:
        """Nothing to warm."""


def make_decoder(card: ModelCard, slots: int, max_tokens: int, place: Place) -> NullDecoder:
    """A decoder that needs neither weights nor torch; ``place`` means nothing to it."""
    del place
    return NullDecoder(card, slots, max_tokens)


RUNNERS = {ENCODE: make_encoder, DECODE: make_decoder}
