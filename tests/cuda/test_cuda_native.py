"""The native half of device cuda, as Python sees it, on the fake CUDA runtime. Its own tests: csrc/tests."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fake_cuda
import numpy as np
import pytest
import torch
from sum_lane import SumLane

from fastqps._core import CudaApi, CudaError, CudaStep, EncodeLayout, now_ns
from fastqps.kernels import TRITON_MISSING


@pytest.fixture(scope="module")
def lane() -> SumLane:
    return SumLane(CudaApi(fake_cuda.library()))


@contextmanager
def held_graph() -> Iterator[None]:
    """Graphs begin and do not end."""
    fake_cuda.Knobs().set("hold_graph", 1)
    try:
        yield
    finally:
        fake_cuda.Knobs().set("hold_graph", 0)


def test_sections_lie_one_behind_the_other() -> None:
    at = EncodeLayout(100, 8, 384)
    assert (at.input_ids, at.token_type_ids, at.cu_seqlens, at.position_ids) == (16, 128, 240, 256)
    assert (at.device_words, at.words, at.out_words) == (256, 368, 8 * 384)
    at = EncodeLayout(100, 8, 384, token_types=False)
    assert (at.input_ids, at.token_type_ids, at.cu_seqlens, at.position_ids) == (16, 128, 128, 144)
    assert (at.device_words, at.words, at.out_words) == (144, 256, 8 * 384)
    at = EncodeLayout(100, 8, 384, token_types=False, positions=True)
    assert (at.input_ids, at.token_type_ids, at.position_ids, at.cu_seqlens) == (16, 128, 128, 240)
    assert (at.device_words, at.words, at.out_words) == (256, 256, 8 * 384)


def test_steps_answer_and_tell_when_they_ran(lane: SumLane) -> None:
    steps = [CudaStep(lane.lane), CudaStep(lane.lane)]
    expected: list[list[int]] = [[], []]
    ended = 0
    for i in range(40):
        step = steps[i % 2]
        if i > 1:
            step.wait()
            assert lane.rows(step.output)[: len(expected[i % 2]), 3].tolist() == expected[i % 2]
            start, end = step.stamps.tolist()
            assert ended <= start <= end <= now_ns()
            ended = end
        items = [[i, 2 * i, 7][: 1 + (i + n) % 3] for n in range(1 + i % 5)]
        expected[i % 2] = [sum(ids) for ids in items]
        step.launch(*lane.pack(step.staging, items))
    for step in steps:
        step.wait()
        assert step.due_s() == 0
    assert [graph.max_tokens for graph in lane.lane.graphs()] == [16, 32]
    assert sum(graph.steps for graph in lane.lane.graphs()) == 40


def test_views_keep_their_step(lane: SumLane) -> None:
    views = [getattr(CudaStep(lane.lane), name) for name in ("staging", "output", "stamps")]
    for _ in range(20):
        CudaStep(lane.lane)  # would be given their memory
    for view in views:
        view[:] = 5
        assert (view == 5).all()


@pytest.mark.parametrize(
    ("shape", "error"),
    [
        ((9, 9, 1), "9 items of 9 tokens are more than the lane's blocks hold"),
        ((1, 65, 65), "1 items of 65 tokens are more than the lane's blocks hold"),
        ((1, 33, 33), "no graph was added that holds 1 items of 33 tokens"),
    ],
)
def test_a_step_that_fits_nowhere_is_refused(lane: SumLane, shape: tuple[int, int, int], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        CudaStep(lane.lane).launch(*shape)


def test_a_step_that_runs_is_not_launched_again(lane: SumLane) -> None:
    step = CudaStep(lane.lane)
    shape = lane.pack(step.staging, [[1, 2]])
    with held_graph():
        step.launch(*shape)
        with pytest.raises(RuntimeError, match="while its last one runs"):
            step.launch(*shape)
        with pytest.raises(RuntimeError, match="while steps are in flight"):
            lane.lane.add_graph(0, max_tokens=1, max_items=1)
    step.wait()
    step.launch(*shape)
    step.wait()


def test_who_waits_lets_others_run_and_hears_signals(lane: SumLane) -> None:
    """The step ends when a thread that needs the GIL has sent a signal, and it has been heard."""
    step = CudaStep(lane.lane)
    shape = lane.pack(step.staging, [[1, 2]])
    knobs, heard = fake_cuda.Knobs(), threading.Event()

    def hear(number: int, frame: object) -> None:
        heard.set()
        knobs.set("hold_graph", 0)

    before = signal.signal(signal.SIGUSR1, hear)
    try:
        with held_graph():
            step.launch(*shape)
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            step.wait()
            assert heard.is_set()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_calls_are_counted(lane: SumLane) -> None:
    api = CudaApi(fake_cuda.library())
    assert api.counts() == {}
    api.close_stream(api.make_stream())
    assert api.memory()[1] == 1 << 36
    assert api.counts() == {"cudaStreamCreateWithFlags": 1, "cudaStreamDestroy": 1, "cudaMemGetInfo": 1}
    api.mark()
    assert api.counts() == {}


_WITHOUT_CUDA = pytest.mark.skipif(bool(torch.version.cuda or torch.version.hip), reason="torch has loaded one")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param(None, "no CUDA runtime .libcudart.so. or HIP runtime .* is loaded in", marks=_WITHOUT_CUDA),
        ("/nowhere/libcudart.so.13", "/nowhere/libcudart.so.13: cannot open"),
        ("libz.so.1", "libz.so.1 has no cudaRuntimeGetVersion"),
    ],
)
def test_a_runtime_that_is_none_is_told(path: str | None, message: str) -> None:
    with pytest.raises(CudaError, match=message) as caught:
        CudaApi(path)
    assert (caught.value.call, caught.value.code) == ("dlopen", -1)


def test_memory_is_copied_both_ways(lane: SumLane) -> None:
    api = CudaApi(fake_cuda.library())
    here, back = np.arange(1000, dtype=np.int64), np.zeros(1000, np.int64)
    there = api.malloc(here.nbytes)
    api.copy(there, here.ctypes.data, here.nbytes)
    api.copy(back.ctypes.data, there, here.nbytes)
    assert (here == back).all()
    api.free(there)
    with pytest.raises(CudaError, match="cudaMalloc: out of memory"):
        api.malloc(1 << 40)


def test_a_step_in_flight_is_waited_for_when_it_goes(lane: SumLane) -> None:
    step = CudaStep(lane.lane)
    shape = lane.pack(step.staging, [[1, 2]])
    fake_cuda.Knobs().set("graph_ns", 100_000_000)
    try:
        begun = time.monotonic()
        step.launch(*shape)
        del step  # what its graph still needs of Python, it gets
        assert time.monotonic() - begun >= 0.1
    finally:
        fake_cuda.Knobs().set("graph_ns", 0)


_LOADED = """
import ctypes, sys
from fastqps._core import CudaApi, CudaError
for path in sys.argv[1:]:
    ctypes.CDLL(path)
try:
    print(CudaApi().path)
except CudaError as error:
    print(error)
"""


def loaded_runtime(*libraries: Path) -> str:
    """What ``CudaApi`` finds in a process that has loaded these, in this order: a path, or why none."""
    return subprocess.run(
        [sys.executable, "-c", _LOADED, *map(str, libraries)],
        env=os.environ | {"PYTHONPATH": str(fake_cuda.ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.strip()


def runtime(folder: Path, name: str, fake: str = "libfakecudart.so") -> Path:
    """A runtime of its own, under a name that wheels give it."""
    folder.mkdir()
    return Path(shutil.copy(fake_cuda.library(fake), folder / name))


def torch_library(path: Path, call: str, *linked: Path) -> Path:
    """Like torch's library that calls the runtime; without ``linked`` it keeps the runtime to itself."""
    code = f"int {call}(int*); int torch_device(void) {{ int d; return {call}(&d); }}" if linked else "int torch;"
    compiler = os.environ.get("CC", "gcc").split()
    command = [*compiler, "-shared", "-fPIC", "-x", "c", "-", "-x", "none", *map(str, linked), "-o", str(path)]
    subprocess.run(command, input=code, text=True, check=True, timeout=60)
    return path


def test_the_runtime_that_the_process_has_loaded_is_found(tmp_path: Path) -> None:
    """Of two nobody knows which one is torch's, where torch is not loaded or does not say."""
    one = runtime(tmp_path / "one lib", "libcudart-d0da41ae.so.13")
    other = runtime(tmp_path / "other", "libcudart.so.12")
    silent = torch_library(tmp_path / "libc10_cuda.so", "cudaGetDevice")
    assert loaded_runtime(one) == str(one)
    assert loaded_runtime(one, silent) == str(one)
    for libraries in ((one, other), (one, other, silent)):
        told = loaded_runtime(*libraries)
        assert told.startswith("more than one CUDA runtime is loaded") and str(one) in told and str(other) in told


@pytest.mark.parametrize(
    ("torch_name", "call", "name", "fake"),
    [
        ("libc10_cuda.so", "cudaGetDevice", "libcudart.so.13", "libfakecudart.so"),
        ("libtorch_hip.so", "hipGetDevice", "libamdhip64.so.7", "libfakeamdhip64.so"),
    ],
)
def test_of_two_runtimes_the_one_that_torch_is_linked_to(
    tmp_path: Path, torch_name: str, call: str, name: str, fake: str
) -> None:
    other = runtime(tmp_path / "other", "libcudart.so.12")
    own = runtime(tmp_path / "own", name, fake)
    linked = torch_library(tmp_path / torch_name, call, own)
    for libraries in ((other, own, linked), (own, linked, other), (linked, other)):
        assert loaded_runtime(*libraries) == str(own)


def test_hip_has_the_same_calls_by_its_own_names() -> None:
    api = CudaApi(fake_cuda.library("libfakeamdhip64.so"))
    assert api.device_count() == 2
    with pytest.raises(CudaError, match=r"^hipMalloc: out of memory \(2\)$") as caught:
        api.malloc(1 << 40)
    assert caught.value.call == "cudaMalloc" and api.counts() == {"cudaGetDeviceCount": 1, "cudaMalloc": 1}


@pytest.mark.skipif(bool(TRITON_MISSING), reason=TRITON_MISSING)
def test_hip_is_called_as_its_header_says() -> None:
    """AMD's own, which comes with Triton."""
    found = importlib.util.find_spec("triton")
    assert found and found.origin
    include = Path(found.origin).parent / "backends/amd/include"
    command = [*os.environ.get("CXX", "g++").split(), "-std=c++20", "-fsyntax-only", "-Icsrc", f"-I{include}"]
    command += ["-D__HIP_PLATFORM_AMD__", "-D__HIP_DISABLE_CPP_FUNCTIONS__", "tests/cuda/hip_abi.cpp"]
    done = subprocess.run(command, cwd=fake_cuda.ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    wrong = [*command, "-DFASTQPS_WRONG_CALL"]
    refused = subprocess.run(wrong, cwd=fake_cuda.ROOT, capture_output=True, text=True, timeout=120)
    assert refused.returncode and "hipMalloc has other parameters" in refused.stderr
