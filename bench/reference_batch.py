"""Continuous batching in plain Python and torch, with the face of ``_core.DecodeBatch``.

The reference that tests hold the C++ against, and the baseline that the bench measures it by.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fastqps._core import BIAS_WORDS, DecodeLayout, sequence_params
from fastqps.runners.decode_buffers import DecodeBuffers
from fastqps.runners.pack_items import fill


@dataclass
class _Sequence:
    user: int
    position: int  # of its next row
    max_tokens: int
    issued: int = 0  # tokens that steps have been prepared for


@dataclass
class _Step:
    """The rows of one step, run by run, and the parameters of the sequences that are new in it."""

    buffers: DecodeBuffers
    runs: list[tuple[int, _Sequence]] = field(default_factory=list)  # (cache slot, its sequence)
    token_ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    kv_slots: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    made: list[int] = field(default_factory=list)
    admitted: list[list[int]] = field(default_factory=list)

    def append(self, kv: int, sequence: _Sequence, ids: Sequence[int]) -> None:
        """One run of the sequence: ``ids`` from its position up."""
        self.runs.append((kv, sequence))
        self.token_ids.extend(ids)
        self.positions.extend(range(sequence.position, sequence.position + len(ids)))
        self.kv_slots.extend([kv] * len(ids))
        self.starts.append(len(self.token_ids))
        self.made.append(sequence.issued)
        sequence.position += len(ids)
        sequence.issued += 1

    def write(self) -> tuple[int, int, int]:
        """Fills the buffers: (runs, rows, new sequences)."""
        b, runs, rows, new = self.buffers, len(self.runs), len(self.token_ids), len(self.admitted)
        for array, values in (
            (b.header[:5], [rows, runs, new, b.max_tokens, b.max_runs]),
            (b.input_ids[:rows], self.token_ids),
            (b.positions[:rows], self.positions),
            (b.kv_slots[:rows], self.kv_slots),
            (b.starts[: runs + 1], self.starts),
            (b.made[:runs], self.made),
            (b.admitted[:new], self.admitted),
        ):
            fill(array, values)
        return runs, rows, new


class ReferenceBatch:
    """Which sequences run in which cache slot, and the steps made of them.

    A sequence is freed at its last token or by ``drop``; a token that comes back for a cache slot which has changed
    hands is late and dropped.
    """

    def __init__(self, slots: int, prefix_len: int) -> None:
        self._slots, self._prefix_len = slots, prefix_len
        self._biases = np.zeros((slots, BIAS_WORDS), np.int32)
        self._sequences: dict[int, _Sequence] = {}  # by cache slot
        self._free = list(range(slots))[::-1]  # the lowest is taken first
        self._steps: list[_Step] = []

    @property
    def running(self) -> int:
        return len(self._sequences)

    def add(self, *, staging: int, output: int, max_tokens: int, max_runs: int, biases: int = 0) -> int:
        """Adds the memory of one step, and of all biases, given by address; returns its number."""
        if biases:
            self._biases = _block(biases, self._slots * BIAS_WORDS).reshape(self._slots, BIAS_WORDS)
        layout = DecodeLayout(max_tokens, max_runs)
        blocks = _block(staging, layout.words), _block(output, layout.out_words)
        self._steps.append(_Step(DecodeBuffers.over(*blocks, max_runs, max_tokens)))
        return len(self._steps) - 1

    def begin(self, step: int) -> None:
        """Begins a step with one decode row for each sequence that has tokens left to make."""
        s = self._steps[step] = _Step(self._steps[step].buffers)
        for kv, sequence in self._sequences.items():
            if sequence.issued < sequence.max_tokens:
                s.append(kv, sequence, [-1])

    def admit(
        self,
        step: int,
        ids: Sequence[int],
        *,
        user: int,
        max_tokens: int,
        min_tokens: int = 0,
        min_length: int = 0,
        logit_bias: Mapping[int, float] | None = None,
        **sampling: Any,
    ) -> bool:
        """Adds a prompt as a new sequence, sampled as ``_core.sequence_params`` takes it.

        ``min_length`` counts prefix and prompt, ``min_tokens`` does not. False, and nothing done, where slot, run or
        rows are missing.
        """
        s = self._steps[step]
        full = len(s.runs) == s.buffers.max_runs or len(s.token_ids) + len(ids) > s.buffers.max_tokens
        if full or not self._free:
            return False
        kv = self._free.pop()
        sequence = self._sequences[kv] = _Sequence(user, self._prefix_len, max_tokens)
        least = min(max(min_tokens, min_length - self._prefix_len - len(ids)), max_tokens)
        biases, row = logit_bias or {}, self._biases[kv]
        row[0] = len(biases)
        row[1 : 1 + 2 * len(biases) : 2] = list(biases)
        row[2 : 2 + 2 * len(biases) : 2] = np.fromiter(biases.values(), np.float32).view(np.int32)
        sampling["biased"] = bool(biases)
        s.admitted.append(sequence_params(kv, max_tokens=max_tokens, min_tokens=least, **sampling))
        s.append(kv, sequence, ids)
        return True

    def seal(self, step: int) -> tuple[int, int, int]:
        """Writes the step into its buffers: (runs, rows, new sequences). With no runs there is nothing to do."""
        return self._steps[step].write()

    def retire(self, step: int) -> list[tuple[int, int, float, int]]:
        """(user, token, log-probability, finish) of each sequence of the step that still lives."""
        return list(self._retire(self._steps[step]))

    def drop(self, user: int) -> None:
        """Ends a sequence now; its tokens that are on their way are dropped. ``KeyError`` if it does not run."""
        kv_by_user = {sequence.user: kv for kv, sequence in self._sequences.items()}
        self._release(kv_by_user[user])

    def _retire(self, s: _Step) -> Iterator[tuple[int, int, float, int]]:
        runs, b = len(s.runs), s.buffers
        tokens, logprobs, finishes = (torch.from_numpy(a[:runs]).tolist() for a in (b.tokens, b.logprobs, b.finish))
        for i, (kv, sequence) in enumerate(s.runs):
            if self._sequences.get(kv) is sequence:  # else the token is late
                if finishes[i]:
                    self._release(kv)
                yield sequence.user, tokens[i], logprobs[i], finishes[i]

    def _release(self, kv: int) -> None:
        del self._sequences[kv]
        self._free.append(kv)


def _block(address: int, words: int) -> NDArray[np.int32]:
    return np.ctypeslib.as_array((ctypes.c_int32 * words).from_address(address))
