"""A private CUDA MPS daemon for measurements outside of a server, and processes that surely do not use one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
START_S = 10.0


class MpsError(Exception):
    """There is no MPS here; the message says why."""


@contextlib.contextmanager
def daemon() -> Iterator[dict[str, str]]:
    """The environment of its clients. ``MpsError`` where it does not start."""
    if not shutil.which(CONTROL):
        raise MpsError(f"{CONTROL} is not on the PATH")
    with tempfile.TemporaryDirectory(prefix="fq-mps-", dir="/tmp") as folder:  # short: paths of sockets are
        own = _environment(Path(folder))
        done = subprocess.run(
            [CONTROL, "-d"], env={**os.environ, **own}, capture_output=True, text=True, timeout=30, check=False
        )
        if done.returncode:
            raise MpsError(f"{CONTROL} -d: {(done.stderr or done.stdout).strip()}")
        try:
            yield own
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                ask("quit", own)
                time.sleep(0.5)


@contextlib.contextmanager
def without() -> Iterator[dict[str, str]]:
    """The environment of processes that find no daemon, whatever runs on this machine."""
    with tempfile.TemporaryDirectory(prefix="fq-nomps-", dir="/tmp") as folder:
        yield _environment(Path(folder))


def ask(command: str, own: dict[str, str]) -> str:
    """What the daemon answers."""
    done = subprocess.run(
        [CONTROL],
        input=command + "\n",
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return done.stdout


def clients(own: dict[str, str]) -> set[int]:
    """Process ids that are attached to the daemon's servers."""
    servers = [line for line in ask("get_server_list", own).split() if line.isdigit()]
    return {int(word) for server in servers for word in ask(f"get_client_list {server}", own).split() if word.isdigit()}


def _environment(folder: Path) -> dict[str, str]:
    for name in ("p", "l"):
        (folder / name).mkdir()
    return {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "p"), "CUDA_MPS_LOG_DIRECTORY": str(folder / "l")}
