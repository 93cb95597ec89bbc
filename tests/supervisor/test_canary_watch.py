"""What the supervisor makes of canaries, over a made-up line of the segment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastqps.supervisor.workers.dispatcher_slot import Canary

S = 10**9
TICK = S // 10


def line(**changes: Any) -> Any:
    found = {"steps_done": 7, "ready": True, "canary_since_ns": 1, "step_started_ns": 0, **changes}
    return SimpleNamespace(**found)


def watch(canary: Canary, ticks: int, silent_ns: int = 0, **changes: Any) -> list[tuple[float, str]]:
    """The ticks, in seconds, at which it must be killed, with the reasons."""
    found = [(i * TICK / S, canary.overdue(i * TICK, TICK, line(**changes), silent_ns)) for i in range(ticks + 1)]
    return [(at, reason) for at, reason in found if reason]


@pytest.mark.parametrize(("interval_ns", "killed_s"), [(S, 3.0), (S // 10, 3.0), (2 * S, 6.0)])
def test_three_misses(interval_ns: int, killed_s: float) -> None:
    """However short the interval is, a miss takes a second."""
    canary = Canary(interval_ns)
    ((at, reason),) = watch(canary, round(killed_s * 10) + 5)
    assert at == pytest.approx(killed_s)
    assert reason == f"takes no requests: a canary waits for {killed_s:.1f} s, and nothing is on its device"
    assert canary.missed == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"canary_since_ns": 0},  # none waits
        {"step_started_ns": 5},  # its step takes long: --step-timeout's affair
        {"ready": False},  # it starts
        {"silent_ns": S},  # it has no core, or is stopped: the heartbeat's affair
    ],
)
def test_not_its_fault(changes: dict[str, Any]) -> None:
    canary = Canary(S)
    assert watch(canary, 100, **changes) == [] and canary.missed == 0


def test_no_canaries() -> None:
    canary = Canary(0)
    assert watch(canary, 100) == []
    assert canary.age_s(1000 * TICK) is None  # an idle dispatcher raises no alarm


def test_progress_forgives() -> None:
    canary = Canary(S)
    assert watch(canary, 25) == []
    assert canary.missed == 2
    assert watch(canary, 25, steps_done=8) == []
    assert canary.missed == 4
    assert canary.age_s(25 * TICK) == pytest.approx(2.5)
