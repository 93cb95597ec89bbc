"""What the kernel is asked for a thread that answers, read back from the kernel."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

from fastqps.process.prctl import wait_exactly

_PR_GET_TIMERSLACK = 30


def test_a_thread_that_waits_exactly() -> None:
    """In a thread of its own, which ends with what was asked for it."""

    def asked() -> int:
        wait_exactly()
        return ctypes.CDLL(None).prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0)

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(asked).result() == 1
