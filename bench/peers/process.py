"""Another runtime as a program of its own, on CPUs of its own choice: see ``program``."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from bench.peers.environment import ROOT
from fastqps.bench.measure.generator import child_process
from fastqps.bench.results.result import BenchError


class PeerProcess:
    """A runtime of ``program`` that runs. ``way``: how it does it; ``answers``: its embeddings."""

    def __init__(self, command: str, process: subprocess.Popen[str], log: IO[str], answers: Path) -> None:
        """Returns when it is ready."""
        self._command, self._process, self._log = command, process, log
        self.way = self._line()
        self.answers: np.ndarray[Any, Any] = np.load(answers)

    def run(self, seconds: float) -> dict[str, float]:
        """Texts per second, and the CPU time of a text."""
        assert self._process.stdin
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        rate, cpu_s = map(float, self._line().split())
        return {"rate": rate, "cpu_us": 1e6 * cpu_s}

    def _line(self) -> str:
        """Its next line with the mark of ``program``."""
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith("= "):
                return line[2:].strip()
        self._log.seek(0)
        raise BenchError(f"{self._command} has ended: {self._log.read().strip()[-1000:]}")


@contextlib.contextmanager
def peer_process(
    runtime: str, *arguments: str, cpus: Sequence[int], python: Path = Path(sys.executable)
) -> Iterator[PeerProcess]:
    """A runtime of ``program``, from ``with`` on."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
        answers = Path(folder) / "answers.npy"
        pinned = ["taskset", "-c", ",".join(map(str, cpus))]
        command = [*pinned, str(python), "-m", "bench.peers.program", runtime, *arguments, str(answers)]
        with child_process(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log) as process:
            yield PeerProcess(" ".join(command), process, log, answers)


def least_cosine(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> float:
    """Of unit vectors, row by row."""
    return float((found * wanted).sum(1).min())
