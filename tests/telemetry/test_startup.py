"""Where the time of a process's start goes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from fastqps._core import START_STAGES
from fastqps.process.startup import Startup, process_start_s

pytestmark = pytest.mark.compute


def test_stages_within_stages_count_once() -> None:
    now = [10.0]

    def later(seconds: float) -> None:
        now[0] += seconds

    startup = Startup(8.0, lambda: now[0])
    startup.so_far("imports")
    with startup.stage("weights"):
        later(1.0)
        with startup.stage("waiting"):
            later(3.0)
        later(0.5)
    later(0.25)
    with pytest.raises(OSError), startup.stage("graphs"):
        later(0.125)
        raise OSError
    later(0.03)
    with startup.stage("kernels"):
        later(0.04)
    wanted = {"imports": 2.0, "weights": 1.5, "waiting": 3.0, "other": 0.28, "graphs": 0.125, "kernels": 0.04}
    assert startup.seconds == pytest.approx(dict.fromkeys(START_STAGES, 0.0) | wanted)
    assert startup.report() == "started in 6.9 s: waiting 3.0, imports 2.0, weights 1.5, other 0.3, graphs 0.1"
    assert sum(startup.seconds.values()) == pytest.approx(now[0] - 8.0)


def test_the_start_of_a_process_is_the_systems() -> None:
    asked_s = time.monotonic()
    program = "from fastqps.process.startup import process_start_s; print(process_start_s())"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert asked_s - 0.02 <= float(found) <= time.monotonic()
    assert process_start_s() < asked_s


def test_without_proc_it_starts_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    asked_s = time.monotonic()
    assert asked_s <= process_start_s() <= time.monotonic()
