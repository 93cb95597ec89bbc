"""A model's steps in this process, as a dispatcher runs them: the same lanes and runners, nobody who asks."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fastqps._core import DecodeBatch
from fastqps.config import decide, load
from fastqps.devices import make_runner
from fastqps.models.cards import load_card
from fastqps.runners import StepBuffers
from fastqps.runners.lane import Lane, make_lane, make_lanes
from fastqps.supervisor.plan import make_plan

STEPS = 2  # in flight on a lane
Made = tuple[int, int, int]  # what a lane's launch takes


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


def open_lane(settings: dict[str, Any]) -> Lane[Any]:
    """The model on the device, as a dispatcher of a server with these settings would have them."""
    config = decide(load(settings, os.environ, None).config)
    plan = make_plan(config)
    room = plan.rooms[0]
    runner = make_runner(
        plan.devices[0].spec,
        plan.cards[0],
        room.items,
        room.tokens,
        dtype=config.dtype,
        quantization=config.quantization,
        kernels=config.kernels,
        threads=plan.threads,
    )
    return make_lane(runner, 1)


def equal_texts(lane: Lane[Any], items: int, length: int) -> Made:
    """Fills the next step's buffers; the three numbers that its launch takes."""
    runner = lane.runners[0]
    fill(runner.buffers(), runner.card.vocab_size, runner.card.position_offset, items, length)
    return items, items * length, items


class DecodeMix:
    """``running`` sequences that go on with one row each, and ``prompts`` of ``length`` tokens in every step.

    ``run`` runs one step to its end.
    """

    def __init__(self, lane: Lane[Any], running: int, prompts: int, length: int, run: Callable[[Made], float]) -> None:
        self._runner, self._run = lane.runners[0], run
        self._wanted, self._prompts, self._length = running, prompts, length
        buffers = self._runner.buffers()
        self._room = max(1, (buffers.max_tokens - running) // length)  # prompts of a step that only fills
        self._batch = DecodeBatch(buffers.max_runs, len(self._runner.card.prefix_ids))
        self._step = self._batch.add(**buffers.blocks())
        self._users: set[int] = set()
        self._named = 0

    def once(self) -> float:
        """One such step; µs, as ``run`` says. Sequences that have ended before are replaced, which is not timed."""
        while len(self._users) < self._wanted:
            self._one(min(self._room, self._wanted - len(self._users)))
        before = set(self._users)
        took_us = self._one(self._prompts)
        for user in self._users - before:  # as many run in the next one
            self._batch.drop(user)
        self._users &= before
        return took_us

    def close(self) -> None:
        """Gives the places of its sequences back."""
        for user in self._users:
            self._batch.drop(user)
        self._users = set()

    def _one(self, prompts: int) -> float:
        card = self._runner.card
        ids = [i * 7919 % card.vocab_size for i in range(1, self._length + 1)]
        self._batch.begin(self._step)
        for _ in range(prompts):
            self._named += 1
            ids[0] = self._named % card.vocab_size  # equal prompts would be computed once
            max_tokens = card.max_output_tokens
            self._batch.admit(self._step, ids, user=self._named, max_tokens=max_tokens, ignore_eos=True)
            self._users.add(self._named)
        took_us = self._run(self._batch.seal(self._step))
        ended = {user for user, *_, finish, _ in self._batch.retire(self._step) if finish}
        self._users -= ended
        return took_us
