"""Triton's perf_analyzer in a closed loop, in a virtual environment of its own."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from pathlib import Path

from bench.peers.process import ROOT, install
from fastqps.bench.results.result import BenchError

FOLDER = ROOT / "build/perf_analyzer"
# The newest wheel that carries the program, and the CUDA runtime that it is linked with, also where there is no GPU.
_PACKAGES = ("tritonclient==2.44.0", "nvidia-cuda-runtime-cu12==12.9.79")
_WINDOWS = 3  # of which it reports the mean


def install_perf_analyzer() -> None:
    """``BenchError`` where it cannot run."""
    install(FOLDER, _PACKAGES, "--no-deps")
    done = _run("--version")
    if done.returncode:
        raise BenchError(f"perf_analyzer does not run (packages.apt: libb64-0d): {done.stderr.strip()}")


def perf_analyzer(address: str, text: str, concurrency: int, seconds: float, folder: Path, cpu: int) -> float:
    """Answers per second of ModelInfer, its own figure."""
    data, report = folder / "perf_analyzer.json", folder / "perf_analyzer.csv"
    data.write_text(json.dumps({"data": [{"text": [text]}]}))
    window_ms = max(500, round(1000 * seconds / _WINDOWS))
    flags = ["-m", "minilm", "-i", "grpc", "-u", address, "--input-data", str(data)]
    flags += ["--async", "--concurrency-range", str(concurrency), "--measurement-interval", str(window_ms)]
    flags += ["--stability-percentage", "1000"]  # its first windows, however noisy: rounds tell how sure the figure is
    report.unlink(missing_ok=True)
    done = _run(*flags, "-f", str(report), cpu=cpu)
    if done.returncode or not report.is_file():
        raise BenchError(f"perf_analyzer: {(done.stderr + done.stdout).strip()[-1000:]}")
    return parse(report.read_text())


def parse(report: str) -> float:
    """Its CSV: one line for each concurrency, of which there is one."""
    rows = list(csv.DictReader(report.splitlines()))
    if len(rows) != 1 or not float(rows[0]["Inferences/Second"]) > 0:
        raise BenchError(f"perf_analyzer has no rate: {report}")
    return float(rows[0]["Inferences/Second"])


def _run(*flags: str, cpu: int | None = None) -> subprocess.CompletedProcess[str]:
    pinned = [] if cpu is None else ["taskset", "-c", str(cpu)]
    libraries = [str(path) for path in FOLDER.glob("lib/python*/site-packages/nvidia/cuda_runtime/lib")]
    command = [*pinned, str(FOLDER / "bin/perf_analyzer"), *flags]
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
