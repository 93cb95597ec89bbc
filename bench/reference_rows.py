"""A decoder's step in plain Python and torch: lists of its rows, made into tensors and copied into static buffers."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import torch

from fastqps._core import (
    ADMITTED_WORDS,
    PARAM_LOGIT_OPTIONS,
    PARAM_LOGPROBS,
    PARAM_MIN_TOKENS,
    PARAM_NO_REPEAT_NGRAM_SIZE,
    PARAM_REPETITION_PENALTY,
    PARAM_STOP_IDS,
    PARAM_SUPPRESS_IDS,
    STOP_IDS_MAX,
    SUPPRESS_IDS_MAX,
)
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

    def admit(
        self,
        kv_slot: int,
        *,
        max_tokens: int,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        stop_token_ids: Sequence[int] = (),
        ignore_eos: bool = False,
        logprobs: bool = False,
        repetition_penalty: float = 1.0,
        no_repeat_ngram_size: int = 0,
        min_tokens: int = 0,
        suppress_token_ids: Sequence[int] = (),
    ) -> None:
        """Says how the sequence in ``kv_slot``, which begins in this step, is sampled."""
        temperature_bits, top_p_bits, penalty_bits = struct.unpack(
            "3i", struct.pack("3f", temperature, top_p, repetition_penalty)
        )
        options = repetition_penalty != 1 or no_repeat_ngram_size or min_tokens or suppress_token_ids
        flags = ignore_eos | PARAM_LOGPROBS * logprobs | PARAM_LOGIT_OPTIONS * bool(options)
        first = [kv_slot, *struct.unpack("2i", struct.pack("Q", seed)), temperature_bits, top_p_bits]
        words = [*first, top_k, max_tokens, flags, *[0] * (ADMITTED_WORDS - PARAM_STOP_IDS)]
        words[PARAM_STOP_IDS : PARAM_STOP_IDS + STOP_IDS_MAX] = _filled(stop_token_ids, STOP_IDS_MAX)
        words[PARAM_REPETITION_PENALTY] = penalty_bits
        words[PARAM_NO_REPEAT_NGRAM_SIZE] = no_repeat_ngram_size
        words[PARAM_MIN_TOKENS] = min_tokens
        suppressed = _filled(suppress_token_ids, SUPPRESS_IDS_MAX)
        words[PARAM_SUPPRESS_IDS : PARAM_SUPPRESS_IDS + SUPPRESS_IDS_MAX] = suppressed
        self.admitted.append(words)

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


def _filled(ids: Sequence[int], size: int) -> list[int]:
    return [*ids, *[-1] * (size - len(ids))]
