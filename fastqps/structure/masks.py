"""Token masks of the running sequences of one lane, computed beside the device."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeAlias

from fastqps._core import HEADER_TARGETS
from fastqps.host.machine import usable_cores
from fastqps.runners.decode_buffers import DecodeBuffers
from fastqps.structure.vocabulary import Compiled, reason

_THREADS_MAX = 8  # that compute masks: one takes 10 us, or 50 us of a large vocabulary


class Failed(NamedTuple):
    """A sequence whose automaton has failed: it has reached its limits, and allows nothing but the text's end."""

    sequence: int
    compiled: Compiled
    """The structure that it began with. All texts of it fail, or most."""
    reason: str


class _Text(NamedTuple):
    compiled: Compiled
    matcher: Compiled  # its copy


_Row: TypeAlias = tuple[int, int, _Text]  # the run and the sequence


class _Step(NamedTuple):
    buffers: DecodeBuffers
    rows: Sequence[_Row]


class Masks:
    """Follows the sequences of a lane that have a structure. Steps are given in the order of their launch.

    The masks of a step need the tokens of the one before, if that has masks too. On a CPU a step that is launched
    before they are known waits for its masks on the device, behind its logits: so two steps stay in flight. A GPU's
    lane holds it until they are there. They are computed on threads of their own, without the GIL, and never while a
    step before theirs reads masks.
    """

    def __init__(self) -> None:
        from llguidance import LLExecutor

        self._executor = LLExecutor(max(1, min(_THREADS_MAX, usable_cores() // 2)))
        self._thread = ThreadPoolExecutor(1, "masks")
        self._texts: dict[int, _Text] = {}  # while masks of a step are computed, its matchers are the thread's alone
        self._behind: _Step | None = None  # launched, and the step before it is not retired
        self._rows: dict[int, Sequence[_Row]] = {}  # of the steps in flight, by their buffers
        self._computed: Future[None] | None = None

    def begin(self, sequence: int, compiled: Compiled) -> None:
        """A sequence that joins the next step."""
        self._texts[sequence] = _Text(compiled, compiled.deep_copy())

    def launch(self, buffers: DecodeBuffers, rows: Sequence[tuple[int, int]], behind: bool) -> None:
        """A step with masked rows, each a run and its sequence, is launched next. ``behind``: the step before it is in
        flight."""
        texts = self._texts
        if len(texts) > len(rows):  # some have ended
            self._texts = texts = {sequence: texts[sequence] for _, sequence in rows}
        if buffers.header[HEADER_TARGETS]:  # a script's tokens are given
            scripted = buffers.targets[:, 0].tolist()
            rows = [row for row in rows if not scripted[row[0]]]
        step = _Step(buffers, [(run, sequence, texts[sequence]) for run, sequence in rows])
        before_has_masks = bool(self._rows)
        self._rows[id(buffers)] = step.rows
        if behind and before_has_masks:
            self._behind = step
        else:
            self._submit(step, [])

    def retire(self, buffers: DecodeBuffers) -> list[Failed]:
        """A step has ended, with masked rows or without: its tokens decide about the step behind it.

        Returns those that failed before their tokens of this step, which mean nothing.
        """
        rows, behind = self._rows.pop(id(buffers), ()), self._behind
        self._behind = None
        if not rows and not behind:
            return []
        tokens, finish = buffers.tokens.tolist(), buffers.finish.tolist()
        failed = [  # before the step behind, which may hold them again, uses their matchers
            Failed(sequence, text.compiled, reason(text.matcher))
            for run, sequence, text in rows
            if finish[run] and text.matcher.is_error()
        ]
        made = [(text.matcher, tokens[run]) for run, _, text in rows if not finish[run]]
        if made or behind:
            self._submit(behind, made)
        return failed

    def close(self) -> None:
        """No step is in flight."""
        self._thread.shutdown()

    def _submit(self, step: _Step | None, made: list[tuple[Compiled, int]]) -> None:
        before, self._computed = self._computed, self._thread.submit(self._compute, step, made)
        if before:
            before.result()  # raises what it raised; the step that was submitted now ends all the same

    def _compute(self, step: _Step | None, made: list[tuple[Compiled, int]]) -> None:
        try:
            if made:
                self._executor.consume_token_par(made)
            if step and step.rows:
                masks = step.buffers.masks
                self._executor.unsafe_compute_mask_ptr(
                    [(text.matcher, run) for run, _, text in step.rows], masks.ctypes.data, masks.strides[0], len(masks)
                )
        finally:
            if step:
                step.buffers.release_masks()
