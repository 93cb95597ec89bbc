"""A decoder's step in plain Python and torch: lists of its rows, made into tensors and copied into static buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fastqps._core import sequence_params
from fastqps.runners.decode_buffers import DecodeBuffers
from fastqps.runners.pack_items import fill


class ReferenceRows:
    """The rows of one step, run by run, and the parameters of the sequences that are new in it."""

    def __init__(self) -> None:
        self.token_ids: list[int] = []
        self._positions: list[int] = []
        self._kv_slots: list[int] = []
        self._lengths: list[int] = []
        self._made: list[int] = []
        self.admitted: list[list[int]] = []

    def append(self, kv_slot: int, made: int, position: int, ids: Sequence[int]) -> None:
        """One run: ``ids`` from ``position`` up, of the sequence in ``kv_slot`` that has made so many tokens."""
        n = len(ids)
        self.token_ids.extend(ids)
        self._positions.extend(range(position, position + n))
        self._kv_slots.extend([kv_slot] * n)
        self._lengths.append(n)
        self._made.append(made)

    def admit(self, kv_slot: int, **options: Any) -> None:
        """Says how the sequence in ``kv_slot``, which begins in this step, is sampled."""
        self.admitted.append(sequence_params(kv_slot, **options))

    def write(self, b: DecodeBuffers) -> tuple[int, int, int]:
        """Fills the buffers with the step: (runs, rows, new sequences)."""
        runs, rows, new = len(self._lengths), len(self.token_ids), len(self.admitted)
        starts = torch.tensor([0, *self._lengths]).cumsum(0)
        for array, values in (
            (b.header[:5], [rows, runs, new, b.max_tokens, b.max_runs]),
            (b.input_ids[:rows], self.token_ids),
            (b.positions[:rows], self._positions),
            (b.kv_slots[:rows], self._kv_slots),
            (b.starts[: runs + 1], starts),
            (b.made[:runs], self._made),
            (b.admitted[:new], self.admitted),
        ):
            fill(array, values)
        return runs, rows, new
