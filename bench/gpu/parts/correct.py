"""The tests that need a GPU and those of kernels, which a GPU then runs: pytest, and what became of them."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.gpu.run import Run

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests/gpu"
KERNEL_TESTS = sorted((ROOT / "tests").glob("test_kernels_*.py"))  # interpreted where there is no GPU


def measure(run: Run) -> None:
    """Raises where one failed, or where none ran. A dry run collects them only."""
    if not TESTS.is_dir():
        raise FileNotFoundError(f"{TESTS} is missing")
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", str(TESTS), *map(str, KERNEL_TESTS), "-q", "-p", "no:cacheprovider"]
        command += ["--collect-only"] if run.dry else [f"--junitxml={report}"]
        done = subprocess.run(command, cwd=ROOT, timeout=run.left_s, check=False)
        if run.dry:
            run.figure("tests that need a GPU can be collected", float(done.returncode in (0, 5)), "(1: yes)")
            return
        counts, bad = read_report(report)
    run.raw("tests", counts)
    run.raw("not passed", bad)
    note = f"{counts['failed']} failed, {counts['skipped']} skipped" + (f": {', '.join(bad)[:300]}" if bad else "")
    run.figure("tests on the GPU that passed", counts["passed"], "tests", note)
    if done.returncode or counts["failed"] or not counts["passed"]:
        raise AssertionError(note)


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
