"""A decoder's step in plain Python and torch: lists of its rows, made into tensors and copied into static buffers."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import torch

from fastqps.runners.decode_buffers import DecodeBuffers
from fastqps.runners.reference_items import fill

_STOP_IDS = 8


class ReferenceRows:
    """The rows of one step, run by run, and the parameters of the sequences that are new in it."""

    def __init__(self) -> None:
        self.token_ids: list[int] = []
        self._positions: list[int] = []
        self._kv_slots: list[int] = []
        self._lengths: list[int] = []
        self._made: list[int] = []
        self._admitted: list[list[int]] = []

    def append(self, kv_slot: int, made: int, position: int, ids: Sequence[int]) -> None:
        """One run: ``ids`` from ``position`` up, of the sequence in ``kv_slot`` that has made so many tokens."""
        n = len(ids)
        self.token_ids.extend(ids)
        self._positions.extend(range(position, position + n))
        self._kv_slots.extend([kv_slot] * n)
        self._lengths.append(n)
        self._made.append(made)

    def admit(
        self,
        kv_slot: int,
        *,
        max_tokens: int,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        stop_ids: Sequence[int] = (),
        ignore_eos: bool = False,
        logprobs: bool = False,
    ) -> None:
        """Says how the sequence in ``kv_slot``, which begins in this step, is sampled."""
        floats = struct.unpack("2i", struct.pack("2f", temperature, top_p))
        seeds = struct.unpack("2i", struct.pack("Q", seed))
        stops = [*stop_ids, *[-1] * (_STOP_IDS - len(stop_ids))]
        self._admitted.append([kv_slot, *seeds, *floats, top_k, max_tokens, ignore_eos | logprobs << 1, *stops])

    def write(self, b: DecodeBuffers) -> tuple[int, int, int]:
        """Fills the buffers with the step: (runs, rows, new sequences)."""
        runs, rows, new = len(self._lengths), len(self.token_ids), len(self._admitted)
        starts = torch.tensor([0, *self._lengths]).cumsum(0)
        for array, values in (
            (b.header[:5], [rows, runs, new, b.max_tokens, b.max_runs]),
            (b.input_ids[:rows], self.token_ids),
            (b.positions[:rows], self._positions),
            (b.kv_slots[:rows], self._kv_slots),
            (b.starts[: runs + 1], starts),
            (b.made[:runs], self._made),
            (b.admitted[:new], self._admitted),
        ):
            fill(array, values)
        return runs, rows, new
