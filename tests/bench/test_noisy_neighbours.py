"""Noisy neighbours do what they are for, on their CPUs alone, and leave nothing behind; the table beside peers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from serving import PATIENCE_S

from bench.neighbours import ALONE, KEPT_MIN, NEIGHBOURS, Server, rows
from bench.noise import beside
from fastqps.bench.results.result import BenchError

CPU = min(os.sched_getaffinity(0))


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_a_neighbour_works_on_its_cpu_and_ends(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with beside(name, CPU) as process:
        assert os.sched_getaffinity(process.pid) == {CPU} and process.poll() is None
        assert not list(tmp_path.iterdir())  # a file has no name, so that nothing has to be removed
    assert process.returncode == -9


@pytest.mark.parametrize("own_session", [False, True])
def test_a_neighbour_has_a_session_of_its_own_if_asked(own_session: bool) -> None:
    with beside("spinner", CPU, own_session=own_session) as process:
        assert (os.getsid(process.pid) == process.pid) is own_session
        assert os.getpgid(process.pid) == process.pid
    assert process.returncode == -9


def test_a_neighbour_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(BenchError, match="the neighbour spinner ended with exit code 1"), beside("spinner", CPU):
        pass


def test_a_neighbour_ends_with_whoever_started_it() -> None:
    program = f"""
import os
from bench.noise import beside
with beside("fork-storm", {CPU}) as storm:
    print(storm.pid, flush=True)
    os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    storm = Path(f"/proc/{int(done.stdout)}/cmdline")
    deadline = time.monotonic() + PATIENCE_S
    while storm.exists() and b"fork-storm" in storm.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not storm.exists() or b"fork-storm" not in storm.read_bytes()


def test_the_table_has_what_each_server_kept() -> None:
    servers = [Server("echo", dict), Server("sim", dict, KEPT_MIN)]
    subjects = {subject.name: subject for server in servers for subject in server.subjects()}
    for name, subject in subjects.items():
        share = 1.0 if name.endswith(ALONE) else 0.5 if name.startswith("echo") else 0.96
        subject.runs += [{"rate": 1000 * noise * share, "service_p99_us": 4000 / share} for noise in (0.9, 1.0, 1.3)]
    found = list(rows(servers, subjects))
    assert len(found) == 4 * len(NEIGHBOURS)
    assert found[0].name == f"echo beside {NEIGHBOURS[0]}: kept" and found[0].measured == pytest.approx(50)
    assert found[1].name == "… p99" and found[1].measured == pytest.approx(8.0)
    assert [row.accepted for row in found[:4]] == [None, None, True, None]
