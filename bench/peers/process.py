"""The peers' virtual environments, installed when they are first needed, with MiniLM as an ONNX file beside one; and
other runtimes as programs on CPUs of their own choice: see ``program``."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from fastqps.bench.measure.generator import child_process
from fastqps.bench.results.result import BenchError
from fastqps.models.names import resolve

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build/peers"
PYTHON = FOLDER / "bin/python"
# One set that is known to work together. nncf and the export need torch.
_PACKAGES = (
    "openvino==2026.4.1",
    "nncf==3.4.0",
    "onnx==1.23.2",
    "onnxruntime==1.32.0",
    "torch==2.13.0",
    "transformers==5.24.0",
)


def install_peers() -> None:
    """Does nothing where they are there. ``BenchError`` where they cannot be installed."""
    install(FOLDER, _PACKAGES)


def install(folder: Path, packages: Sequence[str], *flags: str) -> None:
    """A virtual environment in ``folder`` with ``packages``; ``flags`` are pip's."""
    made, wanted = folder / "packages", "\n".join(packages)
    if made.is_file() and made.read_text() == wanted:
        return
    print(f"installing {', '.join(packages)} into {folder}", flush=True)
    run(sys.executable, "-m", "venv", str(folder))
    run(str(folder / "bin/python"), "-m", "pip", "install", "-q", *flags, *packages)
    made.write_text(wanted)


def minilm_onnx() -> Path:
    """MiniLM with pooling and normalisation: int64 input_ids and attention_mask [items, tokens] → embedding."""
    exported = FOLDER / "minilm.onnx"
    if not exported.is_file():
        _, checkpoint = resolve("minilm")
        unfinished = exported.with_suffix(".part")
        run(str(PYTHON), "-m", "bench.peers.export", str(checkpoint), str(unfinished))
        unfinished.rename(exported)
    return exported


def run(*command: str) -> str:
    """Runs a command and returns its output. ``BenchError`` where it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: {done.stderr.strip()[-1000:]}")
    return done.stdout


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


def least_cosine(vectors: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    """The least cosine of two lists of unit vectors, row by row."""
    return float((vectors * expected).sum(1).min())
