"""The search for the highest rate, on servers that are formulas: capacity is found, in few probes, through noise."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from fastqps.bench.search.bracket import Probe, Trial, find_highest

pytestmark = pytest.mark.compute

LIMIT_S = 0.020


def queue(capacity: float, noise: float = 0.0, seed: int = 1) -> tuple[Callable[[float, bool], Trial], float]:
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


def test_what_nothing_keeps_is_found_out_soon() -> None:
    rates: list[float] = []

    def probe(rate: float, confirm: bool) -> Trial:
        rates.append(rate)
        return Trial(False)

    found = find_highest(probe, 10_000)
    assert found.low is None and not found.confirmed and found.high == rates[-1] < 200
    assert len(rates) <= 5


def test_the_generator_as_the_limit_is_said() -> None:
    server, _ = queue(100_000)

    def probe(rate: float, confirm: bool) -> Trial:
        return Trial(False, generator_bound=True) if rate > 30_000 else server(rate, confirm)

    found = find_highest(probe, 100_000)
    assert found.generator_bound and found.confirmed and found.low is not None
    assert 28_000 < found.low <= 30_000 < (found.high or 0)


def test_the_generator_is_not_blamed_for_a_server_that_fails_below_it() -> None:
    server, true = queue(20_000)

    def probe(rate: float, confirm: bool) -> Trial:
        return Trial(False, generator_bound=True) if rate > 60_000 else server(rate, confirm)

    found = find_highest(probe, 80_000)
    assert not found.generator_bound and found.low is not None and found.low <= true < (found.high or 0)


def test_steps_back_until_the_longer_run_passes() -> None:
    confirmations: list[float] = []

    def probe(rate: float, confirm: bool) -> Trial:
        if confirm:
            confirmations.append(rate)
        return Trial(rate <= (850 if confirm else 1000))

    found = find_highest(probe, 1000)
    assert found.confirmed and found.low == confirmations[-1] <= 850 < confirmations[-2]
    assert found.high == confirmations[-2]


def test_luck_that_no_longer_run_confirms_is_no_capacity() -> None:
    rates: list[float] = []

    def probe(rate: float, confirm: bool) -> Trial:
        rates.append(rate)
        return Trial(not confirm)

    found = find_highest(probe, 1000, probes_max=30)
    assert not found.confirmed and found.probes == len(rates) <= 30
    assert min(rates) > 0


def test_one_hiccup_does_not_halve_the_answer() -> None:
    """The first probe misses by little, for no reason of the server's."""
    server, true = queue(20_000)
    hiccup = iter([True])

    def probe(rate: float, confirm: bool) -> Trial:
        return Trial(False, near=True) if next(hiccup, False) else server(rate, confirm)

    found = find_highest(probe, 20_000)
    assert found.confirmed and found.low is not None and 0.93 * true < found.low <= true


# ---- probes with too few answers


def counting(server: Probe, knowable: float) -> tuple[Probe, list[float]]:
    """A probe that has too few answers below ``knowable``; the rates that it saw."""
    rates: list[float] = []

    def probe(rate: float, confirm: bool) -> Trial:
        rates.append(rate)
        return Trial(False, unknown=True) if rate < knowable else server(rate, confirm)

    return probe, rates


def test_too_few_answers_are_never_a_step_down() -> None:
    server, _ = queue(100)
    probe, rates = counting(server, knowable=110)
    found = find_highest(probe, 79)
    assert rates == [0.8 * 79] and found.unknown == 0.8 * 79
    assert found.low is None and found.high is None and not found.confirmed


def test_a_rate_that_failed_leads_to_one_that_cannot_be_decided() -> None:
    server, _ = queue(1000)
    probe, rates = counting(server, knowable=800)
    found = find_highest(probe, 1500)
    assert rates == [1200, 600]
    assert (found.high, found.unknown, found.low) == (1200, 600, None)


def test_a_rate_that_cannot_be_decided_leaves_what_passed() -> None:
    """A server that sheds what is too much: beyond its capacity fewer are answered."""

    def probe(rate: float, confirm: bool) -> Trial:
        return Trial(rate <= 1000, unknown=rate > 1000)

    found = find_highest(probe, 1000)
    assert found.confirmed and found.low == pytest.approx(1000) and found.high is None
    assert found.unknown == pytest.approx(1250)


def test_another_probe_may_decide() -> None:
    rates: list[float] = []

    def probe(rate: float, confirm: bool) -> Trial:
        rates.append(rate)
        first = rates.count(rate) == 1
        return Trial(not first and rate <= 1000, near=first, unknown=first)

    found = find_highest(probe, 1000, probes_max=30)
    assert found.confirmed and found.unknown is None and found.low is not None and 950 < found.low <= 1000


def test_a_confirmation_that_cannot_be_decided_confirms_nothing() -> None:
    found = find_highest(lambda rate, confirm: Trial(not confirm and rate <= 1000, unknown=confirm), 1000)
    assert not found.confirmed and found.unknown == found.low


@pytest.mark.parametrize(("probes_max", "exhausted"), [(4, True), (7, True), (16, False)])
def test_probes_that_run_out_are_told_from_a_search_that_is_done(probes_max: int, exhausted: bool) -> None:
    found = find_highest(lambda rate, confirm: Trial(False), 1000, probes_max=probes_max)
    assert found.exhausted == (probes_max < 7)
    found = find_highest(queue(20_000)[0], 20_000, probes_max=probes_max)
    assert found.exhausted == exhausted
