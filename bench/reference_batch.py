"""Continuous batching in plain Python and torch, with the face of ``_core.DecodeBatch``.

The reference that tests hold the C++ against, and the baseline that the bench measures it by.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.reference_rows import ReferenceRows
from fastqps._core import DecodeLayout
from fastqps.runners.decode_buffers import DecodeBuffers


@dataclass
class _Sequence:
    user: int
    position: int  # of its next row
    max_tokens: int
    issued: int = 0  # tokens that steps have been prepared for


@dataclass
class _Step:
    buffers: DecodeBuffers
    runs: list[tuple[int, _Sequence]] = field(default_factory=list)  # (cache slot, its sequence)
    rows: ReferenceRows = field(default_factory=ReferenceRows)


class ReferenceBatch:
    """Which sequences run in which cache slot, and the steps made of them.

    A sequence is freed at its last token or by ``drop``; a token that comes back for a cache slot which has changed
    hands is late and dropped.
    """

    def __init__(self, slots: int, prefix_len: int) -> None:
        self._prefix_len = prefix_len
        self._sequences: dict[int, _Sequence] = {}  # by cache slot
        self._free = list(range(slots))[::-1]  # the lowest is taken first
        self._steps: list[_Step] = []

    @property
    def running(self) -> int:
        return len(self._sequences)

    def add(self, *, staging: int, output: int, max_tokens: int, max_runs: int) -> int:
        """Adds the memory of one step, given by address; returns its number."""
        layout = DecodeLayout(max_tokens, max_runs)
        blocks = _block(staging, layout.words), _block(output, layout.out_words)
        self._steps.append(_Step(DecodeBuffers.over(*blocks, max_runs, max_tokens)))
        return len(self._steps) - 1

    def begin(self, step: int) -> None:
        """Begins a step with one decode row for each sequence that has tokens left to make."""
        s = self._steps[step] = _Step(self._steps[step].buffers)
        for kv, sequence in self._sequences.items():
            if sequence.issued < sequence.max_tokens:
                self._append(s, kv, sequence, [-1])

    def admit(
        self,
        step: int,
        ids: Sequence[int],
        *,
        user: int,
        max_tokens: int,
        min_tokens: int = 0,
        min_length: int = 0,
        **sampling: Any,
    ) -> bool:
        """Adds a prompt as a new sequence, sampled as ``ReferenceRows.admit`` takes it.

        ``min_length`` counts prefix and prompt, ``min_tokens`` does not. False, and nothing done, where slot, run or
        rows are missing.
        """
        s = self._steps[step]
        full = len(s.runs) == s.buffers.max_runs or len(s.rows.token_ids) + len(ids) > s.buffers.max_tokens
        if full or not self._free:
            return False
        kv = self._free.pop()
        sequence = self._sequences[kv] = _Sequence(user, self._prefix_len, max_tokens)
        least = min(max(min_tokens, min_length - self._prefix_len - len(ids)), max_tokens)
        s.rows.admit(kv, max_tokens=max_tokens, min_tokens=least, **sampling)
        self._append(s, kv, sequence, ids)
        return True

    def seal(self, step: int) -> tuple[int, int, int]:
        """Writes the step into its buffers: (runs, rows, new sequences). With no runs there is nothing to do."""
        s = self._steps[step]
        return s.rows.write(s.buffers)

    def retire(self, step: int) -> list[tuple[int, int, float, int]]:
        """(user, token, log-probability, finish) of each sequence of the step that still lives."""
        return list(self._retire(self._steps[step]))

    def drop(self, user: int) -> None:
        """Ends a sequence now; its tokens that are on their way are dropped. ``KeyError`` if it does not run."""
        kv_by_user = {sequence.user: kv for kv, sequence in self._sequences.items()}
        self._release(kv_by_user[user])

    def _append(self, s: _Step, kv: int, sequence: _Sequence, ids: Sequence[int]) -> None:
        s.runs.append((kv, sequence))
        s.rows.append(kv, sequence.issued, sequence.position, ids)
        sequence.position += len(ids)
        sequence.issued += 1

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
