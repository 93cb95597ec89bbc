"""An encoder's step in plain Python and torch: lists of tokens, made into tensors and copied into static buffers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from fastqps.models.card import ModelCard
from fastqps.runners.buffers import StepBuffers

Item = tuple[Sequence[int], int]  # token ids, and how many leading ones belong to the first text


def fill(array: NDArray[np.int32], values: Sequence[object] | torch.Tensor) -> None:
    """Makes a tensor of lists of numbers and copies it into an array of its shape."""
    if len(values):
        torch.from_numpy(array).copy_(torch.as_tensor(values, dtype=torch.int32))


def pack_items(card: ModelCard, items: Iterable[Item], b: StepBuffers) -> tuple[int, int, int]:
    """Fills the buffers with a step of these items: (items, tokens, tokens of the longest). They fit."""
    input_ids: list[int] = []
    positions: list[int] = []
    types: list[int] = []
    starts = [0]
    for ids, first_len in items:
        n = len(ids)
        first = min(first_len, n)
        input_ids.extend(ids)
        positions.extend(range(card.position_offset, card.position_offset + n))
        types.extend([0] * first + [card.second_segment_type] * (n - first))
        starts.append(len(input_ids))
    tokens = len(input_ids)
    for array, values in (
        (b.input_ids[:tokens], input_ids),
        (b.position_ids[:tokens], positions),
        (b.token_type_ids[:tokens], types),
        (b.cu_seqlens[: len(starts)], starts),
    ):
        fill(array, values)
    return len(starts) - 1, tokens, max(end - start for start, end in pairwise(starts))
