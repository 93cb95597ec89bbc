"""Measures the cost of steps on a device: ``python -m fastqps.bench.steps.step_costs JSON``, a dispatcher without a
server.

It runs steps through the same runners and lanes. A line of JSON on stdin asks for something, lines of JSON on stdout
answer, the last of them ``{"done": true}``. ``StepProcess`` is the other side.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

import numpy as np

from fastqps._core import DecodeBatch
from fastqps.config import decide, load
from fastqps.devices import make_runner
from fastqps.errors import FastqpsError
from fastqps.runners import DecodeBuffers, Runner, StepBuffers
from fastqps.runners.kinds import DECODE, ENCODE, StepKind, step_kind
from fastqps.runners.lane import Lane, make_lane
from fastqps.supervisor.plan import make_plan
from fastqps.terminal import say

Shape = tuple[int, int]  # items, tokens of each
LENGTHS = (8, 32, 128)
ROUNDS_MIN, ROUNDS_MAX = 5, 40
MEASURE_S = 8.0  # then ROUNDS_MIN are enough
LONG_US = 20_000.0
SHORT_REPEATS = 3  # of shorter steps, behind one that does not count


@dataclass(frozen=True)
class Cost:
    """The cost of a step of this shape: medians, in µs. ``launch_us`` is CPU time of the thread that launches."""

    tokens: int
    items: int
    us: float
    launch_us: float


class Steps(Protocol):
    """Steps of chosen shapes on one lane."""

    lane: Lane[Any]

    def shapes(self) -> list[Shape]:
        """The shapes to measure, the cheapest first."""

    def prepare(self, shape: Shape) -> tuple[int, int, int]:
        """Fills the next step's buffers; the three numbers that its launch takes."""

    def retire(self) -> None:
        """The step has been waited for."""


class EncoderSteps:
    """Items of one length, side by side."""

    def __init__(self, runner: Runner[StepBuffers]) -> None:
        self._runner = runner
        self.lane: Lane[Any] = make_lane(runner, 1)

    def shapes(self) -> list[Shape]:
        """Items from one to a full batch, of each length."""
        b = self._runner.buffers()
        longest = min(self._runner.card.max_input_tokens, b.max_tokens)
        lengths = sorted({min(length, longest) for length in LENGTHS})
        found = [(n, length) for length in lengths for n in _growing(min(b.max_items, b.max_tokens // length), 4)]
        return sorted(found, key=lambda shape: shape[0] * shape[1])

    def prepare(self, shape: Shape) -> tuple[int, int, int]:
        n, length = shape
        b, card = self._runner.buffers(), self._runner.card
        tokens = n * length
        b.input_ids[:tokens] = np.arange(tokens) * 7919 % card.vocab_size
        b.token_type_ids[:tokens] = 0
        b.position_ids[:tokens] = card.position_offset + np.arange(tokens) % length
        b.cu_seqlens[: n + 1] = np.arange(n + 1) * length
        return n, tokens, n

    def retire(self) -> None:
        """Its rows are not looked at."""


class DecoderSteps:
    """Sequences that start together: prompts of equal length, or one more row for each (length 1).

    ``beside``: prompts that join each step of one more row, for that step alone.
    """

    def __init__(self, runner: Runner[DecodeBuffers]) -> None:
        self._runner = runner
        self.lane: Lane[Any] = make_lane(runner, 1)
        self._batch = DecodeBatch(runner.buffers().max_runs, len(runner.card.prefix_ids))
        self._step = self._batch.add(**runner.buffers().blocks())
        self._running: list[int] = []
        self._wanted = self._named = 0
        self.beside: Shape = (0, 0)

    def shapes(self) -> list[Shape]:
        """Sequences from one to all that can run: in their prompts, and behind them."""
        b, card = self._runner.buffers(), self._runner.card
        length = min(LENGTHS[1], card.max_input_tokens)
        prompts = [(n, length) for n in _growing(min(b.max_runs, b.max_tokens // length), 2)]
        return sorted([*prompts, *((n, 1) for n in _growing(b.max_runs, 2))], key=lambda shape: shape[0] * shape[1])

    def prepare(self, shape: Shape) -> tuple[int, int, int]:
        n, length = shape
        self._wanted = n
        if length > 1 or len(self._running) != n:
            self._drop_all()
        if not self._running:
            most = min(LENGTHS[1], self._runner.card.max_input_tokens)
            per_step = n if length > 1 else max(1, (self._runner.buffers().max_tokens - n) // most)
            while len(self._running) < n:
                made = self._begin(min(per_step, n - len(self._running)), length if length > 1 else most)
                if length > 1:
                    return made
                self.lane.launch(self._step, *made)  # they get their prompts behind them, which is not measured
                self.lane.wait(self._step)
                self.retire()
        return self._begin(*self.beside)

    def retire(self) -> None:
        over = {user for user, _, _, finish in self._batch.retire(self._step) if finish}
        going = [user for user in self._running if user not in over]
        self._running = going[: self._wanted]
        for user in going[self._wanted :]:
            self._batch.drop(user)

    def _begin(self, n: int, length: int) -> tuple[int, int, int]:
        self._batch.begin(self._step)
        ids = [i * 7919 % self._runner.card.vocab_size for i in range(1, length + 1)]
        for _ in range(n):
            self._named += 1
            most = self._runner.card.max_output_tokens
            self._batch.admit(self._step, ids, user=self._named, max_tokens=most, ignore_eos=True)
            self._running.append(self._named)
        return self._batch.seal(self._step)

    def _drop_all(self) -> None:
        for user in self._running:
            self._batch.drop(user)
        self._running = []


def open_steps(settings: dict[str, Any], config_file: str) -> Steps:
    """The model on the device, as a dispatcher of a server with these settings would have them."""
    config = decide(load(settings, os.environ, config_file or None).config)
    plan = make_plan(config)
    card, room, device = plan.cards[0], plan.rooms[0], plan.devices[0].spec
    runner = make_runner(
        device,
        card,
        room.items,
        room.tokens,
        dtype=config.dtype,
        quantization=config.quantization,
        kernels=config.kernels,
        threads=plan.threads,
    )
    return _STEPS[step_kind(card)](runner)


_STEPS: dict[StepKind, Callable[[Any], Steps]] = {ENCODE: EncoderSteps, DECODE: DecoderSteps}


def measure(steps: Steps) -> list[Cost]:
    """Each shape, warm, in rounds over all of them: what the machine does meanwhile meets them all alike."""
    shapes = steps.shapes()
    taken: dict[Shape, list[Cost]] = {shape: [] for shape in shapes}
    began = time.monotonic()
    for count in range(ROUNDS_MAX):
        if count >= ROUNDS_MIN and time.monotonic() - began > MEASURE_S:
            break
        for shape in shapes:
            first = _once(steps, shape)
            long = first.us > LONG_US  # then what was in the caches before makes no difference
            taken[shape] += [first] if long else [_once(steps, shape) for _ in range(SHORT_REPEATS)]
    return [_median(taken[shape]) for shape in shapes]


def _median(costs: Sequence[Cost]) -> Cost:
    us, launch_us = (median(getattr(cost, name) for cost in costs) for name in ("us", "launch_us"))
    return Cost(costs[0].tokens, costs[0].items, us, launch_us)


def period_us(steps: Steps, shape: Shape, from_ns: int, for_s: float) -> float:
    """Mean time from step to step of this shape, from that moment of CLOCK_MONOTONIC on."""
    while time.monotonic_ns() < from_ns - 20_000_000:  # somebody else begins then too, and both are warm
        _once(steps, shape)
    time.sleep(max(0.0, (from_ns - time.monotonic_ns()) * 1e-9))
    began, count = time.monotonic_ns(), 0
    while time.monotonic_ns() - began < for_s * 1e9:
        _once(steps, shape)
        count += 1
    return (time.monotonic_ns() - began) / count / 1000


def _once(steps: Steps, shape: Shape) -> Cost:
    made = steps.prepare(shape)
    before = time.thread_time_ns()
    steps.lane.launch(0, *made)
    launched = time.thread_time_ns()
    steps.lane.wait(0)
    start_ns, end_ns = steps.lane.runners[0].buffers().stamps.tolist()
    steps.retire()
    items, tokens, _ = made
    return Cost(tokens, items, (end_ns - start_ns) / 1000, (launched - before) / 1000)


def _growing(most: int, factor: int) -> list[int]:
    found = [1]
    while found[-1] * factor < most:
        found.append(found[-1] * factor)
    return found if most == 1 else [*found, most]


def main(text: str) -> int:
    """Measures the requested shapes until its input ends."""
    asked = json.loads(text)
    steps = open_steps(asked["settings"], asked["config_file"])
    steps.lane.warm_up()
    _say({"done": True})
    for line in sys.stdin:
        asked = json.loads(line)
        if "shape" in asked:
            _say({"period_us": period_us(steps, tuple(asked["shape"]), asked["from_ns"], asked["for_s"])})
        else:
            for cost in measure(steps):
                _say({"tokens": cost.tokens, "items": cost.items, "us": cost.us, "launch_us": cost.launch_us})
        _say({"done": True})
    steps.lane.close()
    return 0


def _say(found: dict[str, Any]) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except FastqpsError as error:
        say(error)
        sys.exit(error.exit_code)
