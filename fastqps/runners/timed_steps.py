"""Times a dispatcher's steps of chosen sizes, before its first request."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from fastqps.models.card import ModelCard
from fastqps.runners import AsyncRunner
from fastqps.runners.buffers import StepBuffers
from fastqps.runners.decode_buffers import DecodeBuffers
from fastqps.runners.first_steps import Size, fill_items, fill_rows, usual_tokens
from fastqps.runners.lane import Lane

BLOCK_S = 0.01  # of steps of one size behind each other: the noise of a machine is in all sizes alike
_LONG_S = 0.02  # a step beside which the gap to the next one is nothing


class TimedSteps:
    """Runs steps through all lanes as a dispatcher under load does: the next one waits on the lane behind each.

    Items have the usual number of tokens. Of a decoder, a step has one row for each running sequence. On a device that
    works by itself, it holds as many rows of prompts besides, as under load where answers are about as long as prompts;
    and each sequence reads as much of the cache as is usual. ``clock`` counts the seconds: of the process's CPU time,
    where the device is one thread of it and others may run on its CPU.
    """

    def __init__(
        self, card: ModelCard, lanes: Sequence[Lane[Any]], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._clock = clock
        self._card = card
        self._places = [(lane, i) for i in range(len(lanes[0].runners)) for lane in lanes]
        self._step_s: dict[int, float] = {}
        self._cached: dict[Lane[Any], int] = {}  # sequences with positions in a lane's cache
        b = self._buffers(*self._places[0])
        self._length = min(usual_tokens(card), b.max_tokens)
        self.items_max = b.max_runs if isinstance(b, DecodeBuffers) else min(b.max_items, b.max_tokens // self._length)

    def __call__(self, size: int, for_s: float = BLOCK_S) -> tuple[float, int]:
        """Steps of ``size`` items for so long, at least one: (seconds, steps)."""
        # The largest size below says how long this one takes at least.
        expected_s = max((s for n, s in self._step_s.items() if n <= size), default=0.0)
        places = self._places if expected_s < _LONG_S else self._places[:1]
        sizes = [self._fill(lane, i, size) for lane, i in places]
        if size not in self._step_s and expected_s < _LONG_S:
            self._run(places, sizes, 0.0)  # libraries prepare what they need for a new size
        seconds, steps = self._run(places, sizes, for_s)
        self._step_s[size] = seconds / steps
        return seconds, steps

    def _run(self, places: Sequence[tuple[Lane[Any], int]], sizes: Sequence[Size], for_s: float) -> tuple[float, int]:
        began, steps = self._clock(), 0
        busy = _Busy()
        while not steps or self._clock() - began < for_s:
            for (lane, i), size in zip(places, sizes, strict=True):
                if steps >= len(places):
                    lane.wait(i)
                    busy.add(lane, i)
                lane.launch(i, *size)
                steps += 1
        for lane, i in places:
            lane.wait(i)
            busy.add(lane, i)
        return busy.seconds or self._clock() - began, steps

    def _fill(self, lane: Lane[Any], i: int, size: int) -> Size:
        b = self._buffers(lane, i)
        if not isinstance(b, DecodeBuffers):
            return fill_items(self._card, b, size, self._length)
        prefix_len = len(self._card.prefix_ids)
        if not isinstance(lane.runners[i], AsyncRunner):
            return fill_rows(b, prefix_len, [1] * size)
        place = min(self._length * 3 // 2, self._card.max_input_tokens, b.max_tokens)  # the mean, answers as long
        self._cache(lane, i, size, place)
        # A prompt for each ``_length`` sequences, the last one shorter; beside it one row of each other sequence.
        rows = min(size, b.max_tokens - size)
        prompts = [min(self._length, rows - done) for done in range(0, rows, self._length)]
        running = size - len(prompts)
        return fill_rows(b, prefix_len, [*prompts, *[1] * running], [*[0] * len(prompts), *[place] * running])

    def _cache(self, lane: Lane[Any], i: int, size: int, length: int) -> None:
        """Computes the first ``length`` positions of so many sequences: nothing else was ever written there."""
        b = self._buffers(lane, i)
        assert isinstance(b, DecodeBuffers)
        while (first := self._cached.get(lane, 0)) < size:
            runs = min(size - first, b.max_tokens // length)
            lane.launch(i, *fill_rows(b, len(self._card.prefix_ids), [length] * runs, first_slot=first))
            lane.wait(i)
            self._cached[lane] = first + runs

    @staticmethod
    def _buffers(lane: Lane[Any], i: int) -> StepBuffers | DecodeBuffers:
        buffers: StepBuffers | DecodeBuffers = lane.runners[i].buffers()
        return buffers


class _Busy:
    """The time in which a device that works by itself ran steps: a host that launches the next one late is no part of
    what a step takes."""

    def __init__(self) -> None:
        self.seconds = 0.0  # 0: the steps run on the host
        self._until_ns = 0

    def add(self, lane: Lane[Any], i: int) -> None:
        """Counts a step that has ended, without what it ran beside those before."""
        if not isinstance(lane.runners[i], AsyncRunner):
            return
        start_ns, end_ns = lane.runners[i].buffers().stamps.tolist()
        self.seconds += max(0, end_ns - max(start_ns, self._until_ns)) / 1e9
        self._until_ns = max(self._until_ns, end_ns)
