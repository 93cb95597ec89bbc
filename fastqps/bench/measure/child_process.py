"""A program in a child process that ends with the ``with`` that started it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def child_process(
    command: Sequence[str], *, end_s: float = 0.0, own_session: bool = False, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """``command`` in a process group of its own, from ``with`` on. ``options`` are those of ``subprocess.Popen``.

    ``own_session``: in a session of its own, too, to which the kernel's autogroups give a share of their own.

    At the end it is asked to end, where it may take ``end_s`` seconds for that, and its whole group is killed: a
    process that it leaves behind would take the core from whatever is measured next.
    """
    group: dict[str, Any] = {"start_new_session": True} if own_session else {"process_group": 0}
    with subprocess.Popen(command, text=True, **group, **options) as process:
        try:
            yield process
        finally:
            if end_s:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(end_s)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
