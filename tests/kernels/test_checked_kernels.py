"""Which kernels a GPU gets: those that pass their check. The journal that outlives a check, and who reads it."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import write_checkpoint
from fake_cuda import VARIABLE, environment, library
from paths import ROOT

from fastqps import Engine
from fastqps._core import CudaError
from fastqps.devices import DeviceError, DeviceFault, Place
from fastqps.devices.cuda.checked import Checked, make_operations
from fastqps.devices.cuda.fake import FAULTS
from fastqps.kernels import journal as journal_module
from fastqps.kernels import torch_ops
from fastqps.kernels.journal import Journal, Verdict

pytestmark = pytest.mark.compute
GPU, SHAPE = "fake GPU", "x=float32[:,48]"
X, WEIGHT = torch.randn(5, 48), torch.ones(48)
HOW = (X, WEIGHT, None, 1e-6, "rms")


@pytest.fixture
def journal() -> Iterator[Journal]:
    found = Journal()
    yield found
    found.close()


class Gpu:
    """A backend whose kernels are torch's, but for ``add_norm``."""

    kind = GPU

    def __init__(self, kernel: Any = torch_ops.add_norm) -> None:
        self.kernel, self.runs, self.captures, self.broken = kernel, 0, False, False
        self.api = SimpleNamespace(synchronize=self._synchronize)

    def launcher(self, name: str) -> Any:
        if name != "add_norm":
            return getattr(torch_ops, name)

        def run(*args: Any, **kwargs: Any) -> Any:
            self.runs += 1
            return self.kernel(*args, **kwargs)

        return run

    def capturing(self) -> bool:
        return self.captures

    def _synchronize(self) -> None:
        if self.broken:
            raise CudaError("cudaDeviceSynchronize: an illegal memory access was encountered (700)")


def wrong(*args: Any, **kwargs: Any) -> Any:
    found = torch_ops.add_norm(*args, **kwargs)
    assert found.values is not None
    found.values[-1] *= 1.5
    return found


def failing(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("PassManager::run failed\nand more")


def test_a_kernel_that_agrees_is_used(journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    gpu = Gpu()
    add_norm = Checked(gpu, journal).choose("add_norm", torch_ops.add_norm)  # type: ignore[arg-type]
    for _ in range(3):
        add_norm(*HOW)
    assert gpu.runs == 1 + 3, "the check, and each call"
    add_norm(X.half(), *HOW[1:])
    assert gpu.runs == 1 + 3 + 2, "another shape has a check of its own"
    assert journal.fallbacks()["add_norm"] == 0 and len(journal.verdicts()) == 2
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("kernel", "reason"), [(wrong, "largest error"), (failing, "PassManager::run failed")])
def test_one_that_does_not_is_replaced(
    kernel: Any, reason: str, journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    gpus = Gpu(kernel), Gpu(kernel)
    for gpu in gpus:  # of one server
        add_norm = Checked(gpu, Journal(journal.fd)).choose("add_norm", torch_ops.add_norm)  # type: ignore[arg-type]
        for _ in range(3):
            assert torch.equal(add_norm(*HOW).values, torch_ops.add_norm(*HOW).values)  # type: ignore[arg-type]
    assert [gpu.runs for gpu in gpus] == [1, 0], "one check for both"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"warning: kernel add_norm is replaced by torch on {GPU}, for x=float32[:,48]/1 weight=float32[:]"
    )
    assert reason in line and journal.fallbacks()["add_norm"] == 1


def test_another_kind_of_gpu_has_checks_of_its_own(journal: Journal) -> None:
    gpus = Gpu(failing), Gpu()
    gpus[1].kind = "another GPU"
    for gpu in gpus:
        Checked(gpu, journal).choose("add_norm", torch_ops.add_norm)(*HOW)  # type: ignore[arg-type]
    assert [(v.gpu, bool(v.fault)) for v in journal.verdicts()] == [(GPU, True), ("another GPU", False)]


def test_a_device_that_fails_names_the_kernel(journal: Journal) -> None:
    gpu = Gpu()

    def breaking(*args: Any, **kwargs: Any) -> Any:
        gpu.broken = True
        return failing(*args, **kwargs)

    gpu.kernel = breaking
    add_norm = Checked(gpu, journal).choose("add_norm", torch_ops.add_norm)  # type: ignore[arg-type]
    with pytest.raises(DeviceFault, match=r"kernel add_norm \(x=.*PassManager.*--kernels torch") as caught:
        add_norm(*HOW)
    assert caught.value.exit_code == 71
    assert journal.unfinished() is not None, "the next process finds it"


def test_a_device_that_had_failed_before_is_not_held_against_a_kernel(journal: Journal) -> None:
    gpu = Gpu()
    gpu.broken = True
    with pytest.raises(CudaError):
        Checked(gpu, journal).choose("add_norm", torch_ops.add_norm)(*HOW)  # type: ignore[arg-type]
    assert journal.unfinished() is None and not gpu.runs


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("Triton Error [CUDA]: out of memory")]
)
def test_too_little_memory_is_no_fault_of_a_kernel(journal: Journal, error: Exception) -> None:
    def full(*args: Any, **kwargs: Any) -> Any:
        raise error

    with pytest.raises(torch.OutOfMemoryError):
        Checked(Gpu(full), journal).choose("add_norm", torch_ops.add_norm)(*HOW)  # type: ignore[arg-type]
    assert journal.unfinished() is None, "nor has it ended the process"


def test_nothing_is_checked_in_a_capture(journal: Journal) -> None:
    gpu = Gpu()
    add_norm = Checked(gpu, journal).choose("add_norm", torch_ops.add_norm)  # type: ignore[arg-type]
    gpu.captures = True
    with pytest.raises(RuntimeError, match=r"add_norm x=.* is captured before it was called"):
        add_norm(*HOW)
    gpu.captures = False
    add_norm(*HOW)
    gpu.captures = True
    add_norm(*HOW)


def test_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_triton(name: str) -> Any:
        raise ImportError("No module named 'triton'")

    gpu: Any = Gpu(wrong)
    right = torch_ops.add_norm(*HOW).values  # type: ignore[arg-type]
    assert right is not None
    for mode, same in (("auto", True), ("torch", True), ("own", False)):
        found = make_operations(Place("cuda:0", kernels=mode), gpu).add_norm(*HOW).values  # type: ignore[arg-type]
        assert found is not None and torch.equal(found, right) == same
    gpu.launcher = without_triton
    make_operations(Place("cuda:0", kernels="torch"), gpu).add_norm(*HOW)  # type: ignore[arg-type]
    make_operations(Place("cuda:0"), gpu).add_norm(*HOW)  # type: ignore[arg-type]
    with pytest.raises(ImportError, match="triton"):
        make_operations(Place("cuda:0", kernels="own"), gpu)
    with pytest.raises(DeviceError, match="no kernels 'fast'; there are: auto, own, torch"):
        make_operations(Place("cuda:0", kernels="fast"), gpu)


def announce(fd: int, kernel: str) -> None:
    """As a process that dies in a check."""
    journal = Journal(fd)
    with journal.locked(), journal.announced(GPU, kernel, SHAPE, keep=DeviceFault):
        os._exit(1)


def die_checking(journal: Journal, kernel: str) -> None:
    process = multiprocessing.get_context("fork").Process(target=announce, args=(journal.fd, kernel))
    process.start()
    process.join()


def test_a_check_that_ended_its_process(journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    """Its kernel is not tried again at any shape; after the second of them none is tried that has not passed before."""
    gpu = Gpu()
    checked = Checked(gpu, journal)  # type: ignore[arg-type]
    checked.choose("pool", torch_ops.pool)(X, torch.tensor([0, 5]), torch.tensor([5, 1]), "mean")
    for died in ("add_norm", "sample"):
        die_checking(journal, died)
        assert journal.unfinished() == (GPU, died, SHAPE)
        checked.choose("add_norm", torch_ops.add_norm)(*HOW, return_sum=died == "sample")  # type: ignore[arg-type]
        assert journal.unfinished() is None
    assert gpu.runs == 0
    checked.choose("quantise_rows", torch_ops.quantise_rows)(X)
    faults = {(v.kernel, v.fault) for v in journal.verdicts()}
    assert faults == {
        ("pool", ""),
        ("add_norm", "the check ended its process"),
        ("add_norm", "its check at another shape ended the process"),
        ("sample", "the check ended its process"),
        ("quantise_rows", "it is not tried: add_norm and sample ended their processes"),
    }
    assert len(capsys.readouterr().err.splitlines()) == sum(journal.fallbacks().values()) == 5


def test_one_process_checks_at_a_time(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "WAIT_S_MAX", 0.05)
    context = multiprocessing.get_context("fork")
    holds, ends = context.Event(), context.Event()

    def hold() -> None:
        with Journal(journal.fd).locked():
            holds.set()
            ends.wait(60)

    process = context.Process(target=hold)
    process.start()
    assert holds.wait(60)
    with pytest.raises(TimeoutError, match="another dispatcher has been checking a kernel"), journal.locked():
        pass
    ends.set()
    process.join()
    with journal.locked():
        journal.conclude(Verdict(GPU, "pool", SHAPE, "", crashed=False))


def test_a_line_without_its_end_is_not_read(journal: Journal) -> None:
    journal.conclude(Verdict(GPU, "pool", SHAPE, "it is wrong"))
    os.pwrite(journal.fd, b'{"gpu": "a', os.fstat(journal.fd).st_size)
    assert [v.kernel for v in journal.verdicts()] == ["pool"] and journal.unfinished() is None


ENGINE = """
import sys
import numpy as np
from fastqps import Engine
np.save(sys.argv[2], np.stack(Engine(sys.argv[1], "cuda", "float32").predict([[5, 6, 7], [9]])))
"""


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("tile_attention=miscompute,pool=compile", 0, ["kernel tile_attention is replaced", "kernel pool is replaced"]),
        ("add_norm=crash", -6, []),
    ],
)
def test_an_engine_alone(fault: str, code: int, said: list[str], tmp_path: Path) -> None:
    """It goes on with torch's operations; a crash is its end, as it is the process's."""
    write_checkpoint(tmp_path, "bert", num_hidden_layers=2)
    done = subprocess.run(
        [sys.executable, "-c", ENGINE, str(tmp_path), str(tmp_path / "found.npy")],
        cwd=ROOT,
        env={**os.environ, **environment(), FAULTS: fault},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    warnings = [line for line in done.stderr.splitlines() if "replaced by torch" in line]
    assert len(warnings) == len(said) and all(any(one in line for line in warnings) for one in said)
    if not code:
        expected = np.stack(Engine(str(tmp_path), "cpu", "float32").predict([[5, 6, 7], [9]]))
        np.testing.assert_allclose(np.load(tmp_path / "found.npy"), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("kernels", ["own", "torch"])
def test_an_engine_with_kernels_that_were_chosen(
    kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, library())
    monkeypatch.setenv(FAULTS, "add_norm=miscompute")
    write_checkpoint(tmp_path, "bert", num_hidden_layers=2)
    rows = [np.stack(Engine(str(tmp_path), *how).predict([[5, 6, 7], [9]])) for how in (("cpu", "float32"),)]
    rows += [np.stack(Engine(str(tmp_path), "cuda", "float32", kernels=kernels).predict([[5, 6, 7], [9]]))]
    assert np.allclose(*rows, rtol=0, atol=2e-5) == (kernels == "torch"), "unchecked, as was asked for"
    assert "replaced" not in capfd.readouterr().err
