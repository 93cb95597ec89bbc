"""Which GPUs a server may use: with an NVML library of the tests, and torch builds that are not here."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest
from fake_mps.path import FAKE_MPS_PATH

from fastqps.config import Config, decide
from fastqps.config.decide import lanes_of, most_items
from fastqps.devices import choose_device, cuda_choice, list_devices, one_device
from fastqps.devices.errors import DeviceError
from fastqps.doctor import gpus as doctor_gpus
from fastqps.errors import ConfigError
from fastqps.host import gpus
from fastqps.host.gpus import find_gpus, nvidia

SOURCE = Path(__file__).parent / "fake_nvml.c"
TORCH_LACK = cuda_choice.torch_lack


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    compiler = os.environ.get("CC", "gcc").split()
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", str(path), str(SOURCE)], check=True, timeout=60)
    return path


@pytest.fixture
def machine(library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """Two GPUs of which the second is old, a torch that can use them, and no setting that hides one."""
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    nvidia._initialize.cache_clear()
    monkeypatch.setattr(cuda_choice, "torch_lack", lambda: "")
    monkeypatch.setenv("FAKE_GPUS", "2")
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    monkeypatch.delenv(gpus.FAKE_LIBRARY, raising=False)
    yield monkeypatch
    nvidia._initialize.cache_clear()


def test_what_a_gpu_is(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    device = tmp_path / "bus/pci/devices/0000:1a:00.0"
    device.mkdir(parents=True)
    (device / "local_cpulist").write_text("0-2,8\n")
    found = find_gpus(sysfs=tmp_path)
    first, second = found.visible
    assert (first.index, first.uuid, first.name, first.memory_bytes) == (0, "GPU-000e-5", "NVIDIA H200", 141 << 30)
    assert (first.pci, first.capability, first.cpus) == ("0000:1a:00.0", (9, 0), (0, 1, 2, 8))
    assert (first.mig, first.compute_mode) == (False, "default")
    assert (second.name, second.capability, second.cpus) == ("Tesla V100", (7, 0), ())
    assert (found.driver, found.missing) == ("580.65.06", "")


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        (None, ["GPU-000e-5", "GPU-100e-5", "GPU-200e-5"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("2,0", ["GPU-200e-5", "GPU-000e-5"]),
        ("1,7,0", ["GPU-100e-5"]),  # what stands behind a wrong one does not count
        ("1, 1,0", ["GPU-100e-5", "GPU-000e-5"]),
        ("GPU-200e-5", ["GPU-200e-5"]),
        ("GPU-2,GPU-0", ["GPU-200e-5", "GPU-000e-5"]),
        ("GPU-", []),  # it names more than one
        ("GPU-9", []),
    ],
)
def test_visible_devices(machine: pytest.MonkeyPatch, visible: str | None, uuids: list[str]) -> None:
    machine.setenv("FAKE_GPUS", "3")
    found = find_gpus({} if visible is None else {gpus.VISIBLE: visible})
    assert [gpu.uuid for gpu in found.visible] == uuids
    assert [gpu.index for gpu in found.visible] == list(range(len(uuids)))
    assert found.missing == ("" if uuids else f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU (3)")


def test_instances(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("FAKE_GPUS", "mig")
    found = find_gpus()
    assert [(gpu.uuid, gpu.mig, gpu.memory_bytes >> 30) for gpu in found.visible] == [
        ("MIG-010e-5", True, 71),
        ("MIG-020e-5", True, 71),
    ]
    assert [gpu.index for gpu in found.visible] == [0, 1]
    assert [gpu.uuid for gpu in find_gpus({gpus.VISIBLE: "MIG-02"}).visible] == ["MIG-020e-5"]


@pytest.mark.parametrize(
    ("mode", "missing"),
    [
        ("0", "the NVIDIA driver is here, but no GPU"),
        ("loading", "the NVIDIA driver does not answer: Driver Not Loaded (9)"),
        ("broken", "the NVIDIA driver does not answer: GPU is lost (15)"),
    ],
)
def test_no_gpu(machine: pytest.MonkeyPatch, mode: str, missing: str) -> None:
    machine.setenv("FAKE_GPUS", mode)
    assert find_gpus() == gpus.Gpus((), missing, "580.65.06" if mode == "0" else "")
    with pytest.raises(DeviceError) as caught:
        decide(Config(device="cuda", model=("minilm",)))
    assert (str(caught.value), caught.value.exit_code) == (f"--device cuda: {missing}", 3)
    assert choose_device() == cuda_choice.Choice("cpu", missing)
    assert decide(Config(model=("minilm",))).device == "cpu"


def no_library(name: str) -> None:
    raise OSError(name)


def test_no_driver(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(pynvml, "nvmlLib", None)
    machine.setattr(pynvml, "CDLL", no_library)
    with pytest.raises(DeviceError, match=r"--device cuda:0: no NVIDIA driver is here \(libnvidia-ml.so.1 cannot"):
        list_devices("cuda:0")


def test_no_use_for_a_gpu(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("FAKE_GPUS", "1")
    machine.setattr(cuda_choice, "torch_lack", lambda: "the installed torch is a CPU build")
    with pytest.raises(
        DeviceError, match=r"^--device cuda: a GPU is here \(NVIDIA H200\), but the installed torch is a"
    ):
        list_devices("cuda")
    assert choose_device().device == "cpu"
    machine.setattr(cuda_choice, "torch_lack", lambda: "")
    assert choose_device() == cuda_choice.Choice("cuda", "cuda:0 is NVIDIA H200")
    machine.setenv("FAKE_GPUS", "3")
    machine.setenv(gpus.VISIBLE, "1")
    with pytest.raises(DeviceError, match=r"Tesla V100 has compute capability 7.0; the kernels need 8.0 or later"):
        list_devices("cuda")
    machine.setenv(gpus.VISIBLE, "2")
    with pytest.raises(DeviceError, match=r"in compute mode prohibited: nvidia-smi -i 0000:1c:00.0 -c 0 allows"):
        list_devices("cuda")


@pytest.fixture
def old_torch(machine: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A torch for CUDA from before CUDAGraph.raw_cuda_graph_exec; what is said of it."""
    packages = {name: tmp_path / name for name in ("torch", "triton")}
    for name, file, version in (("torch", "version.py", "2.8.0+cu128"), ("triton", "__init__.py", "3.4.0")):
        packages[name].mkdir()
        (packages[name] / file).write_text(f"__version__ = '{version}'\ncuda = '12.8'\n")
    machine.setattr(cuda_choice, "torch_lack", TORCH_LACK)
    machine.setattr(cuda_choice, "package_path", packages.get)
    return "torch 2.8.0+cu128 is installed and CUDA graphs need torch 2.9 or later: pip install 'torch>=2.9'"


def test_an_old_torch_is_refused_at_the_start(machine: pytest.MonkeyPatch, old_torch: str, tmp_path: Path) -> None:
    machine.setenv("FAKE_GPUS", "1")
    with pytest.raises(DeviceError) as caught:
        decide(Config(device="cuda", model=("minilm",)))
    assert str(caught.value) == f"--device cuda: a GPU is here (NVIDIA H200), but {old_torch}"
    assert caught.value.exit_code == 3
    assert choose_device() == cuda_choice.Choice("cpu", f"a GPU is here (NVIDIA H200), but {old_torch}")
    level, value, advice = told("cuda", tmp_path)
    assert (level, value) == ("note", old_torch)
    assert advice.startswith("--device cuda needs torch 2.9 or later, built for CUDA, with triton 3.5 or later")


def test_a_gpu_that_is_of_no_use_is_in_nobodys_way(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("FAKE_GPUS", "3")
    machine.setattr(cuda_choice, "torch_lack", lambda: "")
    assert [device.label for device in list_devices("cuda:0")] == ["cuda:0"]
    too_old = "Tesla V100 has compute capability 7.0; the kernels need 8.0 or later"
    advice = "; leave cuda:1 out of --device, or of CUDA_VISIBLE_DEVICES"
    for text, why in (("cuda", too_old + advice), ("cuda:0,1", too_old + advice), ("cuda:1", too_old)):
        with pytest.raises(DeviceError) as caught:
            list_devices(text)
        assert str(caught.value) == f"--device {text}: {why}"
    with pytest.raises(DeviceError, match=r"^--device cuda:1,3: there is no cuda:3; there are cuda:0 to cuda:2$"):
        list_devices("cuda:1,3")
    assert choose_device() == cuda_choice.Choice("cpu", too_old + advice)


def test_devices_are_named(machine: pytest.MonkeyPatch) -> None:
    machine.setenv(gpus.VISIBLE, "0")
    [only] = list_devices("cuda")
    assert (only.spec, only.label, only.description) == ("cuda:0", "cuda:0", "cuda:0 (NVIDIA H200)")
    assert list_devices("cuda:0") == (only,)
    with pytest.raises(DeviceError, match="--device cuda:1: there is no cuda:1; there is only cuda:0"):
        list_devices("cuda:1")
    machine.setenv(gpus.FAKE_LIBRARY, "/a/libfakecudart.so")
    assert [(d.spec, d.spec_alone) for d in list_devices("cuda:1,0")] == [("cuda:1", "cuda:0"), ("cuda:0", "cuda:0")]
    assert one_device("cuda") == "cuda:0" and one_device("auto") == "cuda:0" and one_device("null") == "null"
    with pytest.raises(ConfigError, match="the device cuda:0,1 is 2 GPUs; here a model runs on one"):
        one_device("cuda:0,1")


def test_defaults_on_a_gpu(machine: pytest.MonkeyPatch) -> None:
    machine.setenv(gpus.VISIBLE, "0")
    found = decide(Config(model=("minilm",)))
    assert (found.device, found.dispatchers, found.lanes) == ("cuda:0", 1, None)
    assert [lanes_of(found, generates=generates) for generates in (False, True)] == [2, 1]
    assert (found.max_batch_items, most_items(found), found.max_batch_tokens) == (None, 1024, 16384)
    assert decide(Config(model=("minilm",), dtype="float16", lanes=1)).lanes == 1
    assert decide(Config(model=("minilm",), device="null")).lanes == 1
    machine.setenv(gpus.FAKE_LIBRARY, "/a/libfakecudart.so")
    assert decide(Config(model=("minilm",), device="cuda")).device == "cuda:0,1"
    with pytest.raises(ConfigError, match="--mps on: MPS is for NVIDIA's GPUs, and the device is null"):
        decide(Config(model=("minilm",), device="null", mps="on"))


def told(name: str, tmp_path: Path) -> tuple[str, str, str]:
    found = {finding.name: finding for finding in doctor_gpus.examine_gpus(tmp_path)}
    assert all(finding.advice for finding in found.values() if finding.level == "note")
    return found[name].level, found[name].value, found[name].advice


def test_doctor(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine.setenv("FAKE_GPUS", "3")
    machine.setenv("PATH", FAKE_MPS_PATH)
    machine.setattr(doctor_gpus, "torch_lack", lambda: "the installed torch is a CPU build")
    assert told("gpu driver", tmp_path)[:2] == ("ok", "580.65.06")
    level, value, _ = told("cuda:0", tmp_path)
    assert level == "ok" and value.startswith("NVIDIA H200, 141.0 GiB, compute capability 9.0, near ")
    assert told("cuda:1", tmp_path)[2].startswith("Tesla V100 has compute capability 7.0")
    assert told("cuda:2", tmp_path)[1].endswith(", compute mode prohibited")
    assert told("cuda", tmp_path)[:2] == ("note", "the installed torch is a CPU build")
    assert told("mps", tmp_path)[1].endswith("/fake_mps/nvidia-cuda-mps-control: a private daemon starts")
    machine.setenv("FAKE_MPS", "crashes")
    level, value, advice = told("mps", tmp_path)
    assert level == "note" and value.endswith(": the daemon ended with exit code 1: the GPU is lost")
    assert "take turns" in advice
    machine.setattr(doctor_gpus, "SHM_WANTED", 1 << 60)
    assert told("/dev/shm for mps", tmp_path)[0] == "note"


def test_doctor_looks_for_what_triton_needs(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine.setenv("FAKE_GPUS", "1")
    machine.setattr(doctor_gpus, "torch_lack", lambda: "no")
    machine.delenv("CC", raising=False)
    assert told("c compiler", tmp_path)[0] == "ok"
    machine.setattr(doctor_gpus.sysconfig, "get_path", lambda name: str(tmp_path))
    assert told("c compiler", tmp_path)[1].endswith(", but no Python.h")
    machine.setenv("PATH", str(tmp_path))
    assert told("c compiler", tmp_path)[:2] == ("note", "no gcc")
    clang = tmp_path / "clang"
    clang.write_text("")
    clang.chmod(0o700)
    (tmp_path / "Python.h").write_text("")
    assert told("c compiler", tmp_path)[:2] == ("ok", str(clang))
    machine.setenv("CC", "no-such-compiler")
    assert told("c compiler", tmp_path)[:2] == ("note", "no no-such-compiler")


def test_doctor_without_a_gpu(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("FAKE_GPUS", "0")
    [only] = doctor_gpus.examine_gpus()
    assert (only.name, only.level) == ("gpu", "ok")
    assert only.value == "none: the NVIDIA driver is here, but no GPU; models run on the cpu"
    machine.setenv("FAKE_GPUS", "mig")
    machine.setattr(doctor_gpus, "torch_lack", lambda: "no")
    found = {finding.name: finding for finding in doctor_gpus.examine_gpus()}
    assert found["cuda:1"].value.endswith(", a MIG instance") and "no MPS on it" in found["cuda:1"].advice
    assert "it is a MIG instance, on which MPS does not run" in found["mps"].value or "no nvidia" in found["mps"].value
