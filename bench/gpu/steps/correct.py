"""The tests that need a GPU and those of kernels, which a GPU then runs: all of them, or ``correct:quick``.

Each group has a process of its own: a fault in a kernel ends all that a process can do on a GPU, and a test that hangs
takes its process along. A group that hangs or dies is a failure, and its output says how far it came.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
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
# A limit for a test, since the first start of a server compiles kernels, that ends the process: a signal would wait for
# a call into the driver to return.
PYTEST = (
    sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", "--timeout=200", "--timeout-method=thread"
)  # fmt: skip
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
# The last line of pytest, unless it was killed, by a limit for a test too.
ENDED = re.compile(r"^=+ .* in \d.* =+$", re.MULTILINE)
RESULT = re.compile(r"::(.+?) (PASSED|FAILED|ERROR|SKIPPED)")


def measure(run: Run) -> None:
    """Raises where a test failed, or where none ran. A dry run only collects them."""
    rounds: list[tuple[Groups, int]] = [(QUICK, TOGETHER)]
    if not run.argument:
        kernels, others = test_files()
        rounds = [(kernels, TOGETHER), (others, 1)]
    if run.dry:
        named = [one for groups, _ in rounds for group in groups.values() for one in group]
        done = subprocess.run([*PYTEST, *named, "--collect-only", "-q"], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"pytest cannot collect the tests: {done.stdout[-1000:]}")
        run.figure("tests on the GPU that can be collected", done.stdout.count("::"), "tests")
        return
    counts, bad = Counter[str](), list[str]()
    with TemporaryDirectory() as folder:
        for groups, together in rounds:
            for found, names in run_groups(groups, together, Path(folder), run.left_s):
                counts.update(found)
                bad += names
                run.raw("tests", {**counts, "not passed": bad})
    note = f"{len(bad)} failed, {counts['SKIPPED']} skipped" + (f": {', '.join(bad)[:300]}" if bad else "")
    run.figure("tests on the GPU that passed", counts["PASSED"], "tests", note)
    if bad or not counts["PASSED"]:
        raise AssertionError(note)


def test_files() -> tuple[Groups, Groups]:
    """(Those of kernels, which may run side by side; all others): a group for each file."""
    found = sorted(TESTS.glob("test_*.py"))
    kernels = [path for path in ROOT.glob(KERNELS) if "compile" not in path.name]  # needs no GPU
    kernels += [path for path in found if "kernels" in path.name]
    others = [path for path in found if path not in kernels]
    by_name = ({path.name: [str(path)] for path in sorted(paths)} for paths in (kernels, others))
    return next(by_name), next(by_name)


def run_groups(groups: Groups, together: int, folder: Path, limit_s: float) -> list[tuple[Counter[str], list[str]]]:
    """Of each group what passed, failed and was skipped, and what failed. All end within the limit."""
    ends = time.monotonic() + limit_s
    with ThreadPoolExecutor(together) as pool:
        return list(pool.map(partial(_run_group, folder=folder, ends=ends), *zip(*groups.items(), strict=True)))


def _run_group(name: str, tests: Sequence[str], folder: Path, ends: float) -> tuple[Counter[str], list[str]]:
    output, began = folder / f"{name}.log", time.monotonic()
    with output.open("w") as stream:
        child = subprocess.Popen(
            [*PYTEST, *tests, "-v"], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
            process_group=0, env={**os.environ, "OMP_NUM_THREADS": str(THREADS)},
        )  # fmt: skip
        try:
            code = child.wait(max(0.0, ends - began))
            well = code in (0, 1) and ENDED.search(output.read_text(errors="replace"))
            error = "" if well else f"ended with code {code}"
        except subprocess.TimeoutExpired:
            error = "no time left"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # and what it has started
            child.wait()
    said = output.read_text(errors="replace")
    results = dict.fromkeys(RESULT.findall(said))  # pytest names those that failed again at its end
    bad = [test for test, result in results if result in ("FAILED", "ERROR")] + ([f"{name} ({error})"] if error else [])
    counts = Counter(result for _, result in results)
    print(
        f"---- {name}\n{said}\n---- {name}: {dict(counts)}, {time.monotonic() - began:.0f} s {', '.join(bad)}",
        flush=True,
    )
    return counts, bad
