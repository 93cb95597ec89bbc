"""The sizes of steps that have a captured graph.

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
_FOUR_FROM = 256  # tokens: from here up there are four sizes to each doubling, and eight from four times as many
_ROWS_MIN = 16  # rows of a decoder's smallest graph: the tensor cores' tile
_ROWS_FOUR_FROM = 64  # the same of a decoder's rows
_ROWS_OF_RUN_MAX = 3  # rows for each run, up to which there are closer sizes
_RUN_SHARES = ((1, 1), (5, 8), (1, 2))  # runs for each row of the closer sizes
_RUNS_APART = 4  # factor between the run counts of the graphs that cover all


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
    found = set(_ladder(max_tokens, _SMALLEST, _FOUR_FROM)) | set(full_waves(max_tokens, width, multiprocessors))
    return (*sorted(found - {max_tokens}), max_tokens)


def full_waves(max_tokens: int, width: int, multiprocessors: int) -> range:
    """Token counts up to ``max_tokens`` at which the tiles of ``width`` outputs fill whole rounds."""
    columns = max(1, width // TILE)
    wave = TILE * (multiprocessors // gcd(multiprocessors, columns))
    return range(wave, max_tokens + 1, wave)


def _ladder(most: int, smallest: int, four_from: int) -> Iterator[int]:
    """Sizes below ``most``: two to each doubling, then four, then eight; no closer than the tensor cores' tile."""
    octave = smallest
    while octave < most:
        parts = 8 if octave >= 4 * four_from else 4 if octave >= four_from else 2
        yield from (size for size in range(octave, 2 * octave, max(octave // parts, _ROWS_MIN)) if size < most)
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
    """Shapes for the steps that a server under load runs, the most useful first; steps run without them too.

    Up to three rows for each of ``max_runs``, since a step of prompts and answers of about the same length holds about
    two. Eight row counts to each doubling from 256 up, so a step computes about 5 % more rows than it holds; four from
    64. The head and the sampling compute the runs, so each row count has three run counts: as many as rows (no
    prompts), five eighths, and half.

    Every other row count comes first, so that the waste is even where a start has no time for all of them.
    """
    most = min(max_tokens, _ROWS_OF_RUN_MAX * max_runs)
    rows = [*_ladder(most, _ROWS_MIN, _ROWS_FOUR_FROM), most]
    found: list[Shape] = []
    for part in (rows[-1::-2], rows[-2::-2]):
        shapes = {Shape(tokens, min(tokens, max_runs, _up(tokens * a // b))) for tokens in part for a, b in _RUN_SHARES}
        found += _largest_first(shapes)
    return found


def _sizes(most: int, factor: int) -> list[int]:
    """The sizes from 16 up, each ``factor`` times the previous one; the last is ``most``."""
    found = []
    size = _ROWS_MIN
    while size < most:
        found.append(size)
        size *= factor
    return [*found, most]


def _up(n: int) -> int:
    """Rounds up to whole tiles of the tensor cores."""
    return -(-n // _ROWS_MIN) * _ROWS_MIN


def _largest_first(shapes: Iterable[Shape]) -> list[Shape]:
    return sorted(shapes, reverse=True)
