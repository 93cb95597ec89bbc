"""The peers' virtual environment, installed when it is first needed, and MiniLM as an ONNX file beside it."""

from __future__ import annotations

import subprocess
import sys
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
    made, wanted = FOLDER / "packages", "\n".join(_PACKAGES)
    if made.is_file() and made.read_text() == wanted:
        return
    print(f"installing {', '.join(_PACKAGES)} into {FOLDER}", flush=True)
    _run(sys.executable, "-m", "venv", str(FOLDER))
    _run(str(PYTHON), "-m", "pip", "install", "-q", *_PACKAGES)
    made.write_text(wanted)


def minilm_onnx() -> Path:
    """MiniLM with pooling and normalisation: int64 input_ids and attention_mask [items, tokens] → embedding."""
    exported = FOLDER / "minilm.onnx"
    if not exported.is_file():
        _, checkpoint = resolve("minilm")
        unfinished = exported.with_suffix(".part")
        _run(str(PYTHON), "-m", "bench.peers.export", str(checkpoint), str(unfinished))
        unfinished.rename(exported)
    return exported


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: {done.stderr.strip()[-1000:]}")
