"""Runs of the generator as a program, against its own server of known behaviour."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from serving import PATIENCE_S

from loadgen._native import Server

METHOD = "/load.Test/Call"
MS = 1_000_000


@contextmanager
def server(**options: Any) -> Iterator[Server]:
    found = Server(**options)
    try:
        yield found
    finally:
        found.stop()


def command(port: int, *arguments: str, method: str = METHOD) -> list[str]:
    target = ["--target", f"127.0.0.1:{port}", "--method", method]
    return [sys.executable, "-m", "loadgen", *target, *arguments]


def run(tmp_path: Path, port: int, *arguments: str, code: int | None = 0, method: str = METHOD) -> dict[str, Any]:
    """The JSON of a run. ``code``: the exit code that it must have."""
    path = tmp_path / "result.json"
    path.unlink(missing_ok=True)
    texts = [] if any(a.startswith("--payload") for a in arguments) else ["--text-field", "2", "--text-lengths", "5"]
    whole = command(port, *texts, *arguments, "--json", str(path), method=method)
    done = subprocess.run(whole, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert "Traceback" not in done.stderr and (code is None or done.returncode == code), (done.stderr, done.stdout)
    found: dict[str, Any] = json.loads(path.read_text())
    return found | {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
