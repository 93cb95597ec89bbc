"""``fastqps bench MODE`` as a program, ended in time: what it had measured by then is in its report."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.gpu.run import Run
from fastqps.bench.flags import add_common, read_common
from fastqps.bench.measure.target import Target
from fastqps.bench.modes import mode
from fastqps.cli.parser import ArgumentParser
from fastqps.config import decide

WRITE_S = 8.0  # for its servers to end and its report to be written


def run_bench(run: Run, name: str, flags: Sequence[str]) -> dict[str, Any]:
    """Its report.json. In a dry run {}: the flags are checked as the program would, and nothing is started.

    ``RuntimeError`` with its last words where it left no report.
    """
    if run.dry:
        check_flags(name, flags)
        return {}
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fastqps", "bench", name, *flags, "--output", folder]
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            _, said = child.communicate(timeout=max(1.0, run.left_s - WRITE_S))
        except subprocess.TimeoutExpired:
            run.leave_out(f"fastqps bench {name}: the rest of its points")
            child.send_signal(signal.SIGTERM)  # it writes what it has
            _, said = child.communicate(timeout=WRITE_S)
        print(said)
        report = Path(folder) / "report.json"
        if not report.is_file():
            raise RuntimeError((said.strip().splitlines() or [f"fastqps bench {name} failed"])[-1])
        found: dict[str, Any] = json.loads(report.read_text())
        return found


def check_flags(name: str, flags: Sequence[str]) -> None:
    """``ConfigError`` for flags that the program would refuse, before it starts a server."""
    parser = ArgumentParser(prog=f"fastqps bench {name}")
    module = mode(name)
    module.add_arguments(parser)
    add_common(parser)
    options = parser.parse(list(flags))
    common = read_common(options)
    target = Target(common.settings)
    decide(target.loaded({}).config)
    if check := getattr(module, "check", None):
        check(options, common)
