"""Random items, and the rows that a runner or transformers computes for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from checkpoints import VOCAB

from fastqps.architectures.packed import PackedModel
from fastqps.models import load_card
from fastqps.runners import Runner

Item = tuple[list[int], list[int]]  # token ids, token type ids


def random_items(rng: np.random.Generator, n: int, longest: int = 64, pairs: bool = False) -> list[Item]:
    """Ids that no family takes for padding (0 and 1), of lengths 1 up to ``longest``, the longest one included."""
    items = []
    for length in [longest, *rng.integers(1, longest + 1, n - 1)]:
        second = int(rng.integers(0, length)) if pairs else 0
        items.append((rng.integers(3, VOCAB, length).tolist(), [0] * (length - second) + [1] * second))
    return items


def run(runner: Runner, items: Sequence[Item]) -> np.ndarray:
    """Packs items as the C++ gather does, runs them and returns a copy of their rows."""
    b, card = runner.buffers(), runner.card
    b.output.fill(np.nan)
    at = 0
    for i, (ids, types) in enumerate(items):
        end = at + len(ids)
        b.input_ids[at:end] = ids
        b.position_ids[at:end] = np.arange(len(ids)) + card.position_offset
        b.token_type_ids[at:end] = np.array(types) * card.second_segment_type
        b.cu_seqlens[i + 1] = at = end
    runner.run(len(items), at, len(items))
    return b.rows(len(items), at).copy()


def reference(model: torch.nn.Module, item: Item, types: bool) -> torch.nn.Module:
    """transformers' outputs for one item alone."""
    extra = {"token_type_ids": torch.tensor([item[1]])} if types else {}
    with torch.no_grad():
        return model(input_ids=torch.tensor([item[0]]), **extra)


def encoded(path: Path, steps: list[Any], ops: Any, make: Any, items: int, tokens: int) -> np.ndarray:
    runner = make(PackedModel(load_card(str(path)), ops), items, tokens)
    return np.concatenate([run(runner, items) for items in steps])
