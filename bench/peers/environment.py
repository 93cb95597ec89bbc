"""The peers' virtual environments, installed when they are first needed, and MiniLM as an ONNX file beside one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

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
    """What a command prints. ``BenchError`` where it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: {done.stderr.strip()[-1000:]}")
    return done.stdout
