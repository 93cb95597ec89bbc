"""Which sizes of steps have a captured graph, and why these.

A graph computes so many rows however few the step holds, so a step runs in the smallest graph that holds it. More
graphs waste fewer rows; each costs time at start-up and some memory. Where a step takes the same time however few its
rows are, a finer size would gain nothing: there the sizes are far apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd
from typing import NamedTuple

TILE = 128  # rows of the tile that large matrix products are cut into
_SMALLEST = 64  # tokens: below, a step's time is its kernels' latency
_ROWS_MIN = 16  # rows of a decoder's smallest graph: the tensor cores' tile
_FINE_FROM = 1024  # tokens: from here up a step's time grows with its rows
_RUNS_APART = 4  # factor between the run counts of the graphs that cover all


class Shape(NamedTuple):
    """How much a graph holds. Of a decoder, ``tokens`` are its rows and ``items`` its runs."""

    tokens: int
    items: int


def encoder_buckets(max_tokens: int, width: int, multiprocessors: int) -> tuple[int, ...]:
    """Token counts of an encoder's graphs, ascending; the last is ``max_tokens``.

    Eight sizes to each doubling from 1,024 tokens up, so at most an eighth is wasted there; four below, from 256; two
    below that. To these come the sizes whose tiles of 128 × 128 fill all multiprocessors without a rest, for products
    with ``width`` outputs or a multiple of it: the next smaller and larger ones run a last round for a few tiles.
    """
    found = set(_ladder(max_tokens)) | set(full_waves(max_tokens, width, multiprocessors))
    return (*sorted(found - {max_tokens}), max_tokens)


def full_waves(max_tokens: int, width: int, multiprocessors: int) -> range:
    """Token counts up to ``max_tokens`` at which the tiles of ``width`` outputs fill whole rounds."""
    columns = max(1, width // TILE)
    wave = TILE * (multiprocessors // gcd(multiprocessors, columns))
    return range(wave, max_tokens + 1, wave)


def _ladder(most: int) -> Iterator[int]:
    octave = _SMALLEST
    while octave < most:
        parts = 8 if octave >= _FINE_FROM else 4 if octave >= 256 else 2
        yield from (size for size in range(octave, 2 * octave, octave // parts) if size < most)
        octave *= 2


def covering_shapes(max_tokens: int, max_runs: int, prompt_max: int) -> list[Shape]:
    """The fewest shapes of a decoder's graphs with which every step has one, the largest first.

    Runs a factor of 4 apart, rows a factor of 2: a run has one row, or all of a prompt of up to ``prompt_max``.
    """
    found: set[Shape] = set()
    for runs in _sizes(max_runs, _RUNS_APART):
        most = min(max_tokens, max(runs * prompt_max, _ROWS_MIN))
        found.update(Shape(tokens, runs) for tokens in _sizes(most, 2) if tokens >= min(runs, most))
    return _largest_first(found)


def closer_shapes(max_tokens: int, max_runs: int) -> list[Shape]:
    """Shapes for the steps that a server under load runs, the largest first; steps run without them too.

    Rows from as many as the runs (none of them a prompt) to three times as many: with prompts and answers of about the
    same length a step holds as many rows of prompts as others.
    """
    found: set[Shape] = set()
    for octave in _sizes(max_runs, 2):
        for runs in {octave, min(max_runs, _up(octave * 3 // 2))}:
            quarters = (4, 5, 6, 8, 12)
            found.update(Shape(min(max_tokens, _up(runs * q // 4)), runs) for q in quarters)
    return _largest_first(shape for shape in found if shape.tokens >= shape.items)


def _sizes(most: int, factor: int) -> list[int]:
    """16 and what follows by ``factor``, with ``most`` as the last."""
    found = []
    size = _ROWS_MIN
    while size < most:
        found.append(size)
        size *= factor
    return [*found, most]


def _up(n: int) -> int:
    """To whole tiles of the tensor cores."""
    return -(-n // _ROWS_MIN) * _ROWS_MIN


def _largest_first(shapes: Iterable[Shape]) -> list[Shape]:
    return sorted(shapes, reverse=True)
