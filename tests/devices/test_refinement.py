"""When lanes prepare, between steps, what makes their later steps faster."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fastqps.dispatcher.refinement import LOOK_S, SHARE, Refinement
from fastqps.runners.lane import Lane

pytestmark = pytest.mark.compute


class Clock:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


class Wanting:
    """A lane that wants ``wants`` things, each of which takes ``takes_s``."""

    def __init__(self, clock: Clock, wants: int, takes_s: float, ever: bool = True) -> None:
        self._clock, self.wants, self._takes_s, self._ever = clock, wants, takes_s, ever
        self.settled = False

    def settle(self) -> bool:
        self.settled = True
        return self._ever

    def can_refine(self) -> bool:
        return self.wants > 0

    def refine(self) -> None:
        self.wants -= 1
        self._clock.s += self._takes_s


def make(clock: Clock, *lanes: Wanting) -> Refinement:
    return Refinement([cast(Lane[Any], lane) for lane in lanes], clock)


def test_it_takes_a_small_share_of_the_time_however_much_is_wanted() -> None:
    clock = Clock()
    lanes = Wanting(clock, 1000, 0.05), Wanting(clock, 1000, 0.08)
    refinement = make(clock, *lanes)
    began_s, order = clock.s, []
    while clock.s < began_s + 60:
        clock.s += 0.002  # a step
        if refinement.due() and (lane := refinement.lane()) is not None:
            refinement.run(lane)
            order.append(lane)
    spent_s = 0.05 * (1000 - lanes[0].wants) + 0.08 * (1000 - lanes[1].wants)
    assert 0.8 * SHARE < spent_s / (clock.s - began_s) <= SHARE * 1.02
    assert order[:4] == [0, 1, 0, 1], "lanes take turns"


def test_it_looks_seldom_at_lanes_that_want_nothing() -> None:
    clock = Clock()
    lane = Wanting(clock, 0, 0.05)
    refinement = make(clock, lane)
    looks = 0
    for _ in range(1000):
        clock.s += 0.001
        if refinement.due():
            looks += 1
            assert refinement.lane() is None
    assert looks <= 1.1 / LOOK_S
    lane.wants = 1
    clock.s += LOOK_S
    assert refinement.due() and refinement.lane() == 0


def test_lanes_that_can_prepare_nothing_are_never_asked() -> None:
    clock = Clock()
    lane = Wanting(clock, 5, 0.05, ever=False)
    refinement = make(clock, lane)
    assert lane.settled
    clock.s += 10
    assert not refinement.due()
