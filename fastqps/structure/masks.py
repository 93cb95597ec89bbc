"""Token masks of the running sequences of one lane, computed beside the device."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from fastqps._core import HEADER_TARGETS
from fastqps.runners.decode_buffers import DecodeBuffers
from fastqps.structure.vocabulary import Compiled, reason

_THREADS = 2  # of the executor: a mask takes some 10 us
Row = tuple[int, int]
"""A run of a step whose tokens a mask allows, and its sequence."""


class Failed(NamedTuple):
    """A sequence whose automaton has failed: it has reached its limits, and allows nothing but the text's end."""

    sequence: int
    compiled: Compiled
    """The structure that it began with. All texts of it fail, or most."""
    reason: str


class _Text(NamedTuple):
    compiled: Compiled
    matcher: Compiled  # its copy


class _Step(NamedTuple):
    buffers: DecodeBuffers
    rows: Sequence[Row]


class Masks:
    """Follows the sequences of a lane that have a structure. Steps are given in the order of their launch.

    The masks of a step need the tokens of the one before, if that has masks too. On a CPU a step that is launched
    before they are known waits for its masks on the device, behind its logits: so two steps stay in flight. A GPU's
    lane holds it until they are there. They are computed on a thread of their own, without the GIL, and never while a
    step before theirs reads masks.
    """

    def __init__(self) -> None:
        from llguidance import LLExecutor

        self._executor = LLExecutor(_THREADS)
        self._thread = ThreadPoolExecutor(1, "masks")
        self._texts: dict[int, _Text] = {}  # their matchers are touched by the thread alone, once they run
        self._failed: dict[int, Failed] = {}  # of the steps in flight
        self._behind: _Step | None = None  # launched, and the step before it is not retired
        self._rows: dict[int, Sequence[Row]] = {}  # of the steps in flight, by their buffers
        self._computed: Future[None] | None = None

    def begin(self, sequence: int, compiled: Compiled) -> None:
        """A sequence that joins the next step."""
        self._texts[sequence] = _Text(compiled, compiled.deep_copy())

    def launch(self, buffers: DecodeBuffers, rows: Sequence[Row], behind: bool) -> None:
        """A step with masked rows is launched next. ``behind``: the step before it is in flight."""
        going = {sequence for _, sequence in rows}
        self._texts = {each: text for each, text in self._texts.items() if each in going}
        before_has_masks = bool(self._rows)
        chosen = [row for row in rows if not _is_scripted(buffers, row[0])]
        self._rows[id(buffers)] = chosen
        step = _Step(buffers, chosen)
        if behind and before_has_masks:
            self._behind = step
        else:
            self._submit(step, ())

    def retire(self, buffers: DecodeBuffers) -> list[Failed]:
        """A step has ended, with masked rows or without: its tokens decide about the step behind it.

        Returns those that failed before their tokens of this step, which mean nothing. Such a sequence is in later
        steps until its caller ends it.
        """
        rows, behind = self._rows.pop(id(buffers), ()), self._behind
        self._behind = None
        failed = {sequence: self._failed.pop(sequence) for _, sequence in rows if sequence in self._failed}
        made = [
            (sequence, int(buffers.tokens[run]))
            for run, sequence in rows
            if not buffers.finish[run] and sequence not in failed
        ]
        if made or behind:
            self._submit(behind, made)
        return list(failed.values())

    def close(self) -> None:
        """No step is in flight."""
        self._thread.shutdown()

    def _submit(self, step: _Step | None, made: Sequence[tuple[int, int]]) -> None:
        taken = [(text.matcher, token) for sequence, token in made if (text := self._texts.get(sequence))]
        rows = (
            [(run, sequence, self._texts[sequence]) for run, sequence in step.rows if sequence in self._texts]
            if step
            else []
        )
        before, self._computed = self._computed, self._thread.submit(self._compute, step and step.buffers, rows, taken)
        if before:
            before.result()  # raises what it raised; the step that was submitted now ends all the same

    def _compute(
        self,
        buffers: DecodeBuffers | None,
        rows: list[tuple[int, int, _Text]],
        taken: list[tuple[Compiled, int]],
    ) -> None:
        try:
            if taken:
                self._executor.consume_token_par(taken)
            if buffers is not None and rows:
                masks = buffers.masks
                self._executor.unsafe_compute_mask_ptr(
                    [(text.matcher, run) for run, _, text in rows], masks.ctypes.data, masks.strides[0], len(masks)
                )
            for _, sequence, (compiled, matcher) in rows:
                if matcher.is_error():
                    self._failed[sequence] = Failed(sequence, compiled, reason(matcher))
        finally:
            if buffers is not None:
                buffers.release_masks()


def _is_scripted(buffers: DecodeBuffers, run: int) -> bool:
    """Whether the run's token is given: it is one of a prompt whose log-probabilities are wanted."""
    return bool(buffers.header[HEADER_TARGETS] and buffers.targets[run, 0])
