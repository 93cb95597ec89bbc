"""Sizes of captured graphs: every step that the limits allow has one, few rows are wasted, there are not too many."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import pytest
from decode_load import simulate, smallest

from fastqps.devices.cuda.buckets import TILE, Shape, closer_shapes, covering_shapes, encoder_buckets, full_waves

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


DECODERS = [(48, 3, 40), (64, 5, 59), (16, 16, 1), (576, 64, 512), (300, 48, 90), (100, 100, 100), (700, 200, 37)]


@pytest.mark.parametrize(("max_tokens", "max_runs", "prompt_max"), DECODERS)
def test_every_step_of_a_decoder_has_a_graph(max_tokens: int, max_runs: int, prompt_max: int) -> None:
    shapes = covering_shapes(max_tokens, max_runs, prompt_max)
    assert shapes == sorted(set(shapes), reverse=True), "the largest first"
    assert shapes[0] == Shape(max_tokens, max_runs) or max_tokens > max_runs * prompt_max
    for runs in range(1, max_runs + 1):
        for tokens in range(runs, min(max_tokens, runs * prompt_max) + 1):
            assert any(shape.tokens >= tokens and shape.items >= runs for shape in shapes), (tokens, runs)
    for shape in [*shapes, *closer_shapes(max_tokens, max_runs)]:
        assert shape.tokens <= max_tokens and shape.items <= max_runs


COVERING, CLOSER = covering_shapes(16_384, 1024, 128), closer_shapes(16_384, 1024)


def test_graphs_of_a_decoder_are_bounded() -> None:
    """Each costs time at start-up. The closer ones do not repeat, and hold no more runs than rows."""
    assert len(COVERING) <= 30 and len({*COVERING, *CLOSER}) <= 125 and len(set(CLOSER)) == len(CLOSER)
    assert all(n % 16 == 0 for shape in (*COVERING, *CLOSER) for n in shape)
    assert all(shape.items <= shape.tokens for shape in CLOSER)


def test_waste_of_usual_decoder_steps() -> None:
    """Up to three rows for each run: at most an eighth more rows than the step holds from 256 up, a quarter below."""
    choose = smallest([*COVERING, *CLOSER])
    for runs in range(16, 1025, 3):
        for tokens in range(runs, 3 * runs, 7):
            found = choose(tokens, runs)
            assert found.tokens <= (1.126 if tokens > 256 else 1.26) * tokens + 16, (tokens, runs, found)
            if tokens >= 2 * runs >= 256:
                assert found.items <= 1.26 * tokens / 2 + 16, (tokens, runs, found)


LOADS = (0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 0.95)
ADMISSIONS: dict[str, Callable[[int], int]] = {
    "all that fits": lambda running: 16_384,
    "twice the running": lambda running: max(512, 2 * running),
    "1,280 rows of prompts": lambda running: 1280,
}


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("admission", ADMISSIONS)
def test_waste_under_poisson_arrivals(admission: str, load: float) -> None:
    """50 tokens in and 50 out: at most a tenth more rows than there are, and a quarter more runs."""
    waste = simulate([*COVERING, *CLOSER], load, prompt_rows_max=ADMISSIONS[admission])
    print(f"{admission}, load {load:.0%}: {waste.rows:.1%} of rows, {waste.runs:.1%} of runs, {waste.running:.0f} run")
    assert waste.running >= 0.25 * 1024
    assert waste.rows <= 0.10 and waste.runs <= 0.25


def test_waste_where_a_start_has_no_time_for_all() -> None:
    """Half of the closer graphs already bound it; with none of them the simulation sees what they are for."""
    for load in (0.3, 0.6, 0.95):
        assert simulate([*COVERING, *CLOSER[: len(CLOSER) // 2]], load).rows <= 0.15
        assert simulate(COVERING, load).rows >= 0.25
