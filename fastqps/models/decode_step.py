"""One packed step of a decoder as the model sees it, and what a device keeps of sequences between steps."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fastqps._core import ADMITTED_WORDS
from fastqps.models.card import ModelCard


@dataclass(frozen=True)
class DecodeStep:
    """T packed rows in S runs: a run is all of a new prompt, or one decode row. Its last row is sampled.

    ``prefix_len`` is the length of the shared prefix that every row sees before its own cache slot. The last three are
    written: ``finish`` is 0 where the sequence goes on, 1 after a stop token, 2 at its length.
    """

    token_ids: torch.Tensor  # int32 [T]; -1: the token that the row's cache slot has made last
    positions: torch.Tensor  # int32 [T], of the whole sequence, prefix included
    kv_slots: torch.Tensor  # int32 [T]: cache slot
    starts: torch.Tensor  # int32 [S + 1]
    made: torch.Tensor  # int32 [S]: tokens that the run's sequence has made before
    prefix_len: int
    tokens: torch.Tensor  # int32 [S]
    logprobs: torch.Tensor  # float32 [S]
    finish: torch.Tensor  # int32 [S]

    @property
    def n_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def n_runs(self) -> int:
        return len(self.made)


class DecodeState:
    """By cache slot: keys and values, the newest token, the sampling parameters. All steps of a runner share it.

    ``cache`` is [layers, 2, slots + 2, kv_heads, positions, head_dim]. Slot ``slots`` is for padding, the one behind it
    holds the prefix. Its memory is the system's until a slot is first used.
    """

    def __init__(self, card: ModelCard, slots: int, layers: int, kv_heads: int, head_dim: int, dtype: torch.dtype):
        self.slots = slots
        self.prefix_len = len(card.prefix_ids)
        self.cache = torch.empty(layers, 2, slots + 2, kv_heads, card.kv_positions, head_dim, dtype=dtype)
        self.last_token = torch.zeros(slots + 1, dtype=torch.int32)
        self.params = torch.zeros(slots + 1, ADMITTED_WORDS, dtype=torch.int32)
        self.eos_ids = torch.tensor(card.eos_ids, dtype=torch.int32)

    @property
    def prefix_slot(self) -> int:
        return self.slots + 1
