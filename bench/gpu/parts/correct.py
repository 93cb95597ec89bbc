"""The tests that need a GPU and those of kernels, which a GPU then runs: pytest, and what became of them.

Each file has a process of its own: a fault in a kernel ends all that a process can do on a GPU, and a test that hangs
takes its process along. What hangs or dies is a failure of its file, and its output says how far it came.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from bench.gpu.run import Run

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests/gpu"
KERNELS = "test_kernels_*.py"  # in tests/: interpreted where there is no GPU
TOGETHER = 4  # files of kernels at a time: compiling takes a core each, and nothing in them is timed
TEST_S = 200  # of one test; the first start of a server compiles kernels
LOG = "gpu-tests.log"


def measure(run: Run) -> None:
    """Raises where one failed, or where none ran. A dry run collects them only."""
    if not TESTS.is_dir():
        raise FileNotFoundError(f"{TESTS} is missing")
    kernels, others = test_files()
    if run.dry:
        command = [*_pytest(), *map(str, kernels + others), "--collect-only"]
        code = subprocess.run(command, cwd=ROOT, timeout=run.left_s, check=False).returncode
        run.figure("tests that need a GPU can be collected", float(code in (0, 5)), "(1: yes)")
        return
    counts, bad = {"passed": 0, "failed": 0, "skipped": 0}, []
    path = run.results.path.with_name(LOG)
    with TemporaryDirectory() as folder, path.open("w") as log:
        for files, together in ((kernels, TOGETHER), (others, 1)):
            for found, names in run_files(files, together, Path(folder), log, run.left_s):
                counts = {kind: number + found[kind] for kind, number in counts.items()}
                bad += names
    run.raw("tests", counts)
    run.raw("not passed", bad)
    note = f"{counts['failed']} failed, {counts['skipped']} skipped" + (f": {', '.join(bad)[:300]}" if bad else "")
    run.figure("tests on the GPU that passed", counts["passed"], "tests", f"{note}; {path.name}")
    if counts["failed"] or not counts["passed"]:
        raise AssertionError(note)


def test_files() -> tuple[list[Path], list[Path]]:
    """(Those of kernels, which may run side by side; all others)."""
    found = sorted(TESTS.glob("test_*.py"))
    kernels = [path for path in (ROOT / "tests").glob(KERNELS) if "compile" not in path.name]  # needs no GPU
    kernels += [path for path in found if "kernels" in path.name]
    return sorted(kernels), [path for path in found if path not in kernels]


def run_files(
    files: Sequence[Path], together: int, folder: Path, log: IO[str], limit_s: float
) -> list[tuple[dict[str, int], list[str]]]:
    """Of each file what passed, failed and was skipped, and what did not pass. All end within the limit."""
    ends = time.monotonic() + limit_s
    with ThreadPoolExecutor(together) as pool:
        return list(pool.map(partial(_run_file, folder=folder, log=log, ends=ends), files))


def _run_file(path: Path, folder: Path, log: IO[str], ends: float) -> tuple[dict[str, int], list[str]]:
    report, output = folder / f"{path.stem}.xml", folder / f"{path.stem}.log"
    began, error = time.monotonic(), ""
    with output.open("w") as stream:
        child = subprocess.Popen(
            [*_pytest(), str(path), "-v", f"--junitxml={report}"],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            child.wait(max(0.0, ends - began))
        except subprocess.TimeoutExpired:
            error = "no time left"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # and what it has started
            child.wait()
    said = output.read_text(errors="replace")
    log.write(f"==== {path.name}, {time.monotonic() - began:.0f} s\n{said}\n")
    log.flush()
    if report.is_file():
        counts, bad = read_report(report)
    else:
        error = error or f"ended with code {child.returncode}"
        counts = {"passed": said.count(" PASSED "), "failed": 1, "skipped": said.count(" SKIPPED ")}
        bad = [f"{path.name} ({error})"]
    print(f"   {path.name}: {counts}, {time.monotonic() - began:.0f} s", *bad, sep="\n      ", flush=True)
    return counts, bad


def _pytest() -> list[str]:
    """With limits that end the process: a signal would wait for a call into the driver to return."""
    limits = [f"--timeout={TEST_S}", "--timeout-method=thread"]
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", *limits]


def read_report(path: Path) -> tuple[dict[str, int], list[str]]:
    """How many tests passed, failed, were skipped; and the names of those that did not pass."""
    counts, bad = {"passed": 0, "failed": 0, "skipped": 0}, []
    for case in xml.parse(path).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        kind = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        counts[kind] += 1
        if kind != "passed":
            bad.append(f"{case.get('name')} ({kind})")
    return counts, bad
