"""A journal of kernels that were checked on each GPU, with results, in a file that outlives the process.

A kernel can end the process that checks it: an illegal address makes its CUDA context useless, and the compiler may
crash. So each check is announced before it begins. An announcement without a verdict, seen while nobody else holds the
lock, means that the checking process died, and the kernel is taken for the cause. A server has one journal for all of
its dispatchers: each kernel is checked once for each kind of GPU, whichever dispatcher comes first, and warned about
once.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

KERNELS = (
    "embed_norm",
    "add_norm",
    "activate",
    "quantise_rows",
    "tile_attention",
    "pool",
    "bag_means",
    "end_step",
    "embed_tokens",
    "rope_kv",
    "slot_attention",
    "last_rows",
    "logit_options",
    "sample",
)
CRASHES_MAX = 2  # kernels that ended a process; then no other is tried: a restart budget has an end
WAIT_S_MAX = 300.0  # for another process's check, which may have to compile
_POLL_S = 0.02
_BYTES_MAX = 1 << 22


@dataclass(frozen=True)
class Verdict:
    """``fault``: why the operation in plain torch takes the kernel's place; "": the kernel is used."""

    gpu: str  # its kind
    kernel: str
    shape: str
    fault: str
    crashed: bool = False  # the check ended its process


class Journal:
    """``fd``: the file, shared with other processes; -1: the verdicts are this process's own."""

    def __init__(self, fd: int = -1) -> None:
        self.fd = fd if fd >= 0 else os.memfd_create("fastqps kernels", os.MFD_CLOEXEC)

    def close(self) -> None:
        """Closes the file."""
        os.close(self.fd)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from checking. The system gives the lock back when its holder ends.

        ``TimeoutError`` where another process holds it for more than ``WAIT_S_MAX``.
        """
        give_up = time.monotonic() + WAIT_S_MAX
        while True:
            try:
                fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except (BlockingIOError, PermissionError):
                if time.monotonic() > give_up:
                    raise TimeoutError(f"another dispatcher has been checking a kernel for {WAIT_S_MAX:g} s") from None
            time.sleep(_POLL_S)
        try:
            yield
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN)

    @contextmanager
    def announced(self, gpu: str, kernel: str, shape: str, keep: type[Exception]) -> Iterator[None]:
        """Announces a check, while ``locked``. An error takes that back, unless it is a ``keep``: the process's end."""
        size = os.fstat(self.fd).st_size
        self._append({"gpu": gpu, "kernel": kernel, "shape": shape})
        try:
            yield
        except keep:
            raise
        except BaseException:
            os.ftruncate(self.fd, size)
            raise

    def conclude(self, verdict: Verdict) -> None:
        """The end of the check that was announced last. While ``locked``."""
        self._append(asdict(verdict))

    def verdicts(self) -> list[Verdict]:
        """All that were written."""
        return [Verdict(**entry) for entry in self._entries() if "fault" in entry]

    def unfinished(self) -> tuple[str, str, str] | None:
        """(GPU, kernel, shape) of the check whose process has died. While ``locked``."""
        *_, last = [None, *self._entries()]
        return (last["gpu"], last["kernel"], last["shape"]) if last and "fault" not in last else None

    def fallbacks(self) -> Mapping[str, int]:
        """How often plain torch's operation replaced each kernel."""
        counts = dict.fromkeys(KERNELS, 0)
        for verdict in self.verdicts():
            counts[verdict.kernel] += bool(verdict.fault)
        return counts

    def _append(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry).encode() + b"\n"
        os.pwrite(self.fd, line, os.fstat(self.fd).st_size)

    def _entries(self) -> list[dict[str, Any]]:
        """A line that is being written, without an end yet, is none."""
        *lines, _ = os.pread(self.fd, _BYTES_MAX, 0).split(b"\n")
        return [json.loads(line) for line in lines]
