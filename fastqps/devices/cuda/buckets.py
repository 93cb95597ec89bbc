"""The sizes of steps that have a captured graph.

A graph computes so many rows however few the step holds, so a step runs in the smallest graph that holds it. More
graphs waste fewer rows; each costs time to capture and some memory. Where a step takes the same time however few its
rows are, a finer size would gain nothing: there the sizes are far apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import NamedTuple

TILE = 128  # rows of the tile that large matrix products are cut into
_SMALLEST = 64  # tokens: below, a step's time is its kernels' latency
_FOUR_FROM = 256  # tokens: from here up there are four sizes to each doubling, and eight from four times as many
_ROWS_MIN = 16  # rows of a decoder's smallest graph: the tensor cores' tile
_ROWS_APART, _RUNS_APART = 4, 16  # factors between the rows, and the runs, of a decoder's graphs that cover all
_CLOSEST_PARTS = 8  # sizes to each doubling of the graph that fits a step, until they are a tile apart


class Shape(NamedTuple):
    """The capacity of a graph. For a decoder, ``tokens`` are rows and ``items`` runs."""

    tokens: int
    items: int


def encoder_buckets(max_tokens: int, width: int, multiprocessors: int) -> tuple[int, ...]:
    """Token counts of an encoder's graphs, ascending; the last is ``max_tokens``.

    Eight sizes to each doubling from 1,024 tokens up, so at most an eighth is wasted there; four below, from 256; two
    below that. To these come the sizes whose tiles of 128 × 128 fill all multiprocessors without a rest, for products
    with ``width`` outputs or a multiple of it: the next smaller and larger ones run a last round for a few tiles.
    """
    sizes = set(_ladder(max_tokens)) | set(full_waves(max_tokens, width, multiprocessors))
    return (*sorted(sizes - {max_tokens}), max_tokens)


def full_waves(max_tokens: int, width: int, multiprocessors: int) -> range:
    """Token counts up to ``max_tokens`` at which the tiles of ``width`` outputs fill whole rounds."""
    columns = max(1, width // TILE)
    wave = TILE * (multiprocessors // gcd(multiprocessors, columns))
    return range(wave, max_tokens + 1, wave)


def _ladder(end: int) -> Iterator[int]:
    """Sizes below ``end``: two to each doubling, then four, then eight; no closer than the tensor cores' tile."""
    octave = _SMALLEST
    while octave < end:
        parts = 8 if octave >= 4 * _FOUR_FROM else 4 if octave >= _FOUR_FROM else 2
        yield from (size for size in range(octave, 2 * octave, max(octave // parts, _ROWS_MIN)) if size < end)
        octave *= 2


def covering_buckets(buckets: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of an encoder's graphs that a server cannot do without, ascending: about one to each doubling."""
    covering = [buckets[-1]]
    for size in reversed(buckets):
        if 2 * size <= covering[-1]:
            covering.append(size)
    return tuple(sorted({buckets[0], *covering}))


def covering_shapes(max_tokens: int, max_runs: int, prompt_max: int) -> list[Shape]:
    """The fewest shapes of a decoder's graphs with which every step has one, the largest first.

    Runs a factor of 16 apart, rows a factor of 4: a run has one row, or all of a prompt of up to ``prompt_max``.
    """
    shapes: set[Shape] = set()
    for runs in _sizes(max_runs, _RUNS_APART):
        rows_max = min(max_tokens, max(runs * prompt_max, _ROWS_MIN))
        rows = {rows_max, *(size for size in _sizes(rows_max, _ROWS_APART) if size >= runs), min(_up(runs), rows_max)}
        shapes.update(Shape(tokens, runs) for tokens in rows)
    return sorted(shapes, reverse=True)


def closest_shape(tokens: int, runs: int, max_tokens: int, max_runs: int) -> Shape:
    """The shape of a decoder's graph that fits a step: at most an eighth more rows and runs than it holds from 128 up,
    and no more than a tile of the products."""
    rows = min(_up(tokens), max_tokens)
    return Shape(rows, min(_up(runs), max_runs, rows))


def _sizes(largest: int, factor: int) -> list[int]:
    """The sizes from 16 up, each ``factor`` times the previous one; the last is ``largest``."""
    sizes = []
    size = _ROWS_MIN
    while size < largest:
        sizes.append(size)
        size *= factor
    return [*sizes, largest]


def _up(n: int) -> int:
    """Rounds up to the next of the closest sizes, which are whole tiles of the tensor cores."""
    octave = 1 << max(0, n.bit_length() - 1)
    apart = min(max(octave // _CLOSEST_PARTS, _ROWS_MIN), TILE)
    return -(-n // apart) * apart
