"""AMD's GPUs as a server finds them, from a sysfs of the tests. None of this has run on an AMD GPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pynvml
import pytest

from fastqps.config import Config, decide
from fastqps.devices import cuda_choice, list_devices
from fastqps.devices.errors import DeviceError
from fastqps.doctor import gpus as doctor_gpus
from fastqps.errors import ConfigError
from fastqps.host import gpus
from fastqps.host.gpus import AMD, NVIDIA, Gpu, Gpus, find_gpus, nvidia

UNIQUE = (0x1F2E3D4C5B6A7988, 0x2)


class Machine:
    """Folders as /sys and /dev: a CPU, then what ``gpu`` adds."""

    def __init__(self, folder: Path) -> None:
        self.sysfs, self.dev = folder / "sys", folder / "dev"
        self.nodes = self.sysfs / "class/kfd/kfd/topology/nodes"
        self._write(self.nodes / "0/properties", "cpu_cores_count 96\nsimd_count 0\ngfx_target_version 0\n")
        self._write(self.sysfs / "module/amdgpu/version", "6.12.12\n")
        self._write(self.dev / "kfd", "")

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def gpu(self, node: int, unique: int, version: int = 90402, bus: int = 5, name: str = "") -> None:
        location = bus << 8 | 3 << 3
        properties = {
            "simd_count": 1216,
            "gfx_target_version": version,
            "location_id": location,
            "domain": 0,
            "unique_id": unique,
        }
        self._write(self.nodes / f"{node}/properties", "".join(f"{k} {v}\n" for k, v in properties.items()))
        for bank, (kind, size) in enumerate(((1, 192 << 30), (4, 64 << 10))):
            self._write(self.nodes / f"{node}/mem_banks/{bank}/properties", f"heap_type {kind}\nsize_in_bytes {size}\n")
        device = self.sysfs / f"bus/pci/devices/0000:{bus:02x}:03.0"
        self._write(device / "local_cpulist", "48-95\n")
        if name:
            self._write(device / "product_name", f"{name}\n")

    def find(self, environment: Mapping[str, str] = {}) -> Gpus:
        return find_gpus(environment, self.sysfs, self.dev)


def no_library(name: str) -> None:
    raise OSError(name)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Two MI300X, and no driver of NVIDIA's."""
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", no_library)
    nvidia._initialize.cache_clear()
    made = Machine(tmp_path)
    made.gpu(10, UNIQUE[1], bus=0x26)
    made.gpu(9, UNIQUE[0], name="AMD Instinct MI300X OAM")
    monkeypatch.setattr(cuda_choice, "find_gpus", made.find)
    monkeypatch.setattr(doctor_gpus, "find_gpus", made.find)
    monkeypatch.delenv(gpus.FAKE_LIBRARY, raising=False)
    return made


def test_what_an_amd_gpu_is(machine: Machine) -> None:
    found = machine.find()
    assert found == Gpus(
        (
            Gpu(
                0,
                "GPU-1f2e3d4c5b6a7988",
                "AMD Instinct MI300X OAM",
                192 << 30,
                "0000:05:03.0",
                (9, 4, 2),
                tuple(range(48, 96)),
                vendor=AMD,
            ),
            Gpu(
                1,
                "GPU-0000000000000002",
                "AMD gfx942",
                192 << 30,
                "0000:26:03.0",
                (9, 4, 2),
                tuple(range(48, 96)),
                number=1,
                vendor=AMD,
            ),
        ),
        "",
        "amdgpu 6.12.12",
    )
    assert found.visible[0].architecture == "gfx942"
    assert found.visible[1].environment() == {
        "ROCR_VISIBLE_DEVICES": "GPU-0000000000000002",
        "HIP_VISIBLE_DEVICES": "0",
        "CUDA_VISIBLE_DEVICES": "0",
    }


@pytest.mark.parametrize(
    ("environment", "uuids"),
    [
        ({"ROCR_VISIBLE_DEVICES": "1,0"}, [1, 0]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-1f2e"}, [0]),
        ({"HIP_VISIBLE_DEVICES": "1"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [1]),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, [0]),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, [1]),  # numbers of what the outer one has left
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}, []),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_visible_devices(machine: Machine, environment: dict[str, str], uuids: list[int]) -> None:
    found = machine.find(environment)
    assert [gpu.uuid for gpu in found.visible] == [f"GPU-{UNIQUE[i]:016x}" for i in uuids]
    assert [gpu.index for gpu in found.visible] == list(range(len(uuids)))
    assert bool(found.missing) == (not uuids)
    assert machine.find(found.visible[0].environment() if uuids else {}).visible[0].uuid == (
        f"GPU-{UNIQUE[uuids[0] if uuids else 0]:016x}"
    )


def test_what_hides_every_gpu_is_named(machine: Machine) -> None:
    found = machine.find({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"})
    assert found.missing == "HIP_VISIBLE_DEVICES='1' hides every GPU (1)"


def test_partitions_of_a_gpu_go_by_their_numbers(machine: Machine) -> None:
    machine.gpu(11, UNIQUE[1], bus=0x26)
    machine.gpu(12, 0, bus=0x36)
    assert [gpu.uuid for gpu in machine.find().visible] == [f"GPU-{UNIQUE[0]:016x}", "1", "2", "3"]
    assert [gpu.uuid for gpu in machine.find({"ROCR_VISIBLE_DEVICES": "2"}).visible] == ["2"]


def test_a_container_may_not_see_all(machine: Machine) -> None:
    (machine.nodes / "9/properties").write_text("")
    assert [gpu.uuid for gpu in machine.find().visible] == [f"GPU-{UNIQUE[1]:016x}"]
    (machine.dev / "kfd").unlink()
    found = machine.find()
    assert not found.visible and found.missing.startswith("an AMD GPU is here (AMD gfx942), but this process may not")


def test_without_gpus_it_is_nvidias_driver_that_is_missing(machine: Machine) -> None:
    for node in (9, 10):
        (machine.nodes / f"{node}/properties").unlink()
    assert machine.find() == Gpus((), "no NVIDIA driver is here (libnvidia-ml.so.1 cannot be loaded)")


def torch_build(folder: Path, monkeypatch: pytest.MonkeyPatch, runtime: str) -> None:
    """An installed torch that was built for ``runtime``, as its version.py says: cuda, hip, or neither."""
    folder.mkdir(exist_ok=True)
    lines = [f"{name} = {('7.0' if name == runtime else None)!r}\n" for name in ("cuda", "hip")]
    (folder / "version.py").write_text("".join(["__version__ = '2.13.0'\n", *lines]))
    find_spec = importlib.util.find_spec

    def found(name: str, package: str | None = None) -> Any:
        if name != "torch":
            return find_spec(name, package)
        folders = [str(folder)]
        return importlib.util.spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=folders)

    monkeypatch.setattr(importlib.util, "find_spec", found)


@pytest.mark.parametrize(
    ("runtime", "lack", "for_amd", "for_nvidia"),
    [
        ("hip", "", "", "the installed torch is built for ROCm, and the GPU needs one for CUDA"),
        ("cuda", "", "the installed torch is built for CUDA, and the GPU needs one for ROCm", ""),
        ("", "the installed torch is a CPU build", "", ""),
    ],
)
def test_torch_is_built_for_the_vendor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str, lack: str, for_amd: str, for_nvidia: str
) -> None:
    torch_build(tmp_path / "torch", monkeypatch, runtime)
    assert (cuda_choice.torch_mismatch(AMD), cuda_choice.torch_mismatch(NVIDIA)) == (for_amd, for_nvidia)
    assert cuda_choice.torch_lack() == lack


def test_a_server_on_amd_gpus(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch_build(tmp_path / "torch", monkeypatch, "hip")
    assert [device.description for device in list_devices("cuda")] == [
        "cuda:0 (AMD Instinct MI300X OAM)",
        "cuda:1 (AMD gfx942)",
    ]
    assert decide(Config(model=("minilm",), device="cuda:1")).device == "cuda:1"
    with pytest.raises(ConfigError, match=r"--mps on: MPS is for NVIDIA's GPUs, and the device is cuda:1 \(AMD gfx942"):
        decide(Config(model=("minilm",), device="cuda:1", mps="on"))
    torch_build(tmp_path / "torch", monkeypatch, "cuda")
    with pytest.raises(
        DeviceError, match=r"a GPU is here \(AMD Instinct MI300X OAM\), but the installed torch is built"
    ):
        list_devices("cuda")


@pytest.mark.parametrize(("version", "name"), [(90010, "gfx90a"), (110003, "gfx1103"), (100306, "gfx1036")])
def test_other_architectures_are_refused(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, name: str
) -> None:
    torch_build(tmp_path / "torch", monkeypatch, "hip")
    machine.gpu(10, UNIQUE[1], version, bus=0x26)
    with pytest.raises(DeviceError, match=f"AMD {name} is a {name}; the kernels need gfx942 or gfx950$"):
        list_devices("cuda:1")
    with pytest.raises(DeviceError, match="leave cuda:1 out of --device, or of ROCR_VISIBLE_DEVICES"):
        list_devices("cuda")
    machine.gpu(10, UNIQUE[1], 90500, bus=0x26)
    assert len(list_devices("cuda")) == 2


def test_doctor(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_gpus, "torch_lack", lambda: "the installed torch is a CPU build")
    found = {finding.name: finding for finding in doctor_gpus.examine_gpus()}
    assert found["gpu driver"].value == "amdgpu 6.12.12"
    assert found["cuda:0"].value == "AMD Instinct MI300X OAM, 192.0 GiB, gfx942, near 48 CPUs"
    assert "built for ROCm" in found["cuda"].advice
    assert not {"mps", "/dev/shm for mps", "gpm counters"} & set(found)
