"""Sizes of captured graphs: every step that the limits allow has one, few rows are wasted, there are not too many."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise

import pytest
from decode_load import OnDemand, simulate, within
from nightly import nightly

from fastqps.devices.cuda.buckets import (
    TILE,
    Shape,
    closest_shape,
    covering_buckets,
    covering_shapes,
    encoder_buckets,
    full_waves,
)
from fastqps.devices.cuda.demand import smallest
from fastqps.devices.cuda.lane import GRAPHS_MAX

pytestmark = pytest.mark.compute

SMS = 132  # of an H100 or H200


@pytest.mark.parametrize(
    ("max_tokens", "width", "expected"),
    [
        (1, 384, (1,)),
        (64, 384, (64,)),
        (65, 384, (64, 65)),
        (512, 384, (64, 96, 128, 192, 256, 320, 384, 448, 512)),
        (600, 32, (64, 96, 128, 192, 256, 320, 384, 448, 512, 600)),
    ],
)
def test_small_encoders(max_tokens: int, width: int, expected: tuple[int, ...]) -> None:
    assert encoder_buckets(max_tokens, width, SMS) == expected


@pytest.mark.parametrize("width", [128, 256, 384, 512, 768, 1024])
@pytest.mark.parametrize("max_tokens", [1000, 4096, 16384, 20_000])
def test_encoder_waste_and_count(max_tokens: int, width: int) -> None:
    """Any step's graph is at most an eighth, below 1,024 tokens a third, larger than it; and there are at most 52."""
    buckets = encoder_buckets(max_tokens, width, SMS)
    assert buckets == tuple(sorted(set(buckets))) and buckets[-1] == max_tokens and len(buckets) <= 52
    for tokens in range(1, max_tokens + 1):
        bucket = buckets[bisect_left(buckets, tokens)]
        allowed = 1.126 * tokens if tokens > 1024 else 1.26 * tokens if tokens > 256 else max(1.5 * tokens, 64)
        assert tokens <= bucket <= allowed


@pytest.mark.parametrize(("width", "wave"), [(384, 5632), (768, 2816), (1024, 4224), (512, 4224), (256, 8448)])
def test_sizes_that_fill_all_multiprocessors(width: int, wave: int) -> None:
    """At each of them the tiles of a product with ``width`` outputs are a multiple of the multiprocessors."""
    waves = full_waves(16_384, width, SMS)
    assert waves[0] == wave and set(waves) <= set(encoder_buckets(16_384, width, SMS))
    for tokens in waves:
        assert tokens // TILE * (width // TILE) % SMS == 0
    assert not any(t // TILE * (width // TILE) % SMS == 0 for t in range(TILE, wave, TILE)), "there is a smaller one"


@pytest.mark.parametrize("max_tokens", [1, 64, 600, 4096, 16_384, 20_000])
def test_a_start_of_an_encoder_captures_few_sizes(max_tokens: int) -> None:
    """About one to each doubling, so every kernel that is chosen by the size of a step has run before the first one."""
    buckets = encoder_buckets(max_tokens, 384, SMS)
    found = covering_buckets(buckets)
    assert set(found) <= set(buckets) and found == tuple(sorted(set(found)))
    assert found[0] == buckets[0] and found[-1] == buckets[-1] and len(found) <= 10
    assert all(larger <= 4 * size for size, larger in pairwise(found))


DECODERS = [(48, 3, 40), (64, 5, 59), (16, 16, 1), (576, 64, 512), (300, 48, 90), (100, 100, 100), (700, 200, 37)]


@pytest.mark.parametrize(("max_tokens", "max_runs", "prompt_max"), DECODERS)
def test_every_step_of_a_decoder_has_a_graph(max_tokens: int, max_runs: int, prompt_max: int) -> None:
    shapes = covering_shapes(max_tokens, max_runs, prompt_max)
    assert shapes == sorted(set(shapes), reverse=True), "the largest first"
    assert shapes[0] == Shape(max_tokens, max_runs) or max_tokens > max_runs * prompt_max
    for runs in range(1, max_runs + 1):
        for tokens in range(runs, min(max_tokens, runs * prompt_max) + 1):
            assert any(shape.tokens >= tokens and shape.items >= runs for shape in shapes), (tokens, runs)
            closest = closest_shape(tokens, runs, max_tokens, max_runs)
            assert tokens <= closest.tokens <= max_tokens and runs <= closest.items <= min(max_runs, closest.tokens)
    for shape in shapes:
        assert shape.tokens <= max_tokens and shape.items <= max_runs


@pytest.mark.parametrize(("max_tokens", "max_runs"), [(16_384, 1024), (16_384, 2048), (20_000, 4096)])
def test_a_start_of_a_decoder_captures_few_graphs(max_tokens: int, max_runs: int) -> None:
    shapes = covering_shapes(max_tokens, max_runs, 128)
    assert len(shapes) <= 14
    assert all(n % 16 == 0 for shape in shapes for n in shape)


def test_the_closest_graph_of_a_decoder() -> None:
    """At most an eighth more rows and runs than a step holds, from 128 up; and no more than a tile."""
    for tokens in range(1, 16_385, 3):
        found = closest_shape(tokens, min(tokens, 4096), 16_384, 4096)
        for held, computed in zip((tokens, min(tokens, 4096)), found, strict=True):
            assert held <= computed < held + min(max(held / 8, 16), TILE) and computed % 16 == 0
    assert closest_shape(2100, 1040, 16_384, 4096) == Shape(2176, 1152)
    assert closest_shape(1000, 1000, 1000, 1000) == Shape(1000, 1000)
    assert closest_shape(130, 130, 16_384, 1024) == Shape(144, 144)


@pytest.mark.parametrize("max_runs", [100, 1000, 1024, 3000])
def test_the_closest_graph_is_the_one_that_a_step_runs_in(max_runs: int) -> None:
    """Also where the most runs are no size of a graph: none of a start's graphs has fewer rows that hold the step."""
    start = covering_shapes(16_384, max_runs, 128)
    for runs in range(1, max_runs + 1, 7):
        for tokens in range(runs, 3 * runs, 13):
            closest = closest_shape(tokens, runs, 16_384, max_runs)
            assert smallest([*start, closest], Shape(tokens, runs)) == closest, (tokens, runs)


LOADS = (0.3, 0.6, 0.95, *nightly(0.45, 0.7, 0.8, 0.9))
ADMISSIONS: dict[str, Callable[[int], int]] = {
    "all that fits": lambda running: 16_384,
    "twice the running": lambda running: max(512, 2 * running),
    "1,280 rows of prompts": lambda running: 1280,
}


@pytest.mark.parametrize("slots", [1024, 4096])
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("admission", ADMISSIONS)
def test_waste_under_poisson_arrivals(admission: str, load: float, slots: int) -> None:
    """50 tokens in and 50 out, after 10,000 steps: at most a tenth more rows than there are, and a fifth more runs."""
    most = Shape(16_384, slots)
    graphs = OnDemand(covering_shapes(*most, 128), most)
    waste = simulate(graphs, load, slots=slots, prompt_rows_max=ADMISSIONS[admission])
    print(
        f"{admission}, load {load:.0%} of {slots}: {waste.rows:.1%} of rows, {waste.runs:.1%} of runs, "
        f"{waste.running:.0f} run, {len(graphs.shapes)} graphs"
    )
    assert waste.running >= 0.25 * slots or admission == "1,280 rows of prompts"
    assert waste.rows <= 0.10 and waste.runs <= 0.20
    assert len(graphs.shapes) <= GRAPHS_MAX


def test_waste_of_the_graphs_of_a_start() -> None:
    """What the simulation sees without further captures."""
    for load in (0.3, 0.6, 0.95):
        assert simulate(within(covering_shapes(16_384, 1024, 128)), load).rows >= 0.25
