"""When lanes prepare, between steps, what makes their later steps faster."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fastqps.dispatcher import loop
from fastqps.dispatcher.loop import LOOK_S, SHARE, Dispatcher, Refinement
from fastqps.runners.lane import Lane

pytestmark = pytest.mark.compute


DRAIN_S = 0.006  # of the steps that a lane has in flight


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

    def drain() -> None:
        clock.s += DRAIN_S

    while clock.s < began_s + 60:
        clock.s += 0.002  # a step
        if refinement.due() and (lane := refinement.lane()) is not None:
            refinement.run(lane, drain)
            order.append(lane)
    spent_s = (0.05 + DRAIN_S) * (1000 - lanes[0].wants) + (0.08 + DRAIN_S) * (1000 - lanes[1].wants)
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


class Step:
    """The buffers of one step."""

    def add_to(self, stepper: Any, lane: int) -> int:
        return int(stepper.add(lane))

    def buffers(self) -> Step:
        return self


class Recorded(Wanting):
    """A lane of a dispatcher; its steps never end by themselves."""

    def __init__(self, clock: Clock, name: str, events: list[str]) -> None:
        super().__init__(clock, 0, 0.05)
        self.runners, self._name, self._events = [Step(), Step()], name, events

    def launch(self, step: int, *size: int) -> None:
        self._events.append(f"{self._name}{step} launched")

    def due_s(self, step: int) -> float:
        return 1.0

    def wait(self, step: int) -> None:
        self._events.append(f"{self._name}{step} ended")

    def refine(self) -> None:
        super().refine()
        self._events.append(f"{self._name} refined")


class Stepper:
    """Gathers a step for each of two places of two lanes, then stops the dispatcher."""

    def __init__(self) -> None:
        self.dispatcher: Dispatcher | None = None
        self._added, self._gathered = 0, iter((0, 2, 1, 3))

    def add(self, lane: int) -> int:
        self._added += 1
        return self._added - 1

    def gather(self, timeout_s: float) -> int | None:
        found = next(self._gathered, None)
        assert self.dispatcher
        self.dispatcher.stopping = found is None
        return found

    def rest(self, timeout_s: float) -> None:
        raise StopIteration

    def launch(self, step: int) -> bool:
        return True

    def shape(self, step: int) -> tuple[int, int, int]:
        return 1, 1, 1

    def scatter(self, step: int) -> bool:
        return True


def test_a_dispatcher_ends_the_steps_of_the_lane_that_refines_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, events, stepper = Clock(), list[str](), Stepper()
    lanes = Recorded(clock, "a", events), Recorded(clock, "b", events)
    monkeypatch.setattr(loop, "LOOK_S", 0.0)
    monkeypatch.setattr(loop, "Refinement", lambda all_lanes: Refinement(all_lanes, clock))
    stepper.dispatcher = dispatcher = Dispatcher(cast(Any, stepper), cast(Any, lanes))
    gather = stepper.gather

    def later(timeout_s: float) -> int | None:
        """Lane b wants to refine when all steps are in flight."""
        found = gather(timeout_s)
        lanes[1].wants = int(found == 3)
        return found

    monkeypatch.setattr(stepper, "gather", later)
    with pytest.raises(StopIteration):
        dispatcher.serve()
    assert events == [
        "a0 launched", "b0 launched", "a1 launched", "b1 launched", "b0 ended", "b1 ended", "b refined",
    ]  # fmt: skip


def test_lanes_that_can_prepare_nothing_are_never_asked() -> None:
    clock = Clock()
    lane = Wanting(clock, 5, 0.05, ever=False)
    refinement = make(clock, lane)
    assert lane.settled
    clock.s += 10
    assert not refinement.due()
