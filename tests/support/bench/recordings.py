"""Recordings of a pod that is a formula: 2,500 items/s within 50 ms, and the signals that such a pod would show."""

from __future__ import annotations

from fastqps.autoscale.recording import Level, Recording

CAPACITY = 2500.0
QUEUE_MAX = 4000.0


def made_recording(shares: tuple[float, ...] = (0.05, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.1, 1.3, 2.0)) -> Recording:
    return Recording("made", "sim:made", CAPACITY, 2.0, 50_000.0, tuple(map(_level, shares)))


def _level(share: float) -> Level:
    offered = share * CAPACITY
    answered = min(offered, 1.05 * CAPACITY)
    over = offered > answered
    waiting = QUEUE_MAX * min(1.0, share / 1.3) if over else 10 * share**6
    wait_s = waiting / answered
    in_flight = waiting + answered * 0.01
    evidence = 1.5 - 0.5 / share if over else share
    return Level(
        offered,
        answered,
        0.01 if over else 1.0,
        10_000 + 1e6 * wait_s if over else 10_000 + 35_000 * share**8,
        {
            "saturation": max(share, evidence),
            "evidence": evidence,
            "cpu": 0.1 + 0.3 * min(share, 1.05),
            "duty": min(1.0, 0.5 + 0.6 * share),
            "waiting": waiting,
            "in_flight": in_flight,
            "queue_wait_s": wait_s,
            "rate": answered,
        },
    )
