"""From measured steps to the costs of a profile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import median

import numpy as np

from fastqps.bench.steps.step_costs import Cost

DEVIATION_MAX = 0.10  # beyond it a straight line does not do, and a table takes its place


def straight(costs: Sequence[Cost]) -> tuple[float, float, float]:
    """(fixed, per token, per item) in µs, none below 0, whose relative errors have the least squares."""
    rows = np.array([[1.0, c.tokens, c.items] for c in costs]) / np.array([[c.us] for c in costs])
    best, least = np.zeros(3), math.inf
    for k in (1, 2, 3):
        for kept in combinations(range(3), k):
            found = np.zeros(3)
            found[list(kept)] = np.linalg.lstsq(rows[:, kept], np.ones(len(costs)), rcond=None)[0]
            error = float(((rows @ found - 1) ** 2).sum())
            if (found >= 0).all() and error < least * (1 - 1e-9):
                best, least = found, error
    fixed, per_token, per_item = map(float, best)
    return fixed, per_token, per_item


def deviation(costs: Sequence[Cost], predicted: Sequence[float]) -> float:
    """The relative deviation of the worst step."""
    return max(abs(us / cost.us - 1) for cost, us in zip(costs, predicted, strict=True))


def table(costs: Sequence[Cost], fixed: float, per_item: float) -> tuple[tuple[float, float], ...]:
    """(tokens, µs) of what neither the fixed part nor the items explain, growing."""
    rest: dict[int, list[float]] = {}
    for cost in costs:
        rest.setdefault(cost.tokens, []).append(max(0.0, cost.us - fixed - per_item * cost.items))
    points: list[tuple[float, float]] = []
    for tokens in sorted(rest):
        least = points[-1][1] if points else 0.0
        points.append((float(tokens), round(max(least, median(rest[tokens])), 2)))
    return tuple(points)


def overlap(alone_us: float, together_us: float, fixed_us: float) -> float:
    """What share of the fixed part another stream can make use of, from the time between two steps of one stream:
    alone, and beside another that does the same. 0: two take twice as long; 1: all of the fixed part is made use of."""
    if fixed_us <= 0:
        return 0.0
    return min(1.0, max(0.0, (2 * alone_us - together_us) / (2 * fixed_us)))
