"""Packs items into an encoder's step, from plain Python: what an Engine runs, without a stepper."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray

from fastqps._core import first_beyond
from fastqps.models.card import ModelCard
from fastqps.runners.buffers import StepBuffers

Item = tuple[Sequence[int], int]  # token ids, and how many leading ones belong to the first text


class UnknownTokenError(ValueError):
    """A token id for which the model has no embedding. ``item`` is the number of its item in the batch."""

    def __init__(self, item: int, token_id: int, vocab_size: int) -> None:
        self.item, self.token_id, self.vocab_size = item, token_id, vocab_size
        super().__init__(f"item {item}: token id {token_id}, the vocabulary has {vocab_size}")

    def in_place(self, item: int) -> UnknownTokenError:
        """The same error under the item's number in the caller's own list."""
        return UnknownTokenError(item, self.token_id, self.vocab_size)


def fill(array: NDArray[np.int32], values: Sequence[object] | torch.Tensor) -> None:
    """Makes a tensor of lists of numbers and copies it into an array of its shape."""
    if len(values):
        torch.from_numpy(array).copy_(torch.as_tensor(values, dtype=torch.int32))


def _positions(ids: Sequence[int], offset: int) -> list[int]:
    """From ``offset`` up. Where that is not 0, the id below it is that of padding, which is not counted."""
    counted = accumulate((not offset or i != offset - 1 for i in ids), initial=offset)
    return [offset - 1 if offset and i == offset - 1 else at for i, at in zip(ids, counted, strict=False)]


def _opening(card: ModelCard, ids: Sequence[int]) -> int:
    """How many of the ids are the model's opening; the last one is always computed."""
    most = min(len(card.opening_ids), len(ids) - 1)
    return next((i for i in range(most) if card.opening_ids[i] != ids[i]), max(0, most))


def pack_items(card: ModelCard, items: Iterable[Item], b: StepBuffers) -> tuple[int, int, int]:
    """Fills the buffers with a step of these items: (items, tokens, new items). They fit.

    Raises ``UnknownTokenError`` for a token id beyond the vocabulary: a runner would read behind its embedding table.
    """
    input_ids: list[int] = []
    positions: list[int] = []
    types: list[int] = []
    starts = [0]
    for whole, first_len in items:
        opening = _opening(card, whole)
        ids = whole[opening:]
        n = len(ids)
        first = min(first_len, n)
        input_ids.extend(ids)
        positions.extend(_positions(ids, card.position_offset) if not opening else range(opening, opening + n))
        types.extend([0] * first + [card.second_segment_type] * (n - first))
        starts.append(len(input_ids))
    tokens = len(input_ids)
    for array, values in (
        (b.input_ids[:tokens], torch.as_tensor(input_ids, dtype=torch.int64)),  # above 2^31 they become negative
        (b.position_ids[:tokens], positions),
        (b.token_type_ids[:tokens], types),
        (b.cu_seqlens[: len(starts)], starts),
    ):
        fill(array, values)
    beyond = first_beyond(b.input_ids.ctypes.data, tokens, card.vocab_size)
    if beyond < tokens:
        raise UnknownTokenError(bisect_right(starts, beyond) - 1, input_ids[beyond], card.vocab_size)
    return len(starts) - 1, tokens, len(starts) - 1
