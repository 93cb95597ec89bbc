"""What child processes are given, and how they are started and reaped."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from paths import ROOT
from serving import PATIENCE_S

from fastqps.process.children import DoorSettings, write_settings
from fastqps.supervisor.child import Child, environment


def test_children_get_no_token_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = ("HF_TOKEN", "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN")
    for name in (*tokens, "HF_HOME"):
        monkeypatch.setenv(name, "x")
    found = environment(2)
    assert not found.keys() & set(tokens)
    assert (Path(found["PYTHONPATH"].partition(os.pathsep)[0]) / "fastqps/supervisor/child.py").is_file()
    assert found["HF_HOME"] == "x" and found["OMP_NUM_THREADS"] == "2" and set(os.environ) - found.keys() == set(tokens)


def test_compute_threads_spin_for_a_short_time_unless_the_user_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    assert environment(2)["GOMP_SPINCOUNT"] == "10000" and "GOMP_SPINCOUNT" not in environment()
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    assert environment(2)["GOMP_SPINCOUNT"] == "7"
    monkeypatch.delenv("GOMP_SPINCOUNT")
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert "GOMP_SPINCOUNT" not in environment(2)


async def test_a_child_that_nobody_can_watch_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, flags: int = 0) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    monkeypatch.setattr("fastqps.supervisor.child.UNDO_MAX_S", PATIENCE_S)
    files, before = psutil.Process().num_fds(), psutil.Process().children()
    with pytest.raises(OSError, match="Too many open files"):
        Child([sys.executable, "-c", "import time; time.sleep(600)"], (), os.environ, print)
    assert psutil.Process().children() == before and psutil.Process().num_fds() == files


def test_a_child_that_a_debugger_holds_is_reaped_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end is seen before its exit code can be had."""
    held = [True, True]
    poll = subprocess.Popen.poll
    monkeypatch.setattr(subprocess.Popen, "poll", lambda process: None if held and held.pop() else poll(process))

    async def start() -> tuple[int, list[str]]:
        lines: list[str] = []
        child = Child([sys.executable, "-c", "print('last'); raise SystemExit(3)"], (), os.environ, lines.append)
        return await asyncio.wait_for(child.exited, PATIENCE_S), lines

    assert asyncio.run(start()) == (3, ["last"])
    assert not held


def test_child_started_by_somebody_else_ends_at_once() -> None:
    known = {"title": "frontdoor 0", "parent_pid": 1, "cpus": ()}
    settings = DoorSettings(**{field.name: known.get(field.name, 0) for field in dataclasses.fields(DoorSettings)})
    command = [sys.executable, "-m", "fastqps.process.launch", "fastqps.absent", write_settings(settings)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (1, "")
