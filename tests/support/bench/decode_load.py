"""A decoder server under Poisson arrivals, simulated step by step: how many rows its graphs compute, and hold."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from fastqps.devices.cuda.buckets import Shape, closest_shape
from fastqps.devices.cuda.demand import Demand, smallest

FIXED_US, ROW_US = 400.0, 1.0  # a step's time: so much, and so much for each row that its graph computes
APART_US = 1_000_000.0  # between two captures of 0.1 s each, of a tenth of the time


@dataclass(frozen=True)
class Waste:
    """What a run has computed. ``rows`` and ``runs``: shares computed beyond those held; ``running``: mean of runs."""

    rows: float
    runs: float
    running: float


def within(shapes: Sequence[Shape]) -> Callable[[int, int], Shape]:
    """Chooses among these graphs."""
    return cache(lambda tokens, items: smallest(shapes, Shape(tokens, items)))


class OnDemand:
    """Graphs of a lane that captures what its steps want, one in a second. ``most``: rows and runs of a step."""

    def __init__(self, shapes: Sequence[Shape], most: Shape) -> None:
        self.shapes, self._most = list(shapes), most
        self._choose, self._demand, self._left_us = within(self.shapes), Demand(), APART_US

    def __call__(self, tokens: int, items: int) -> Shape:
        used = self._choose(tokens, items)
        if (closest := closest_shape(tokens, items, *self._most)) not in self.shapes:
            self._demand.note(closest, used)
        self._left_us -= FIXED_US + ROW_US * used.tokens
        if self._left_us < 0 and (wanted := self._demand.best_shape(self.shapes)):
            self.shapes.append(wanted)
            self._choose, self._left_us = within(self.shapes), APART_US
        return used


def simulate(
    choose: Callable[[int, int], Shape],
    load: float,
    *,
    slots: int = 1024,
    prompt: int = 50,
    answer: int = 50,
    prompt_rows_max: Callable[[int], int] = lambda running: 16_384,
    steps: int = 20_000,
    seed: int = 1,
) -> Waste:
    """Steps of continuous batching: a row of each running sequence, and the prompts that wait, as there is room. The
    second half of them counts.

    load: arrivals, by which ``load * slots`` sequences would run if no row were wasted. prompt_rows_max: of a step, by
    the sequences that run; one prompt may always join.
    """
    chance = np.random.default_rng(seed)
    running = load * slots
    per_us = running / (answer * (FIXED_US + ROW_US * running * (prompt + answer - 1) / answer))
    joined: deque[int] = deque([0] * (answer - 1), answer - 1)  # how many in each of the steps before
    queued, held, computed = 0, np.zeros(2), np.zeros(2)
    for step in range(steps):
        going = sum(joined)
        new = min(queued, slots - going, max(1, prompt_rows_max(going) // prompt))
        joined.append(new)
        queued -= new
        rows, runs = going + new * prompt, going + new
        shape = choose(rows, runs) if runs else Shape(0, 0)
        queued += int(chance.poisson(per_us * (FIXED_US + ROW_US * shape.tokens)))
        if step > steps // 2:
            held += rows, runs
            computed += shape
    waste = computed / held - 1
    return Waste(float(waste[0]), float(waste[1]), float(held[1] / (steps - steps // 2 - 1)))
