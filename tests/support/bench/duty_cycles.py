"""The duty cycles of the modelled device in examples/duty_cycle, computed by arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STEP_MS, LAUNCH_MS = 5.0, 6.0  # step-5ms.toml
# Few short texts in a step, so that real work stays small beside the modelled. The server and the generator share all
# CPUs: two dispatchers that launch need more than one.
COMMON = ("--model", "minilm", "--pin", "off", "--lengths", "4", "--set", "max-batch-items=8", "-c", "256")
HELD = ("--try", "lanes=1", "--try", "max-batch-delay=0us", "--try", "max-batch-tokens=4096")
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


SLOW_HOST = (
    Expected(
        "one synchronous dispatcher",
        {"dispatchers": 1, "async-steps": "off"},
        STEP_MS / (STEP_MS + LAUNCH_MS),
        "the device waits while the host launches: 5 / (5 + 6)",
    ),
    Expected(
        "one asynchronous dispatcher",
        {"dispatchers": 1, "async-steps": "on"},
        STEP_MS / max(STEP_MS, LAUNCH_MS),
        "the host launches while the device runs, but takes longer: 5 / 6",
    ),
    Expected(
        "two asynchronous dispatchers",
        {"dispatchers": 2, "async-steps": "on"},
        0.97,
        "two hosts make a step every 3 ms, the device takes 5: nothing but hand-overs is lost",
        least=True,
    ),
)
FAST_HOST = (
    Expected(
        "one asynchronous dispatcher, free launches",
        {"dispatchers": 1, "async-steps": "on"},
        0.99,
        "the next step is there long before the device wants it",
        least=True,
    ),
)


def synchronous(host_ms: float) -> float:
    """Of one dispatcher that waits for each step, with so much of the host's work before it."""
    return STEP_MS / (STEP_MS + host_ms)


def with_launch(profile: Path, launch_ms: float) -> str:
    """The profile's text, with so much CPU time for each launch."""
    text = profile.read_text()
    changed = text.replace(f"launch_us = {1000 * LAUNCH_MS:g}", f"launch_us = {1000 * launch_ms:g}")
    assert changed != text
    return changed
