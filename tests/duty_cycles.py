"""What the duty cycle has to be, by arithmetic, beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STEP_MS, PREPARE_MS = 5.0, 6.0  # step-5ms.toml
TOLERANCE = 0.03


@dataclass(frozen=True)
class Expected:
    """A way to run, and the duty cycle that follows from it. ``least``: it may only be higher."""

    name: str
    settings: Mapping[str, Any]
    duty_cycle: float
    why: str
    least: bool = False

    def holds(self, measured: float) -> bool:
        """Whether a measured duty cycle agrees."""
        return measured >= self.duty_cycle if self.least else abs(measured - self.duty_cycle) <= TOLERANCE


PYTHON = (
    Expected(
        "one synchronous dispatcher",
        {"dispatchers": 1, "async-steps": "off"},
        STEP_MS / (STEP_MS + PREPARE_MS),
        "the device waits while the host prepares: 5 / (5 + 6)",
    ),
    Expected(
        "one asynchronous dispatcher",
        {"dispatchers": 1, "async-steps": "on"},
        STEP_MS / max(STEP_MS, PREPARE_MS),
        "the host prepares while the device runs, but takes longer: 5 / 6",
    ),
    Expected(
        "two asynchronous dispatchers",
        {"dispatchers": 2, "async-steps": "on"},
        0.97,
        "two hosts make a step every 3 ms, the device takes 5: nothing but hand-overs is lost",
        least=True,
    ),
)
NATIVE = (
    Expected(
        "one asynchronous dispatcher, C++ preparation",
        {"dispatchers": 1, "async-steps": "on"},
        0.99,
        "the next step is there long before the device wants it",
        least=True,
    ),
)


def synchronous(host_ms: float) -> float:
    """Of one dispatcher that waits for each step, with so much of the host's work before it."""
    return STEP_MS / (STEP_MS + host_ms)


def measured(points: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> float:
    """The highest duty cycle of a report's runs with these settings: what else the machine does can only lower it."""
    found = [p for p in points if all(p["settings"].get(key) == value for key, value in settings.items())]
    runs = [run for point in found for run in (point, *point["repetitions"])]
    return max((run["duty_cycle"] or 0.0 for run in runs), default=0.0)
