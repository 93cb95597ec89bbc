"""Locks between starting processes of one user, so that none disturbs another's measurement or file."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastqps.devices.errors import DeviceError
from fastqps.process.startup import STARTUP
from fastqps.terminal import say

WAIT_S_MAX = 600.0  # a large model from a slow disk, for each of several dispatchers
_TELL_S = 5.0  # a wait that is worth a line
_POLL_S = 0.02


@contextmanager
def alone_on(gpu: str, wait_s_max: float = WAIT_S_MAX) -> Iterator[None]:
    """Keeps other processes of this user that start on ``gpu``, an identifier of it, waiting. Raises as ``alone``."""
    with alone(gpu, f"starting on GPU {gpu}", wait_s_max):
        yield


@contextmanager
def alone(name: str, task: str, wait_s_max: float = WAIT_S_MAX) -> Iterator[None]:
    """Holds the lock ``name``. ``task`` tells people what the process that holds it is doing.

    The kernel releases the lock when a process ends, however it ends. ``DeviceError`` if the wait was too long, or if
    the folder of the locks belongs to another user or has no room for a lock.
    """
    handle = _open(_folder() / f"{name}.lock", task)
    try:
        with STARTUP.stage("waiting"):
            _wait(handle, task, wait_s_max)
        yield
    finally:
        os.close(handle)


def _open(path: Path, task: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise DeviceError(f"cannot open {path}, the lock for {task}: {error.strerror}") from None


def _wait(handle: int, task: str, wait_s_max: float) -> None:
    start, reported = time.monotonic(), False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            waited = time.monotonic() - start
        if waited > wait_s_max:
            raise DeviceError(
                f"another process has been {task} for {wait_s_max:g} s; see which of this user's processes holds it, "
                "and end it if it hangs"
            )
        if waited > _TELL_S and not reported:
            say(f"waiting for another process that is {task}")
            reported = True
        time.sleep(_POLL_S)


def _folder() -> Path:
    """This user's own, below the system's temporary one."""
    path = Path(tempfile.gettempdir()) / f"fastqps-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise DeviceError(f"cannot make {path}, the folder of starting processes' locks: {error.strerror}") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise DeviceError(f"{path} is not a folder of this user alone; remove it: starting processes lock files in it")
    return path
