"""The tests that need a GPU and those of kernels, which a GPU then runs: all of them, or ``correct:quick``.

Each group has a process of its own: a fault in a kernel ends all that a process can do on a GPU, and a test that hangs
takes its process along. A group that hangs or dies is a failure, and its output says how far it came.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.gpu.run import Run

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests/gpu"
KERNELS = "tests/kernels/test_kernels_*.py"  # interpreted where there is no GPU
TOGETHER = 8  # groups of kernels' tests at a time: each compiles on a core, and nothing in them is timed
THREADS = 2  # of torch on the CPU in each of them: all of a machine's would keep the others waiting
TEST_S = 200  # of one test; the first start of a server compiles kernels
QUICK = {  # the shapes and types that the other steps measure
    "encoder": ("tests/gpu/test_gpu_encoders.py::test_minilms_shape_in_16_bits[bfloat16]",),
    "decoder": (
        "tests/gpu/test_gpu_decoders.py::test_every_family_in_fp32[llama-gqa-tied]",
        "tests/gpu/test_gpu_decoders.py::test_bf16_is_as_near_to_fp32_as_transformers",
    ),
    "rows": (
        "tests/gpu/test_gpu_kernels.py::test_attention_at_true_shapes[12-32-0-False-dtype1]",
        "tests/gpu/test_gpu_kernels.py::test_a_captured_step_follows_its_counts",
        "tests/gpu/test_gpu_kernels.py::test_gelu_written_by_the_product",
        "tests/gpu/test_gpu_kernels.py::test_float8_is_the_nearest",
    ),
    "norms": ("tests/gpu/test_gpu_kernels.py::test_norms_at_true_widths",),
    "slots": ("tests/kernels/test_kernels_slots.py::test_attention_over_random_steps",),
    "sample": ("tests/kernels/test_kernels_sample.py::test_every_option_over_many_seeds",),
    "fp8": ("tests/gpu/test_gpu_fp8.py::test_products_are_those_of_the_dequantised",),
}
Groups = Mapping[str, Sequence[str]]  # name -> what pytest is given


def measure(run: Run) -> None:
    """Raises where a test failed, or where none ran. A dry run only collects them."""
    if not TESTS.is_dir():
        raise FileNotFoundError(f"{TESTS} is missing")
    rounds: list[tuple[Groups, int]] = [(QUICK, TOGETHER)]
    if not run.argument:
        kernels, others = test_files()
        rounds = [(kernels, TOGETHER), (others, 1)]
    if run.dry:
        named = [one for groups, _ in rounds for group in groups.values() for one in group]
        command = [*_pytest(), *named, "--collect-only", "-q"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"pytest cannot collect the tests: {done.stdout[-1000:]}")
        run.figure("tests on the GPU that can be collected", done.stdout.count("::"), "tests")
        return
    counts, bad = {"passed": 0, "failed": 0, "skipped": 0}, []
    with TemporaryDirectory() as folder:
        for groups, together in rounds:
            for found, names in run_groups(groups, together, Path(folder), run.left_s):
                counts = {kind: number + found[kind] for kind, number in counts.items()}
                bad += names
                run.raw("tests", counts | {"not passed": bad})
    note = f"{counts['failed']} failed, {counts['skipped']} skipped" + (f": {', '.join(bad)[:300]}" if bad else "")
    run.figure("tests on the GPU that passed", counts["passed"], "tests", note)
    if counts["failed"] or not counts["passed"]:
        raise AssertionError(note)


def test_files() -> tuple[Groups, Groups]:
    """(Those of kernels, which may run side by side; all others): a group for each file."""
    found = sorted(TESTS.glob("test_*.py"))
    kernels = [path for path in ROOT.glob(KERNELS) if "compile" not in path.name]  # needs no GPU
    kernels += [path for path in found if "kernels" in path.name]
    others = [path for path in found if path not in kernels]
    by_name = ({path.name: [str(path)] for path in sorted(paths)} for paths in (kernels, others))
    return next(by_name), next(by_name)


def run_groups(groups: Groups, together: int, folder: Path, limit_s: float) -> list[tuple[dict[str, int], list[str]]]:
    """Of each group what passed, failed and was skipped, and what did not pass. All end within the limit."""
    ends = time.monotonic() + limit_s
    with ThreadPoolExecutor(together) as pool:
        return list(pool.map(partial(_run_group, folder=folder, ends=ends), *zip(*groups.items(), strict=True)))


def _run_group(name: str, tests: Sequence[str], folder: Path, ends: float) -> tuple[dict[str, int], list[str]]:
    report, output = folder / f"{name}.xml", folder / f"{name}.log"
    began, error = time.monotonic(), ""
    with output.open("w") as stream:
        child = subprocess.Popen(
            [*_pytest(), *tests, "-v", f"--junitxml={report}"],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, process_group=0,
            env={**os.environ, "OMP_NUM_THREADS": str(THREADS)},
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
    if report.is_file():
        counts, bad = read_report(report)
    else:
        error = error or f"ended with code {child.returncode}"
        counts = {"passed": said.count(" PASSED "), "failed": 1, "skipped": said.count(" SKIPPED ")}
        bad = [f"{name} ({error})"]
    told = f"---- {name}: {counts}, {time.monotonic() - began:.0f} s {', '.join(bad)}"
    print(f"---- {name}\n{said}\n{told}", flush=True)
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
