"""Asks the kernel to end this process with its parent, and its waits exactly.

``python -m fastqps.process.prctl PARENT COMMAND…`` becomes that command, which the kernel kills when PARENT dies. For
foreign programs, since the parent-death signal survives an exec.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from fastqps.errors import FAILURE

_PR_SET_PDEATHSIG, _PR_SET_TIMERSLACK = 1, 29


def die_with_parent(parent_pid: int) -> None:
    """Makes the kernel kill this process when its parent dies. Exits at once if the parent is dead already.

    The kernel acts when the parent's *thread* that started this process ends, so that thread must live as long as the
    parent. A fork does not inherit this; an exec keeps it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl(PR_SET_PDEATHSIG): {os.strerror(error)}")
    if os.getppid() != parent_pid:
        os._exit(FAILURE)


def wait_exactly() -> None:
    """Takes the slack, up to 50 µs of each wait, from the calling thread's timers and those of its children."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)  # ns


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    try:
        os.execv(sys.argv[2], sys.argv[2:])
    except OSError as error:
        sys.exit(f"{sys.argv[2]} cannot be run: {error.strerror}")
