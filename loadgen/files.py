"""The files that a run leaves beside its results."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import numpy as np

from loadgen.atomic_file import replace_file
from loadgen.errors import UsageError
from loadgen.run import Run


def require_folder(path: str) -> None:
    """Raises ``UsageError`` where no file can be made."""
    folder = Path(path).parent
    if Path(path).is_dir():
        raise UsageError(f"cannot write {path}: it is a folder")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {path}: there is no folder {folder} that we may write to")


def write_samples(path: str, run: Run) -> None:
    """Answers as JSON lines."""
    lines: list[str] = []
    for sample in run.result.samples:
        answer = base64.b64encode(sample.answer).decode()
        lines.append(json.dumps({"payload": sample.payload, "answer": answer}))
    replace_file(Path(path), "".join(line + "\n" for line in lines))


def write_calls(path: str, run: Run) -> None:
    """The measured calls as CSV, in the order in which they were due. ``t_us`` counts from the start of the run."""
    from loadgen._native import OUTCOMES  # not for a run that fails before

    calls = run.result.calls
    order = np.argsort(calls.intended_ns, kind="stable")
    intended_ns, end_ns = calls.intended_ns[order], calls.end_ns[order]
    columns = (intended_ns / 1e3, calls.payload[order], (end_ns - intended_ns) / 1e3, calls.outcome[order])
    lines = ["t_us,payload,response_us,outcome\n"]
    for t_us, payload, response_us, outcome in zip(*(column.tolist() for column in columns), strict=True):
        name = OUTCOMES[outcome] if outcome < len(OUTCOMES) else f"HTTP_{outcome - len(OUTCOMES) + 100}"
        lines.append(f"{t_us:.3f},{payload},{response_us:.3f},{name}\n")
    replace_file(Path(path), "".join(lines))
