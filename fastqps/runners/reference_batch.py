"""Step preparation in plain Python and torch, with the face of ``_core.DecodeBatch``.

The reference that tests hold the C++ against, and the baseline that the bench measures it by: lists are built for each
step, made into tensors and copied into the static buffers, as Python runtimes usually do.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from fastqps._core import decode_layout
from fastqps.runners.decode_buffers import DecodeBuffers

_STOP_IDS = 8


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
    token_ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    kv_slots: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    made: list[int] = field(default_factory=list)
    admitted: list[list[int]] = field(default_factory=list)


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
        layout = decode_layout(max_tokens, max_runs)
        blocks = _block(staging, layout["words"]), _block(output, layout["out_words"])
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
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        stop_ids: Sequence[int] = (),
        ignore_eos: bool = False,
        logprobs: bool = False,
    ) -> bool:
        """Adds a prompt as a new sequence; False, and nothing done, where slot, run or rows are missing."""
        s = self._steps[step]
        full = len(s.runs) == s.buffers.max_runs or len(s.token_ids) + len(ids) > s.buffers.max_tokens
        if full or not self._free:
            return False
        kv = self._free.pop()
        sequence = self._sequences[kv] = _Sequence(user, self._prefix_len, max_tokens)
        floats = struct.unpack("2i", struct.pack("2f", temperature, top_p))
        seeds = struct.unpack("2i", struct.pack("Q", seed))
        stops = [*stop_ids, *[-1] * (_STOP_IDS - len(stop_ids))]
        s.admitted.append([kv, *seeds, *floats, top_k, max_tokens, ignore_eos | logprobs << 1, *stops])
        self._append(s, kv, sequence, ids)
        return True

    def seal(self, step: int) -> tuple[int, int, int]:
        """Writes the step into its buffers: (runs, rows, new sequences). With no runs there is nothing to do."""
        s = self._steps[step]
        b, runs, rows, new = s.buffers, len(s.runs), len(s.token_ids), len(s.admitted)
        starts = torch.tensor([0, *s.lengths]).cumsum(0)
        for array, values in (
            (b.header[:5], [rows, runs, new, b.max_tokens, b.max_runs]),
            (b.input_ids[:rows], s.token_ids),
            (b.positions[:rows], s.positions),
            (b.kv_slots[:rows], s.kv_slots),
            (b.starts[: runs + 1], starts),
            (b.made[:runs], s.made),
            (b.admitted[:new], s.admitted),
        ):
            if len(values):
                torch.from_numpy(array).copy_(torch.as_tensor(values, dtype=torch.int32))
        return runs, rows, new

    def retire(self, step: int) -> list[tuple[int, int, float, int]]:
        """(user, token, log-probability, finish) of each sequence of the step that still lives."""
        return list(self._retire(self._steps[step]))

    def drop(self, user: int) -> None:
        """Ends a sequence now; its tokens that are on their way are dropped. ``KeyError`` if it does not run."""
        found = {sequence.user: kv for kv, sequence in self._sequences.items()}
        self._release(found[user])

    def _append(self, s: _Step, kv: int, sequence: _Sequence, ids: Sequence[int]) -> None:
        n = len(ids)
        s.runs.append((kv, sequence))
        s.token_ids.extend(ids)
        s.positions.extend(range(sequence.position, sequence.position + n))
        s.kv_slots.extend([kv] * n)
        s.lengths.append(n)
        s.made.append(sequence.issued)
        sequence.position += n
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
