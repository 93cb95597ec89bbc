"""A decoder server under Poisson arrivals, simulated step by step: how many rows its graphs compute, and hold."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fastqps.devices.cuda.buckets import Shape

FIXED_US, ROW_US = 400.0, 1.0  # a step's time: so much, and so much for each row that its graph computes


@dataclass(frozen=True)
class Waste:
    """What a run has computed. ``rows`` and ``runs``: shares computed beyond those held; ``running``: mean of runs."""

    rows: float
    runs: float
    running: float


def smallest(shapes: Sequence[Shape]) -> Callable[[int, int], Shape]:
    """The rule of csrc/step/cuda/cuda_step.cpp: of the fewest rows that hold the step, and of these the fewest runs."""
    ordered = sorted(shapes)
    rows = [shape.tokens for shape in ordered]

    def choose(tokens: int, items: int) -> Shape:
        return next(shape for shape in ordered[bisect_left(rows, tokens) :] if shape.items >= items)

    return choose


def simulate(
    shapes: Sequence[Shape],
    load: float,
    *,
    slots: int = 1024,
    prompt: int = 50,
    answer: int = 50,
    prompt_rows_max: Callable[[int], int] = lambda running: 16_384,
    steps: int = 2000,
    seed: int = 1,
) -> Waste:
    """Steps of continuous batching: a row of each running sequence, and the prompts that wait, as there is room.

    load: arrivals, by which ``load * slots`` sequences would run if no row were wasted. prompt_rows_max: of a step, by
    the sequences that run; one prompt may always join.
    """
    chance, choose = np.random.default_rng(seed), smallest(shapes)
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
        if step > 3 * answer:
            held += rows, runs
            computed += shape
    waste = computed / held - 1
    return Waste(float(waste[0]), float(waste[1]), float(held[1] / (steps - 3 * answer - 1)))
