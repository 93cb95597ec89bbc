"""What has to be in time is tried again where it was not: a machine that stands still for a moment decides no test."""

from __future__ import annotations

from collections.abc import Callable

TRIES = 12


def until_in_time(attempt: Callable[[], str], tries: int = TRIES) -> None:
    """Some attempt is in time: it says what was too late or early, or nothing. What must always hold it asserts."""
    said: list[str] = []
    for _ in range(tries):
        if not (late := attempt()):
            return
        said.append(late)
    raise AssertionError(f"never in time, tried {tries} times: {said}")


def unmet(**conditions: bool) -> str:
    """The names of those that do not hold."""
    return ", ".join(name for name, held in conditions.items() if not held)
