"""The tests that need a GPU and those of kernels, which a GPU then runs: all of them, or ``correct:quick``.

pytest-xdist runs them in processes of its own: a fault in a kernel ends all that a process can do on a GPU, and a test
that hangs takes its process along. Such a test has failed, and the others go on in another process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile

from bench.gpu.run import Run
from fastqps.bench.measure.generator import child_process

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests/gpu"
KERNELS = "tests/kernels/test_kernels_*.py"  # interpreted where there is no GPU
TOGETHER = 8  # processes of kernels' tests: each compiles on a core, and nothing in them is timed
THREADS = 2  # of torch on the CPU in each of them: all of a machine's would keep the others waiting
# A limit for a test, since the first start of a server compiles kernels, that ends the process: a signal would wait for
# a call into the driver to return.
PYTEST = (
    sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", "--timeout=200", "--timeout-method=thread"
)  # fmt: skip
QUICK = (  # the shapes and types that the other steps measure
    "tests/gpu/test_gpu_encoders.py::test_minilms_shape_in_16_bits[bfloat16]",
    "tests/gpu/test_gpu_decoders.py::test_every_decoder_equals_the_cpu[llama-gqa-tied]",
    "tests/gpu/test_gpu_decoders.py::test_texts_with_a_structure_equal_the_cpus[2]",
    "tests/gpu/test_gpu_decoders.py::test_bf16_is_as_near_to_fp32_as_transformers",
    "tests/gpu/test_gpu_kernels.py::test_attention_at_true_shapes[12-32-0-False-dtype1]",
    "tests/gpu/test_gpu_kernels.py::test_a_captured_step_follows_its_counts",
    "tests/gpu/test_gpu_kernels.py::test_gelu_written_by_the_product",
    "tests/gpu/test_gpu_kernels.py::test_float8_is_the_nearest",
    "tests/gpu/test_gpu_kernels.py::test_norms_at_true_widths",
    "tests/kernels/test_kernels_slots.py::test_attention_over_random_steps",
    "tests/kernels/test_kernels_sample.py::test_every_option_over_many_seeds",
    "tests/gpu/test_gpu_fp8.py::test_products_are_those_of_the_dequantised",
)
RESULT = re.compile(r"^\[gw\d+\] .*(PASSED|FAILED|ERROR|SKIPPED) (\S.*?) *$", re.MULTILINE)


def measure(run: Run) -> None:
    """Raises where a test failed, or where none ran. A dry run only collects them."""
    rounds: list[tuple[Sequence[str], int]] = [(QUICK, TOGETHER)]
    if not run.argument:
        kernels, others = test_files()
        rounds = [(kernels, TOGETHER), *(([file], 1) for file in others)]
    if run.dry:
        named = [test for tests, _ in rounds for test in tests]
        done = subprocess.run([*PYTEST, *named, "--collect-only", "-q"], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"pytest cannot collect the tests: {(done.stdout + done.stderr)[-1000:]}")
        run.figure("tests on the GPU that can be collected", done.stdout.count("::"), "tests")
        return
    results: dict[str, str] = {}
    for tests, together in rounds:
        results |= run_tests(tests, together, run.left_s)
        counts = Counter(results.values())
        bad = [test for test, result in results.items() if result in ("FAILED", "ERROR")]
        run.raw("tests", {**counts, "not passed": bad})
    note = f"{len(bad)} failed, {counts['SKIPPED']} skipped" + (f": {', '.join(bad)[:300]}" if bad else "")
    run.figure("tests on the GPU that passed", counts["PASSED"], "tests", note)
    if bad or not counts["PASSED"]:
        raise AssertionError(note)


def test_files() -> tuple[list[str], list[str]]:
    """(Those of kernels, which may run side by side; all others)."""
    files = sorted(TESTS.glob("test_*.py"))
    kernels = [path for path in sorted(ROOT.glob(KERNELS)) if "compile" not in path.name]  # needs no GPU
    kernels += [path for path in files if "kernels" in path.name]
    return [str(path) for path in kernels], [str(path) for path in files if path not in kernels]


def run_tests(tests: Sequence[str], together: int, limit_s: float) -> dict[str, str]:
    """How each test ended, as far as they come within the limit; and pytest itself, where it did not end as it does."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS)}
    with TemporaryFile("w+") as log:
        command = [*PYTEST, "-n", str(together), "-v", *tests]
        with child_process(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, env=environment) as child:
            try:
                error = "" if child.wait(max(0.0, limit_s)) in (0, 1) else f"pytest ended with code {child.returncode}"
            except subprocess.TimeoutExpired:
                error = "no time left"
        log.seek(0)
        output = log.read()
    print(output, flush=True)
    return {test: result for result, test in RESULT.findall(output)} | ({error: "ERROR"} if error else {})
