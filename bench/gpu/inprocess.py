"""A model's steps in this process, as a dispatcher runs them: the same lanes and runners, nobody who asks."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path

import numpy as np

from fastqps.devices import make_runner
from fastqps.models.cards import load_card
from fastqps.runners import StepBuffers
from fastqps.runners.lane import make_lanes

STEPS = 2  # in flight on a lane


class EncoderLoop:
    """Full batches of texts of one length on ``lanes`` lanes, each with the next step behind the one that runs.

    A step is what a server's is: copy in, graph, copy out, rows in host memory. What is missing: reading requests,
    tokenizing, packing and answering.
    """

    def __init__(self, device: str, model: Path, *, items: int, tokens: int, lanes: int, dtype: str) -> None:
        card = load_card(str(model), max(tokens, 16))
        runner = make_runner(device, card, items, items * tokens, dtype=dtype)
        self._lanes = make_lanes(runner, lanes, STEPS)
        self._items, self._tokens = items, tokens
        for lane in self._lanes:
            lane.warm_up()
            for number, each in enumerate(lane.runners):
                fill(each.buffers(), card.vocab_size, card.position_offset, items, tokens, seed=number)

    def rate(self, seconds: float) -> float:
        """Sequences per second."""
        order = deque((lane, step) for step in range(STEPS) for lane in self._lanes)
        for lane, step in order:
            lane.launch(step, self._items, self._items * self._tokens, self._items)
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            lane, step = order[0]
            lane.wait(step)
            lane.launch(step, self._items, self._items * self._tokens, self._items)
            order.rotate(-1)
            done += self._items
        took = time.perf_counter() - began
        for lane, step in order:
            lane.wait(step)
        return done / took

    def close(self) -> None:
        """Gives the device back."""
        for lane in self._lanes:
            lane.close()


def fill(b: StepBuffers, vocab: int, offset: int, items: int, length: int, seed: int = 0) -> None:
    """Items of one length, with random tokens."""
    tokens = items * length
    b.input_ids[:tokens] = np.random.default_rng(seed).integers(5, vocab, tokens)
    b.token_type_ids[:tokens] = 0
    b.position_ids[:tokens] = offset + np.arange(tokens) % length
    b.cu_seqlens[: items + 1] = np.arange(items + 1) * length
