"""Ties the life of a process to that of its parent."""

from __future__ import annotations

import ctypes
import os
import signal

from fastqps.errors import FAILURE

_PR_SET_PDEATHSIG = 1


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
