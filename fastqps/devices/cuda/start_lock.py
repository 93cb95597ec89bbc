"""One process at a time starts on a GPU: what one measures as free memory, another must not take meanwhile."""

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

WAIT_S_MAX = 600.0  # a large model from a slow disk, for each of several dispatchers
_TELL_S = 5.0  # a wait that is worth a line
_POLL_S = 0.02


@contextmanager
def alone_on(gpu: str, wait_s_max: float = WAIT_S_MAX) -> Iterator[None]:
    """Keeps other processes of this user that start on ``gpu``, an identifier of it, waiting.

    The kernel lets go of the lock when a process ends, however it does. ``DeviceError`` where the wait was too long, or
    the lock's folder is another's or has no room for it.
    """
    handle = _open(_folder() / f"{gpu}.lock")
    try:
        _wait(handle, gpu, wait_s_max)
        yield
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise DeviceError(f"cannot open {path}, which processes that start on a GPU lock: {error.strerror}") from None


def _wait(handle: int, gpu: str, wait_s_max: float) -> None:
    start, told = time.monotonic(), False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            waited = time.monotonic() - start
        if waited > wait_s_max:
            raise DeviceError(
                f"another process has been starting on GPU {gpu} for {wait_s_max:g} s; see which of "
                "this user's processes holds it, and end it if it hangs"
            )
        if waited > _TELL_S and not told:
            print(f"waiting for another process that starts on GPU {gpu}", flush=True)
            told = True
        time.sleep(_POLL_S)


def _folder() -> Path:
    """This user's own, below the system's temporary one."""
    path = Path(tempfile.gettempdir()) / f"fastqps-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise DeviceError(f"cannot make {path}, where processes that start on a GPU meet: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise DeviceError(f"{path} is not a folder of this user alone; remove it: starting processes meet in it")
    return path
