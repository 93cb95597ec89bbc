"""The static memory between C++ and a decoder runner: one block of a packed step, one block of sampled tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastqps._core import (
    ADMITTED_WORDS,
    BIAS_WORDS,
    COPY_WORDS,
    HEADER_MASKS,
    HEADER_WORDS,
    TARGET_WORDS,
    TOP_LOGPROBS_MAX,
    DecodeLayout,
    DecodeStepper,
    await_masks,
    masks_ready,
    release_masks,
)
from fastqps.runners.buffers import aligned


def mask_words(vocab: int) -> int:
    """Words of the mask of a token."""
    return -(-vocab // 32)


def top_rows(output: Any, layout: DecodeLayout) -> Any:
    """The part of ``output``, an array or a tensor, with the likeliest tokens of each run."""
    runs, words = layout.max_runs, 2 * TOP_LOGPROBS_MAX
    return output[layout.out_top :][: runs * words].reshape(runs, words)


def target_rows(staging: Any, layout: DecodeLayout) -> Any:
    """The part of ``staging``, an array or a tensor, with the targets of each run."""
    return staging[layout.targets :][: layout.max_runs * TARGET_WORDS].reshape(layout.max_runs, TARGET_WORDS)


@dataclass(frozen=True)
class DecodeBuffers:
    """One step of up to T = ``max_tokens`` rows in S = ``max_runs`` runs, and what was sampled from it.

    ========= =================== ====================================================================================
    array     shape               meaning
    ========= =================== ====================================================================================
    header    [16]                0 rows, 1 runs, 2 new sequences, 3 T, 4 S, 5 whether masks are awaited, 6 whether runs
                                  ask for likeliest tokens, 7 whether runs have targets, 8 copies
    input_ids [T]                 token ids; -1: the newest token of the row's cache slot
    positions [T]                 in the whole sequence, prefix included
    kv_slots  [T]                 cache slot
    starts    [S + 1]             run i owns rows starts[i] up to starts[i + 1]: consecutive positions of one slot
    made      [S]                 tokens that the run's sequence has made before
    admitted  [S, words]          sampling parameters of sequences that are new in this step
    targets   [S, 21]             of a run that follows a script: how many targets, and their ids
    copies    [S, 3]              from which cache slot, to which, and how many positions behind the prefix: made one
                                  after the other, before the rows are computed
    biases    [slots, 601]        of each cache slot, where its sequence has any: how many, then id and float bits of
                                  each; of the lane's steps together
    masks     [S, words]          bit i of word w of a masked run allows token 32·w + i. On a CPU each step has its own,
                                  to which the system gives memory as it is written; on a GPU a lane's steps share
                                  them
    tokens    [S]                 sampled from run i's last row
    logprobs  [S] float32         of that token, where its sequence asked for it; NaN: its logit is NaN or infinite
    finish    [S]                 0 goes on, 1 stop token, 2 length
    top       [S, 40]             of runs that ask: ids of the likeliest tokens, and from 20 on their log-probabilities,
                                  float32
    stamps    [2] int64           when the device started and ended the step, ns of CLOCK_MONOTONIC
    ========= =================== ====================================================================================

    int32 where nothing is said. Rows and runs beyond the step's are not read, and mean nothing in the answers.
    The first nine arrays are parts of ``staging``, the others but biases, masks and stamps of ``output``.
    """

    max_runs: int
    max_tokens: int
    staging: NDArray[np.int32] = field(repr=False)
    output: NDArray[np.int32] = field(repr=False)
    header: NDArray[np.int32] = field(repr=False)
    input_ids: NDArray[np.int32] = field(repr=False)
    positions: NDArray[np.int32] = field(repr=False)
    kv_slots: NDArray[np.int32] = field(repr=False)
    starts: NDArray[np.int32] = field(repr=False)
    made: NDArray[np.int32] = field(repr=False)
    admitted: NDArray[np.int32] = field(repr=False)
    biases: NDArray[np.int32] = field(repr=False)
    targets: NDArray[np.int32] = field(repr=False)
    copies: NDArray[np.int32] = field(repr=False)
    masks: NDArray[np.int32] = field(repr=False)
    tokens: NDArray[np.int32] = field(repr=False)
    logprobs: NDArray[np.float32] = field(repr=False)
    finish: NDArray[np.int32] = field(repr=False)
    top: NDArray[np.int32] = field(repr=False)
    stamps: NDArray[np.int64] = field(repr=False)

    @classmethod
    def allocate(
        cls, max_runs: int, max_tokens: int, vocab: int = 0, biases: NDArray[np.int32] | None = None
    ) -> DecodeBuffers:
        """Zeroed blocks on cache-line boundaries; their addresses never change. ``vocab`` 0: they take no masks."""
        layout = DecodeLayout(max_tokens, max_runs)
        staging, output = aligned(layout.words, np.int32), aligned(layout.out_words, np.int32)
        masks = aligned(max_runs * mask_words(vocab), np.int32).reshape(max_runs, mask_words(vocab))
        return cls.over(staging, output, max_runs, max_tokens, biases, masks)

    @classmethod
    def over(
        cls,
        staging: NDArray[np.int32],
        output: NDArray[np.int32],
        max_runs: int,
        max_tokens: int,
        biases: NDArray[np.int32] | None = None,
        masks: NDArray[np.int32] | None = None,
    ) -> DecodeBuffers:
        """The sections of two blocks that someone else holds, and tables, without which there is no place for any."""
        at = DecodeLayout(max_tokens, max_runs)

        return cls(
            max_runs=max_runs,
            max_tokens=max_tokens,
            staging=staging,
            output=output,
            header=staging[:HEADER_WORDS],
            input_ids=staging[at.token_ids :][:max_tokens],
            positions=staging[at.positions :][:max_tokens],
            kv_slots=staging[at.kv_slots :][:max_tokens],
            starts=staging[at.starts :][: max_runs + 1],
            made=staging[at.made :][:max_runs],
            admitted=staging[at.admitted :][: max_runs * ADMITTED_WORDS].reshape(max_runs, ADMITTED_WORDS),
            biases=np.zeros((0, BIAS_WORDS), np.int32) if biases is None else biases,
            targets=target_rows(staging, at),
            copies=staging[at.copies :][: max_runs * COPY_WORDS].reshape(max_runs, COPY_WORDS),
            masks=np.zeros((max_runs, 0), np.int32) if masks is None else masks,
            tokens=output[at.out_tokens :][:max_runs],
            logprobs=output[at.out_logprobs :][:max_runs].view(np.float32),
            finish=output[at.out_finish :][:max_runs],
            top=top_rows(output, at),
            stamps=aligned(2, np.int64),
        )

    @property
    def takes_masks(self) -> bool:
        """Whether masks can say which tokens a run may choose from."""
        return bool(self.masks.shape[1])

    def release_masks(self) -> None:
        """The step's masks are there, or will never be: it goes on."""
        release_masks(self._masks_state)

    def masks_ready(self) -> bool:
        """Whether the step waits for no masks."""
        return masks_ready(self._masks_state)

    def await_masks(self) -> None:
        """Returns when the step waits for no masks."""
        await_masks(self._masks_state)

    @cached_property
    def _masks_state(self) -> int:
        return int(self.header.ctypes.data + self.header.itemsize * HEADER_MASKS)

    def add_to(self, stepper: DecodeStepper, lane: int) -> int:
        """Gives the stepper these blocks for a step of ``lane``; returns the step's number."""
        return stepper.add(lane=lane, stamps=self.stamps.ctypes.data, **self.blocks())

    def blocks(self) -> dict[str, int]:
        """The arguments of ``DecodeBatch.add``: the addresses of both blocks and of the biases, and their shape."""
        return {
            "staging": self.staging.ctypes.data,
            "output": self.output.ctypes.data,
            "max_tokens": self.max_tokens,
            "max_runs": self.max_runs,
            "biases": self.biases.ctypes.data if len(self.biases) else 0,
        }
