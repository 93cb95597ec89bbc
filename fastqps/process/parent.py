"""Ties the life of a process to that of its parent."""

from __future__ import annotations

import ctypes
import os
import signal

from fastqps.errors import FAILURE

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """Has the kernel kill this process when its parent dies, also by SIGKILL; ends it if the parent has died already.

    The signal comes when the parent's *thread* that started us ends, so a child has to be started by a thread that
    lives as long as its process. A fork does not inherit it; another program in the same process does.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl(PR_SET_PDEATHSIG): {os.strerror(error)}")
    if os.getppid() != parent_pid:
        os._exit(FAILURE)
