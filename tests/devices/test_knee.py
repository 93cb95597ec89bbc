"""The search for the smallest step that is fast enough, on rate curves that are known, with the noise of machines."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import pytest

from fastqps.runners.knee import CROWD, GIVE_UP_S, MEASURE_S, ROUNDS_MIN, SHARE, Knee, find_knee, sizes_up_to

Curve = Callable[[int], float]  # seconds of a step of so many items
SEEDS = 100
BLOCK_S = 0.01


def straight(fixed_us: float, item_us: float) -> Curve:
    return lambda n: (fixed_us + item_us * n) * 1e-6


def cache_overflow(n: int) -> float:
    """From 32 items on, activations no longer fit into the cache."""
    return (1500 + 1000 * n * (1.3 if n > 32 else 1.0)) * 1e-6


def tiles(n: int) -> float:
    """A device that computes 128 items at a time, however few there are."""
    return (300 + 900 * -(-n // 128)) * 1e-6


# name: (curve, most, the size that an exact measurement chooses)
CURVES: dict[str, tuple[Curve, int, int]] = {
    "MiniLM on two cores": (straight(2000, 4000), 64, 16),
    "MiniLM on a faster CPU": (straight(900, 1700), 64, 16),
    "no fixed cost": (straight(0, 3000), 64, 1),
    "short steps": (straight(5, 20), 64, 32),  # from STEP_S_MIN on
    "steps that take no time": (straight(20, 0.5), 256, 256),
    "nothing but fixed cost": (straight(4000, 1), 64, 64),
    "weights from memory": (straight(150_000, 4000), 64, 64),
    "a modelled GPU": (straight(128, 1.5), 512, 512),
    "a faster modelled GPU": (straight(30, 1.5), 1024, 512),
    "a cache that overflows": (cache_overflow, 64, 16),
    "tiles": (tiles, 1024, 512),
}


def found_on(machine: Machine, most: int, crowd_step_s: float = math.inf) -> Knee:
    return find_knee(machine, most, crowd_step_s, lambda: machine.seconds)


class Machine:
    """Runs steps of a curve: each block takes longer by a share, and a few are interrupted."""

    def __init__(self, curve: Curve, seed: int, noise: float, interrupted: float = 0.0) -> None:
        self._curve, self._noise, self._interrupted = curve, noise, interrupted
        self._random = random.Random(seed)
        self.seconds = 0.0
        self.largest = 0

    def __call__(self, size: int) -> tuple[float, int]:
        steps = max(1, round(BLOCK_S / self._curve(size)))
        seconds = steps * self._curve(size) * (1 + abs(self._random.gauss(0, self._noise)))
        if self._random.random() < self._interrupted:
            seconds += self._random.uniform(0, 0.02)
        self.seconds += seconds
        self.largest = max(self.largest, size)
        return seconds, steps


@pytest.mark.parametrize("name", CURVES)
def test_up_to_a_crowd_no_time_bounds_the_choice(name: str) -> None:
    """Which are all choices on a CPU."""
    curve, most, _ = CURVES[name]
    assert most <= CROWD
    free, bounded = (found_on(Machine(curve, 0, 0.01), most, bound) for bound in (math.inf, 0.0))
    assert free == bounded and not bounded.bounded


# step time in µs: (fixed, per item), most; the choice with 20 ms, and the largest size that was measured
BOUNDED = [
    ((3000, 7.4), 4096, 2048, 4096),
    ((3000, 7.4), 3000, 2048, 3000),
    ((20_000, 1), 4096, 1024, 2048),  # the rate would still double
    ((3000, 15), 8192, 1024, 2048),
    ((300, 1), 4096, 4096, 4096),
    ((100, 1), 4096, 2048, 4096),
]


@pytest.mark.parametrize(("costs", "most", "chosen", "largest"), BOUNDED)
@pytest.mark.parametrize("noise", [0.0, 0.005])
def test_a_crowd_is_chosen_only_within_the_time(
    costs: tuple[float, float], most: int, chosen: int, largest: int, noise: float
) -> None:
    for seed in range(20 if noise else 1):
        machine = Machine(straight(*costs), seed, noise)
        knee = found_on(machine, most, 0.02)
        assert (knee.items, machine.largest) == (chosen, largest)
        assert knee.decided and knee.bounded == (straight(*costs)(largest) > 0.02)
        assert knee.rates[-1][0] == largest


def test_one_late_measurement_bounds_nothing() -> None:
    """A size counts by its shortest time."""
    rounds = iter([0.05] + [0.01] * 20)

    def run(size: int) -> tuple[float, int]:
        return (next(rounds) if size == 2048 else size * 1e-5), 1

    knee = find_knee(run, 4096, 0.02, lambda: 0.0)
    assert knee.items == 2048 and knee.rates[-1][0] == 4096


def loss(curve: Curve, most: int, chosen: int) -> float:
    """The share of the best rate that a size is short of."""
    best = max(n / curve(n) for n in range(1, most + 1))
    return 1 - chosen / curve(chosen) / best


@pytest.mark.parametrize("most", [1, 2, 3, 64, 100, 1024])
def test_sizes_double_up_to_the_most(most: int) -> None:
    sizes = sizes_up_to(most)
    assert sizes[0] == 1 and sizes[-1] == most
    assert all(a < b <= 2 * a for a, b in itertools.pairwise(sizes))


@pytest.mark.parametrize("name", CURVES)
def test_without_noise_it_is_the_smallest_with_the_share(name: str) -> None:
    curve, most, expected = CURVES[name]
    knee = found_on(Machine(curve, 0, 0.0), most)
    assert knee.decided and knee.items == expected
    assert loss(curve, most, expected) <= 1 - SHARE + 0.003
    if expected < most:
        assert knee.rate == pytest.approx(expected / curve(expected))


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize(("noise", "interrupted"), [(0.005, 0.0), (0.03, 0.1), (0.15, 0.3)])
def test_noise_costs_latency_and_no_rate(name: str, noise: float, interrupted: float) -> None:
    """Over many seeds: hardly ever less than the share, or than the largest size has; and on a quiet machine rarely
    more than twice the size."""
    curve, most, expected = CURVES[name]
    found = [found_on(Machine(curve, seed, noise, interrupted), most) for seed in range(SEEDS)]
    allowed = max(1 - SHARE, loss(curve, most, most))
    beyond = sorted(loss(curve, most, knee.items) - allowed for knee in found)
    assert beyond[int(0.98 * SEEDS)] <= 0.02, beyond[-5:]
    if noise <= 0.01:
        assert sum(knee.items <= 2 * expected for knee in found) >= 0.98 * SEEDS


class Neighbour(Machine):
    """Another program on the same cores: it comes and goes every 20 to 400 ms. While it is there, steps take 20 %
    longer, and are interrupted for times with a heavy tail. Nothing is ever faster than the curve."""

    def __init__(self, curve: Curve, seed: int) -> None:
        super().__init__(curve, seed, 0.01)
        self._there, self._left_s = False, 0.0  # until it comes or goes

    def __call__(self, size: int) -> tuple[float, int]:
        began = self.seconds
        work_s, steps = super().__call__(size)
        self.seconds = began
        while work_s > 1e-9:
            if self._left_s <= 0:
                self._there, self._left_s = not self._there, self._random.uniform(0.02, 0.4)
            part_s = min(work_s, self._left_s, 0.02)
            work_s, self._left_s = work_s - part_s, self._left_s - part_s
            self.seconds += part_s * (1.2 if self._there else 1.0)
            if self._there and self._random.random() < 0.2:
                self.seconds += min(0.05, 0.002 * self._random.paretovariate(1.2))
        return self.seconds - began, steps


@pytest.mark.parametrize("name", CURVES)
def test_a_busy_neighbour_does_not_hide_it(name: str) -> None:
    """Nearly always decided, hardly ever far below the share, and rarely more than twice the size."""
    curve, most, expected = CURVES[name]
    found = [found_on(Neighbour(curve, seed), most) for seed in range(SEEDS)]
    allowed = max(1 - SHARE, loss(curve, most, most))
    beyond = sorted(loss(curve, most, knee.items) - allowed for knee in found)
    assert sum(knee.decided for knee in found) >= 0.8 * SEEDS
    assert beyond[int(0.95 * SEEDS)] <= 0.02, beyond[-10:]
    assert sum(knee.items <= 2 * expected for knee in found) >= 0.9 * SEEDS


def test_a_machine_that_is_too_busy_decides_nothing() -> None:
    """The size is then the likeliest one, and not simply the most."""
    curve, most, expected = CURVES["MiniLM on two cores"]
    found = [found_on(Machine(curve, seed, 3.0), most) for seed in range(SEEDS)]
    undecided = [knee for knee in found if not knee.decided]
    assert len(undecided) > 0.5 * SEEDS
    assert sum(knee.items < most for knee in undecided) > 0.5 * len(undecided)
    assert sum(knee.items >= expected // 2 for knee in undecided) > 0.5 * len(undecided)


def test_it_takes_some_hundred_milliseconds() -> None:
    """Long steps are measured as far as they gain something, and no more often than necessary."""
    for curve, most, _ in CURVES.values():
        machine = Machine(curve, 0, 0.01)
        knee = found_on(machine, most)
        one_round = sum(max(curve(n), BLOCK_S) for n in sizes_up_to(most))
        assert knee.seconds == pytest.approx(machine.seconds)
        assert machine.seconds < MEASURE_S + ROUNDS_MIN * 1.1 * one_round
    machine = Machine(straight(2000, 4000), 0, 0.0)
    found_on(machine, 64)
    assert machine.largest == 32, "16 and 32 are equally fast: 64 cannot be faster"


def test_it_gives_up_where_steps_take_for_ever() -> None:
    """On a machine with twenty times as much to do as it can, a start must not wait for a measurement."""
    machine = Machine(straight(60_000, 70_000), 0, 0.3)
    knee = found_on(machine, 64)
    assert not knee.decided and 16 <= knee.items <= 32
    assert machine.seconds < GIVE_UP_S + 2 * (60_000 + 64 * 70_000) * 1e-6


def test_a_size_that_joins_late() -> None:
    """The first round finds no gain by noise: what a later one adds counts as the others do."""
    times = {1: 0.1, 2: 0.104, 4: 0.11, 8: 0.13}
    rounds = iter([1.9, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])

    def run(size: int) -> tuple[float, int]:
        return times[size] * (next(rounds) if size == 2 else 1.0), 1

    knee: Knee = find_knee(run, 8, clock=lambda: 0.0)
    assert knee.items == 8 and knee.decided
    assert knee.best == pytest.approx(8 / 0.13)
