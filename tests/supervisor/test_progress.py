"""When a process must be killed, and how often a dead one is started again."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest
from serving import until

from fastqps.supervisor.child import System, is_stopped
from fastqps.supervisor.workers.frontdoor_slot import FrontDoorSlot
from fastqps.supervisor.workers.progress import (
    SILENCE_MAX_NS,
    STOPPED_MAX_NS,
    TICK_NS,
    OwnTime,
    Watched,
)
from fastqps.supervisor.workers.worker_slot import RESTARTS_MAX, WINDOW_S, RestartBudget

S = 10**9


def test_restart_budget() -> None:
    budget = RestartBudget()
    assert [budget.next_delay_s(float(t)) for t in range(6)] == [0.0, 0.25, 0.5, 1.0, 2.0, None]
    later = RestartBudget()
    assert [later.next_delay_s(t * WINDOW_S) for t in range(20)] == [0.0] * 20
    few = RestartBudget(1)
    assert [few.next_delay_s(0.0) for _ in range(3)] == [0.0, None, None]
    steady = RestartBudget()
    assert None not in [steady.next_delay_s(t * WINDOW_S / RESTARTS_MAX) for t in range(100)]


def test_service_is_counted_in_full() -> None:
    """By a supervisor that seldom gets to look, too: else a minute of service would last ever longer, and who dies now
    and then would stay down. What it takes to start is none."""
    line = SimpleNamespace(heartbeat_ns=0, ready=False, turn_started_ns=0)
    segment = SimpleNamespace(door=lambda index: line)
    nothing: Any = None
    worker = FrontDoorSlot(0, nothing, cast(Any, SimpleNamespace(segment=segment)), nothing, System())
    start_ns = 1000 * S
    for _ in range(2):
        worker.child = cast(Any, SimpleNamespace(exited=SimpleNamespace(done=lambda: False), pid=1, killed=False))
        worker.watched = Watched(start_ns)
        for after_s, ready in ((20, False), (21, True), (24, True), (30, True)):
            line.heartbeat_ns, line.ready = start_ns + after_s * S, ready
            assert worker.overdue(start_ns + after_s * S, TICK_NS, 30 * S) is None
        start_ns += 300 * S  # it has died long before
    assert worker.served_s == 20


def check(watched: Watched, now_ns: int, charge_ns: int = TICK_NS, **line: Any) -> str | None:
    state = {"heartbeat_ns": now_ns, "ready": True, "step_started_ns": 0, "step_timeout_ns": 30 * S, **line}
    state.setdefault("is_stopped", lambda: False)
    return watched.overdue(charge_ns, **state)


def reason_after(seconds: float, **line: Any) -> str | None:
    """Why a process must be killed that was so all the time."""
    watched = Watched(0)
    return [check(watched, tick * TICK_NS, **line) for tick in range(1, round(seconds * S / TICK_NS) + 1)][-1]


@pytest.mark.parametrize(("stopped", "limit_ns"), [(True, STOPPED_MAX_NS), (False, SILENCE_MAX_NS)])
def test_silence(stopped: bool, limit_ns: int) -> None:
    """A stopped process is seen within a second; one that only starves has more time."""
    watched, beat = Watched(0), 5 * S
    reasons = [
        check(watched, beat + tick * TICK_NS, heartbeat_ns=beat, is_stopped=lambda: stopped) for tick in range(60)
    ]
    first = next(i for i, reason in enumerate(reasons) if reason)
    assert limit_ns <= first * TICK_NS <= limit_ns + 2 * TICK_NS
    assert "no sign of life" in str(reasons[first])
    assert check(watched, beat + 8 * S, heartbeat_ns=beat + 7 * S) is None  # it lives again


def test_is_stopped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert not is_stopped(child.pid)
        child.send_signal(signal.SIGSTOP)
        until(lambda: is_stopped(child.pid), lambda: "it is stopped")
    finally:
        child.kill()
        child.wait()
    assert not is_stopped(child.pid)


def test_own_delay_is_not_charged() -> None:
    own = OwnTime(0)
    assert own.tick(TICK_NS) == TICK_NS
    assert own.tick(10 * S) <= 2 * TICK_NS  # we slept for ten seconds; so perhaps did everybody
    watched, beat = Watched(0), 5 * S
    assert check(watched, beat, heartbeat_ns=beat) is None
    assert check(watched, beat + 10 * S, own.tick(20 * S), heartbeat_ns=beat) is None


@pytest.mark.parametrize(
    ("seconds", "line", "reason"),
    [
        (2, {"heartbeat_ns": 0, "ready": False}, None),  # imports
        (60.1, {"heartbeat_ns": 0, "ready": False}, "no sign of life in 60 s after its start"),
        (120, {"ready": False}, None),  # loads a large model
        (600.1, {"ready": False}, "was not ready in 600 s"),
        (30, {"step_started_ns": 7}, None),  # a legal step may take seconds
        (31, {"step_started_ns": 7}, "its step takes longer than --step-timeout: 30.9 s"),
        (100, {"step_started_ns": 7, "step_timeout_ns": 0}, None),
    ],
)
def test_overdue(seconds: float, line: dict[str, Any], reason: str | None) -> None:
    found = reason_after(seconds, **line)
    assert (found is None) if reason is None else (reason in str(found)), found


def test_each_step_has_its_own_time() -> None:
    watched = Watched(0)
    for tick in range(1, 1000):
        assert check(watched, tick * TICK_NS, step_started_ns=1 + tick // 200) is None


@pytest.mark.parametrize("line", [{"step_started_ns": 7}, {"ready": False}, {"heartbeat_ns": 0, "ready": False}])
def test_a_machine_that_stood_still(line: dict[str, Any]) -> None:
    """A virtual one that was paused, a frozen container: nobody got on, and nobody is to blame."""
    watched, own = Watched(0), OwnTime(0)
    for now_ns in (TICK_NS, 2 * TICK_NS, 1000 * S, 1000 * S + TICK_NS):
        assert check(watched, now_ns, own.tick(now_ns), **line) is None
