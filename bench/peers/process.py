"""Another runtime as a program of its own, on CPUs of its own choice: see ``program``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from bench.peers.environment import ROOT
from fastqps.bench.results.result import BenchError


class PeerProcess:
    """A ``bench.peers.MODULE``, from ``with`` on. ``way``: how it does it; ``answers``: its embeddings."""

    def __init__(self, module: str, *arguments: str, cpus: Sequence[int], python: Path = Path(sys.executable)) -> None:
        self._pinned = ["taskset", "-c", ",".join(map(str, cpus))]
        self._command = [*self._pinned, str(python), "-m", f"bench.peers.{module}", *arguments]
        self._open = ExitStack()
        self.way = ""
        self.answers = np.empty((0, 0), np.float32)

    def __enter__(self) -> Self:
        self._log = self._open.enter_context(tempfile.TemporaryFile("w+"))
        with tempfile.TemporaryDirectory() as folder:
            answers = Path(folder) / "answers.npy"
            self._process = subprocess.Popen(
                [*self._command, str(answers)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
            )
            try:
                self.way = self._line()
                self.answers = np.load(answers)
            except BaseException:
                self._end()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.kill()  # it holds nothing but memory
        self._process.wait()
        self._open.close()

    def rate(self, seconds: float) -> tuple[float, float]:
        """Texts per second, and CPU seconds of a text."""
        assert self._process.stdin
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        rate, cpu_s = map(float, self._line().split())
        return rate, cpu_s

    def _line(self) -> str:
        """Its next line with the mark of ``program``."""
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith("= "):
                return line[2:].strip()
        self._log.seek(0)
        raise BenchError(f"{' '.join(self._command)} has ended: {self._log.read().strip()[-1000:]}")


def least_cosine(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> float:
    """Of unit vectors, row by row."""
    return float((found * wanted).sum(1).min())
