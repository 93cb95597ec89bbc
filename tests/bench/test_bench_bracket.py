"""The search for the highest rate, on servers that are formulas: capacity is found, in few probes, through noise."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from fastqps.bench.search.bracket import Bracket, Probe, Trial, find_highest

pytestmark = pytest.mark.compute

LIMIT_S = 0.020


def queue(capacity: float, noise: float = 0.0, seed: int = 1) -> tuple[Probe, float]:
    """An M/M/1 server: p99 = ln(100) / (capacity - rate). (a probe of it, the rate at which p99 is the limit).

    ``noise``: standard deviation of a measured p99, as a share of it; a confirmation, being longer, has less.
    """
    rng = random.Random(seed)

    def probe(rate: float, confirm: bool) -> Trial:
        if rate >= capacity:
            return Trial(False)
        p99_s = math.log(100) / (capacity - rate) * math.exp(rng.gauss(0, noise / (2 if confirm else 1)))
        return Trial(p99_s <= LIMIT_S, near=p99_s <= 1.5 * LIMIT_S)

    return probe, capacity - math.log(100) / LIMIT_S


@pytest.mark.parametrize("capacity", [600, 2_000, 50_000, 400_000])
@pytest.mark.parametrize("off", [0.25, 0.9, 1.0, 1.3, 4.0])
def test_finds_the_capacity(capacity: float, off: float) -> None:
    probe, true = queue(capacity)
    found = find_highest(probe, off * capacity, probes_max=30, precision=0.02)
    assert found.confirmed and found.low is not None and found.high is not None
    assert found.low <= true < found.high <= 1.021 * found.low
    assert not found.generator_bound


@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_noise_moves_it_little_and_costs_no_more_probes(noise: float) -> None:
    errors = []
    for seed in range(300):
        probe, true = queue(20_000, noise, seed)
        found = find_highest(probe, 20_000, probes_max=16)
        assert found.probes <= 16
        assert found.confirmed and found.low is not None
        errors.append(found.low / true - 1)
    errors.sort()
    assert errors[15] > -0.12 and errors[-15] < 0.05  # 90 % of the runs, with a precision of 5 %
    assert abs(errors[150]) < 0.05


@pytest.mark.parametrize("probes_max", [4, 5, 7, 12, 16])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_never_more_probes_than_allowed(probes_max: int, noise: float) -> None:
    for seed in range(50):
        probe, _ = queue(20_000, noise, seed)
        for guess in (20, 20_000, 2e7):
            assert find_highest(probe, guess, probes_max=probes_max).probes <= probes_max


def late_above(rate_max: float, server: Probe) -> Probe:
    """A generator that can do so much."""
    return lambda rate, confirm: Trial(False, generator_bound=True) if rate > rate_max else server(rate, confirm)


def unknown_below(rate_min: float, server: Probe) -> Probe:
    """Too few answers to decide."""
    return lambda rate, confirm: Trial(False, unknown=True) if rate < rate_min else server(rate, confirm)


def hiccup(server: Probe) -> Probe:
    """The first probe misses by little, for no reason of the server's."""
    first = iter([True])
    return lambda rate, confirm: Trial(False, near=True) if next(first, False) else server(rate, confirm)


def again(limit: float) -> Probe:
    """The first probe of each rate has too few answers, and another may decide."""
    seen: set[float] = set()

    def probe(rate: float, confirm: bool) -> Trial:
        first = rate not in seen and not seen.add(rate)  # type: ignore[func-returns-value]
        return Trial(not first and rate <= limit, near=first, unknown=first)

    return probe


@pytest.mark.parametrize(
    ("probe", "guess", "rates", "expected"),
    [
        # What nothing keeps is found out soon.
        (lambda rate, confirm: Trial(False), 10_000, [8000, 4000, 1000, 62], {"high": 62.5}),
        (
            late_above(30_000, queue(100_000)[0]), 100_000,
            [80_000, 40_000, 10_000, 20_000, 28_284, 33_636, 30_844, 29_537, 29_537],
            {"low": 29_537, "high": 30_844, "confirmed": True, "generator_bound": True},
        ),
        (  # The server fails below what the generator can do.
            late_above(60_000, queue(20_000)[0]), 80_000,
            [64_000, 32_000, 8000, 16_000, 22_627, 19_027, 20_749, 19_870, 19_027],
            {"low": 19_027, "high": 19_870, "confirmed": True},
        ),
        (  # It steps back until the longer run passes.
            lambda rate, confirm: Trial(rate <= (850 if confirm else 1000)), 1000,
            [800, 1000, 1250, 1118, 1057, 1028, 1000, 950, 855, 684],
            {"low": 684, "high": 855, "confirmed": True},
        ),
        (  # Luck that no longer run confirms is no capacity.
            lambda rate, confirm: Trial(not confirm), 1000,
            [800, 1000, 1250, 1562, 1953, 2441, 3052, 3815, 4768, 5960, 7451, 9313, 11_642, 11_642, 11_059, 9954],
            {"low": 7963, "high": 9954, "exhausted": True},
        ),
        (  # One hiccup does not halve the answer.
            hiccup(queue(20_000)[0]), 20_000, [16_000, 16_000, 20_000, 17_889, 18_915, 19_450, 19_450],
            {"low": 19_450, "high": 20_000, "confirmed": True},
        ),
        # Too few answers are never a step down, but a rate that failed may lead to them.
        (unknown_below(110, queue(100)[0]), 79, [63], {"unknown": 63.2}),
        (unknown_below(800, queue(1000)[0]), 1500, [1200, 600], {"high": 1200, "unknown": 600}),
        (  # A server that sheds what is too much: what cannot be decided leaves what passed.
            lambda rate, confirm: Trial(rate <= 1000, unknown=rate > 1000), 1000, [800, 1000, 1250, 1000],
            {"low": 1000, "unknown": 1250, "confirmed": True},
        ),
        (
            again(1000), 1000, [800, 800, 1000, 1000, 1250, 1250, 1118, 1118, 1057, 1057, 1028, 1028, 1000],
            {"low": 1000, "high": 1028, "confirmed": True},
        ),
        (  # A confirmation that cannot be decided confirms nothing.
            lambda rate, confirm: Trial(not confirm and rate <= 1000, unknown=confirm), 1000,
            [800, 1000, 1250, 1118, 1057, 1028, 1000], {"low": 1000, "high": 1028, "unknown": 1000},
        ),
    ],
)  # fmt: skip
def test_what_it_tries_and_what_it_finds(
    probe: Probe, guess: float, rates: list[int], expected: dict[str, Any]
) -> None:
    tried: list[float] = []
    found = vars(find_highest(lambda rate, confirm: tried.append(rate) or probe(rate, confirm), guess))
    assert tried == [pytest.approx(rate, abs=1) for rate in rates]
    wanted = vars(Bracket()) | expected | {"probes": len(rates)}
    assert found == {key: pytest.approx(value, abs=1) if value else value for key, value in wanted.items()}


@pytest.mark.parametrize(("probes_max", "exhausted"), [(4, True), (7, True), (16, False)])
def test_probes_that_run_out_are_told_from_a_search_that_is_done(probes_max: int, exhausted: bool) -> None:
    found = find_highest(lambda rate, confirm: Trial(False), 1000, probes_max=probes_max)
    assert found.exhausted == (probes_max < 7)
    found = find_highest(queue(20_000)[0], 20_000, probes_max=probes_max)
    assert found.exhausted == exhausted
