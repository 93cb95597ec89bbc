"""A private directory of this run, for sockets. Also clears the directories of killed runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fastqps.supervisor.log import Log

PREFIX = "fqps"  # short: a socket's path has at most 107 bytes
OWNER = "owner"
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
MPS_PROGRAMS = "nvidia-cuda-mps"  # the kernel's names: the first 15 bytes


class RunDirectory:
    """A directory with mode 700 and a subdirectory for each purpose. A locked file in it shows that its run lives.

    A context manager, which removes the directory at its end.
    """

    def __init__(self, log: Log) -> None:
        """Clears directories of this user's dead runs. Raises ``OSError`` if no directory can be made."""
        self._log = log
        self._sweep()
        # Until it is locked it has a name that no other run clears.
        hidden = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
        try:
            self._owner = os.open(hidden / OWNER, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except OSError:
            hidden.rmdir()
            raise
        fcntl.flock(self._owner, fcntl.LOCK_EX)
        os.write(self._owner, str(os.getpid()).encode())
        self.path = hidden.with_name(f"{PREFIX}-{os.getuid()}-{os.getpid()}{hidden.name[-4:]}")
        hidden.rename(self.path)

    def folder(self, name: str) -> Path:
        """A subdirectory, made if missing, because a cleaner of temporary files may have removed everything."""
        path = self.path / name
        self.path.mkdir(mode=0o700, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    def close(self) -> None:
        """Removes everything."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._owner)

    def _sweep(self) -> None:
        for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}-{os.getuid()}-*"):
            with contextlib.suppress(OSError):
                if path.stat(follow_symlinks=False).st_uid == os.getuid() and not _lives(path):
                    pids = kill_mps(path)
                    shutil.rmtree(path, ignore_errors=True)
                    ended = f" and ended its MPS processes {', '.join(map(str, pids))}" if pids else ""
                    self._log.info(f"cleared {path}, which a killed server has left{ended}")


def kill_mps(folder: Path) -> list[int]:
    """Kills the MPS daemons and servers whose pipes are below ``folder``. Returns their pids."""
    found = list(_mps_processes(folder))
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found


def _lives(path: Path) -> bool:
    owner = os.open(path / OWNER, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(owner, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(owner)
    return False


def _mps_processes(folder: Path) -> Iterator[int]:
    wanted = f"{PIPES}={folder}/".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            if (process / "comm").read_text().strip() == MPS_PROGRAMS:
                entries = (process / "environ").read_bytes().split(b"\0")
                if any(entry.startswith(wanted) for entry in entries):
                    yield int(process.name)
