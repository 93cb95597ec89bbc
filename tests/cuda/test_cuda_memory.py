"""Starting on a GPU one at a time, and what does not fit is said before it is taken."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from checkpoints import write_checkpoint
from decoders import write_decoder
from paths import ROOT

from fastqps._core import CudaError
from fastqps.devices import DeviceError, DeviceFault
from fastqps.devices.cuda import memory
from fastqps.devices.cuda.loaded import report_device_faults
from fastqps.devices.start_lock import alone_on
from fastqps.errors import ConfigError
from fastqps.models import ModelError, load_card
from fastqps.models.checkpoint import Checkpoint

GIB = 1 << 30


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this user's locks lie, for this test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_one_at_a_time(folder: Path) -> None:
    inside: list[str] = []

    def start(name: str) -> None:
        with alone_on("GPU-a"):
            inside.append(name)
            time.sleep(0.1)
            inside.append(name)

    threads = [threading.Thread(target=start, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    with alone_on("GPU-b"):
        pass  # another GPU is free
    for thread in threads:
        thread.join()
    assert inside in (["a", "a", "b", "b"], ["b", "b", "a", "a"])


def test_a_dead_process_holds_nothing_and_a_wait_is_bounded(folder: Path) -> None:
    code = (
        f"import tempfile, time; tempfile.tempdir = {str(folder)!r}\n"
        "from fastqps.devices.start_lock import alone_on\n"
        "with alone_on('GPU-a'): print('held', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert other.stdout and other.stdout.readline() == b"held\n"
        with pytest.raises(DeviceError, match=r"starting on GPU GPU-a for 0\.1 s"), alone_on("GPU-a", 0.1):
            pass
    finally:
        other.kill()
        other.communicate()
    with alone_on("GPU-a", 5.0):
        pass


def test_the_folder_is_nobody_elses(folder: Path) -> None:
    with alone_on("GPU-a"):
        own = next(folder.iterdir())
    own.chmod(0o777)
    with pytest.raises(DeviceError, match="not a folder of this user alone"), alone_on("GPU-a"):
        pass
    (own / "GPU-a.lock").unlink()
    own.rmdir()
    own.symlink_to("/tmp")
    with pytest.raises(DeviceError, match="not a folder of this user alone"), alone_on("GPU-a"):
        pass


def test_a_lock_that_cannot_be_opened_is_named(folder: Path) -> None:
    with alone_on("GPU-a"):
        own = next(folder.iterdir())
    (own / "GPU-b.lock").mkdir()
    with pytest.raises(DeviceError, match=r"cannot open .*GPU-b\.lock.*: Is a directory"), alone_on("GPU-b"):
        pass


def test_sizes_are_those_of_the_loaded_model(tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "bert", "bert")
    files = Checkpoint.open(tmp_path / "bert").weight_files()
    assert memory.parameters(files) == sum(p.numel() for p in model.parameters())
    write_decoder(tmp_path / "qwen", "qwen3", max_shard_size="20kB")
    card = load_card(str(tmp_path / "qwen"), 40, max_output_tokens=24)
    assert len(Checkpoint.open(tmp_path / "qwen").weight_files()) > 1
    assert memory.kv_bytes(card, 7, 2) == torch.empty(2, 2, 8, 2, 64, 16, dtype=torch.bfloat16).nbytes
    files[0].write_bytes(b"\xff" * 30)
    with pytest.raises(ModelError, match="not a safetensors file"):
        memory.parameters(files)


def test_what_does_not_fit(tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama")
    card = load_card(str(tmp_path), 40, max_output_tokens=24, name="m")
    memory.check_weights(card, GIB, GIB, "cuda:0")
    with pytest.raises(ModelError, match=r"m: its weights take 2\.0 GiB, and cuda:0 has 1\.0 GiB free") as weights:
        memory.check_weights(card, 2 * GIB, GIB, "cuda:0")
    with pytest.raises(ConfigError, match=r"--max-running 9: .* takes 2\.0 GiB.* --lanes") as cache:
        memory.check_cache(card, 9, 2 * GIB, GIB, "cuda:0")
    with (
        pytest.raises(ConfigError, match=r"--max-batch-tokens 64: .*tried to allocate") as step,
        memory.report_oom_of_steps(card, 64, "cuda:0"),
    ):
        raise torch.OutOfMemoryError("tried to allocate 5 GiB\nand a long text")
    assert [caught.value.exit_code for caught in (weights, cache, step)] == [4, 2, 2]
    assert "long text" not in str(step.value)


@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 5 GiB"), torch.OutOfMemoryError),
        (RuntimeError("Triton Error [CUDA]: out of memory"), torch.OutOfMemoryError),
        (torch.AcceleratorError("CUDA error: out of memory\nCompile with"), torch.OutOfMemoryError),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), torch.OutOfMemoryError),
        (torch.AcceleratorError("CUDA error: an illegal memory access was encountered\nCUDA kernel"), DeviceFault),
        (RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"), DeviceFault),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling"), torch.OutOfMemoryError),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling"), DeviceFault),
        (RuntimeError("Triton Error [CUDA]: invalid argument"), RuntimeError),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), RuntimeError),
        (ModelError("no numbers"), ModelError),
    ],
)
def test_what_a_gpu_refuses_while_a_process_starts(error: Exception, becomes: type[Exception]) -> None:
    """A fault is the device's; too little memory is the settings', whoever finds it; the rest is a mistake of ours."""

    def synchronize() -> None:
        if becomes is DeviceFault:
            raise CudaError("cudaDeviceSynchronize: it has failed for good")

    backend: Any = SimpleNamespace(api=SimpleNamespace(synchronize=synchronize))
    with pytest.raises(becomes) as caught, report_device_faults(backend):
        raise error
    assert type(caught.value) is becomes and "\n" not in str(caught.value)


def test_a_failed_capture_is_told_by_its_cause() -> None:
    """Its end fails, too, and says only that."""
    backend: Any = SimpleNamespace(api=SimpleNamespace(synchronize=lambda: None))
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"), report_device_faults(backend):
        try:
            raise torch.AcceleratorError("CUDA error: operation not permitted when stream is capturing\nCompile with")
        finally:
            raise torch.AcceleratorError("CUDA error: operation failed due to a previous error during capture")


def refused(call: str) -> CudaError:
    error = CudaError(f"{call}: out of memory")
    error.call, error.code = call, 2
    return error


def test_memory_that_runs_out_is_told_by_what_it_was_for(tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama")
    card = load_card(str(tmp_path), 40, max_output_tokens=24)
    with pytest.raises(ConfigError, match="no page-locked memory left"), memory.report_oom_of_host(card, "cuda:0"):
        raise refused("cudaHostAlloc")
    for error in (refused("cudaMalloc"), torch.OutOfMemoryError("CUDA out of memory")):
        with pytest.raises(ModelError, match="too little memory left for its weights"):  # noqa: SIM117
            with memory.report_oom_of_weights(card, "cuda:0"):
                raise error
    for guard in (memory.report_oom_of_host, memory.report_oom_of_weights):
        with pytest.raises(CudaError, match="cudaGraphLaunch"), guard(card, "cuda:0"):
            raise refused("cudaGraphLaunch")
