"""Counts steps that ran in too large a graph, to choose the one to capture next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from fastqps.devices.cuda.buckets import Shape

STEPS_MIN = 8  # of a size, before it counts as usual
_WORTH = 32  # a graph that saves a step less than this part of its rows and runs is not worth its capture
_FORGET_AT = 4096  # steps, after which older ones count half


class Demand:
    """The steps by the graph that would have fitted them."""

    def __init__(self) -> None:
        self._steps: Counter[Shape] = Counter()
        self._counted = 0
        self._news = False  # a size has become usual, or more so, since ``best_shape`` found none

    def note(self, closest: Shape, used: Shape) -> None:
        """A step for which ``closest`` would have been enough ran in ``used``."""
        if not _saved(closest, used):
            return
        self._steps[closest] += 1
        self._news |= self._steps[closest] % STEPS_MIN == 0
        self._counted += 1
        if self._counted == _FORGET_AT:
            self._counted //= 2
            self._steps = Counter({shape: steps // 2 for shape, steps in self._steps.items() if steps > 1})

    def best_shape(self, graphs: Collection[Shape]) -> Shape | None:
        """The shape that would have saved the counted steps most, beside these graphs; None where no size is usual."""
        if not self._news:
            return None
        for shape in graphs:
            self._steps.pop(shape, None)
        best, saved_max = None, 0
        for shape, steps in self._steps.items():
            if steps >= STEPS_MIN and (saved := steps * _saved(shape, smallest(graphs, shape))) > saved_max:
                best, saved_max = shape, saved
        self._news = best is not None
        return best


def smallest(graphs: Collection[Shape], step: Shape) -> Shape:
    """The graph in which a step runs, by the rule of csrc/step/cuda/cuda_step.cpp: of those that hold it the one with
    the fewest rows, and of these the fewest runs."""
    return min(graph for graph in graphs if graph.tokens >= step.tokens and graph.items >= step.items)


def _saved(closest: Shape, used: Shape) -> int:
    """Rows and runs; 0 where that is too little."""
    saved = sum(used) - sum(closest)
    return saved if saved * _WORTH >= sum(used) else 0
