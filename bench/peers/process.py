"""The peers' virtual environments, installed when they are first needed, with models in the form that a peer reads
beside one; and other runtimes as programs on CPUs of their own choice: see ``program``."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from fastqps.bench.measure.generator import child_process
from fastqps.bench.results.result import BenchError
from fastqps.models.names import resolve

ROOT = Path(__file__).parents[2]
FOLDER, GENERATORS_FOLDER = ROOT / "build/peers", ROOT / "build/generators"
PYTHON, GENERATORS_PYTHON = FOLDER / "bin/python", GENERATORS_FOLDER / "bin/python"
# For each folder one set that is known to work together. nncf and the exports need torch, optimum-intel an older
# transformers, whose encoders do not export.
_OPENVINO = ("openvino==2026.4.1", "nncf==3.4.0")
_EXPORT = ("torch==2.13.0", "transformers==5.24.0", "onnx==1.23.2")
_CONVERT = ("torch==2.13.0", "transformers==5.5.4")
PEERS = {
    "OpenVINO": (FOLDER, (*_EXPORT, *_OPENVINO)),
    "onnxruntime": (FOLDER, (*_EXPORT, "onnxruntime==1.32.0")),
    "OpenVINO GenAI": (
        GENERATORS_FOLDER,
        (
            *_CONVERT, *_OPENVINO, "openvino-genai==2026.4.1.0", "openvino-tokenizers==2026.4.1.0",
            "huggingface-hub==1.21.0", "requests==2.34.2", "setuptools==84.2.1",
        ),
    ),
    "CTranslate2": (GENERATORS_FOLDER, (*_CONVERT, "ctranslate2==4.8.5")),
}  # fmt: skip
# Without what they depend on: it is there but for torchvision, which needs a torch of the same build and no text does.
_ALONE = {"OpenVINO GenAI": ("optimum==2.3.0", "optimum-intel==2.2.0")}


def install_peers(names: Iterable[str], facts: dict[str, str]) -> list[str]:
    """Installs peers and returns those that are there. Prints which cannot be installed, and adds the packages of the
    others to ``facts``."""
    installed: dict[str, tuple[str, ...]] = {}
    for name in names:
        (folder, packages), alone = PEERS[name], _ALONE.get(name, ())
        mark = f"{name.lower().replace(' ', '-')}.packages"
        try:
            install(folder, packages, mark=mark)
            if alone:
                install(folder, alone, "--no-deps", mark=f"alone-{mark}")
        except BenchError as error:
            print(f"{name} is left out: {error}", flush=True)
        else:
            installed[name] = (*packages, *alone)
    if installed:
        facts["peers"] = ", ".join(dict.fromkeys(package for packages in installed.values() for package in packages))
    return list(installed)


def install(folder: Path, packages: Sequence[str], *flags: str, mark: str = "packages") -> None:
    """A virtual environment in ``folder`` with ``packages``; ``flags`` are pip's. ``mark``: the file that says so."""
    made, wanted = folder / mark, "\n".join(packages)
    if made.is_file() and made.read_text() == wanted:
        return
    print(f"installing {', '.join(packages)} into {folder}", flush=True)
    run(sys.executable, "-m", "venv", str(folder))
    run(str(folder / "bin/python"), "-m", "pip", "install", "-q", *flags, *packages)
    made.write_text(wanted)


def minilm_onnx() -> Path:
    """MiniLM with pooling and normalisation: int64 input_ids and attention_mask [items, tokens] → embedding."""
    _, checkpoint = resolve("minilm")
    return _converted(PYTHON, FOLDER / "minilm.onnx", "bench.peers.export", str(checkpoint))


def converted_llama(runtime: str, llama: Path) -> Path:
    """The folder of one of ``llamas`` in int8 for a runtime of ``generators``. ``BenchError`` if its fp32 form does not
    generate the tokens that transformers does."""
    target = llama.with_name(f"{llama.name}-{runtime}")
    return _converted(GENERATORS_PYTHON, target, "bench.peers.convert", runtime, str(llama))


def _converted(python: Path, target: Path, module: str, *arguments: str) -> Path:
    """A file or a folder that a module of the peers' environment makes once."""
    if not target.exists():
        unfinished = target.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        print(f"converting: {module} {' '.join(arguments)}", flush=True)
        run(str(python), "-m", module, *arguments, str(unfinished))
        unfinished.rename(target)
    return target


def run(*command: str) -> str:
    """Runs a command and returns its output. ``BenchError`` where it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: {done.stderr.strip()[-1000:]}")
    return done.stdout


class PeerProcess:
    """A runtime that runs. ``way``: how it does it; ``answers``: a row for each item."""

    def __init__(self, command: str, process: subprocess.Popen[str], log: IO[str], answers: Path) -> None:
        """Returns when it is ready."""
        self._command, self._process, self._log = command, process, log
        self.way = self._line()
        self.answers: np.ndarray[Any, Any] = np.load(answers)

    def run(self, seconds: float) -> dict[str, float]:
        """Items per second, and the CPU time of an item."""
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
    program: str, runtime: str, *arguments: str, cpus: Sequence[int], python: Path = Path(sys.executable)
) -> Iterator[PeerProcess]:
    """A runtime of ``encoders`` or ``generators``, from ``with`` on."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
        answers = Path(folder) / "answers.npy"
        pinned = ["taskset", "-c", ",".join(map(str, cpus))]
        command = [*pinned, str(python), "-m", f"bench.peers.{program}", runtime, *arguments, str(answers)]
        with child_process(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log) as process:
            yield PeerProcess(" ".join(command), process, log, answers)


def least_cosine(vectors: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    """The least cosine of two lists of unit vectors, row by row."""
    return float((vectors * expected).sum(1).min())
