"""How exactly the kernel ends a thread's waits."""

from __future__ import annotations

import ctypes

_PR_SET_TIMERSLACK = 29


def wait_exactly() -> None:
    """Takes the slack, up to 50 µs of each wait, from the calling thread's timers and those of its children."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)  # ns
