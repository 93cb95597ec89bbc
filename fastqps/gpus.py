"""The GPUs that this process may use, as NVML tells them: no torch, no CUDA context.

``CUDA_VISIBLE_DEVICES`` holds, with indices as nvidia-smi shows them (CUDA itself counts the fastest first unless
CUDA_DEVICE_ORDER is PCI_BUS_ID; where all GPUs are alike that is the same). Processes that we start get a UUID, which
means the same to everybody. A GPU that is cut into MIG instances stands for those of them that are visible.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fastqps.machine import parse_cpus
from fastqps.nvml import Nvml, NvmlError, open_nvml

VISIBLE = "CUDA_VISIBLE_DEVICES"
FAKE_LIBRARY = "FASTQPS_TEST_FAKE_CUDA"  # tests only: a libcudart whose GPUs are threads of the CPU
FAKES = 2


@dataclass(frozen=True)
class Gpu:
    """One GPU, or one MIG instance of one."""

    index: int  # among the visible ones, from 0: the i of cuda:i
    uuid: str  # "GPU-…", or "MIG-…"
    name: str
    memory_bytes: int
    pci: str  # "0000:18:00.0"
    capability: tuple[int, int]
    cpus: tuple[int, ...]  # of its NUMA node; empty: unknown
    mig: bool = False
    compute_mode: str = "default"  # or exclusive-thread, prohibited, exclusive-process
    number: int = 0  # in nvidia-smi


@dataclass(frozen=True)
class Gpus:
    """``missing``: why ``visible`` is empty, for people; "" where it is not."""

    visible: tuple[Gpu, ...]
    missing: str = ""
    driver: str = ""


def find_gpus(environment: Mapping[str, str] = os.environ, sysfs: Path = Path("/sys")) -> Gpus:
    """What is there now. The first call may take a second, where the driver has to wake the GPUs."""
    if environment.get(FAKE_LIBRARY):
        return Gpus(tuple(map(_fake, range(FAKES))))
    try:
        nvml = open_nvml()
        every = list(_every(nvml, sysfs))
        driver = nvml.driver_version()
    except NvmlError as error:
        return Gpus((), str(error))
    if not every:
        return Gpus((), "the NVIDIA driver is here, but no GPU", driver)
    wanted = environment.get(VISIBLE)
    chosen = every if wanted is None else list(_chosen(every, wanted))
    missing = "" if chosen else f"{VISIBLE}={wanted!r} hides every GPU ({len(every)})"
    return Gpus(tuple(_numbered(gpu, i) for i, gpu in enumerate(chosen)), missing, driver)


def _every(nvml: Nvml, sysfs: Path) -> Iterator[Gpu]:
    for index in range(nvml.count()):
        handle = nvml.device(index)
        pci = nvml.pci_bus_id(handle)
        common = {
            "index": index,
            "number": index,
            "pci": pci,
            "capability": nvml.capability(handle),
            "cpus": _near_cpus(sysfs, pci),
            "compute_mode": nvml.compute_mode(handle),
        }
        instances = nvml.mig_instances(handle)
        for device in [handle] if instances is None else instances:
            yield Gpu(
                uuid=nvml.uuid(device),
                name=nvml.name(device),
                memory_bytes=nvml.memory_bytes(device),
                mig=instances is not None,
                **common,  # type: ignore[arg-type]
            )


def _chosen(every: list[Gpu], text: str) -> Iterator[Gpu]:
    """As CUDA reads it: in this order, up to the first entry that names nothing. An entry is an index, or the
    beginning of one UUID."""
    seen: set[str] = set()
    for entry in text.split(","):
        entry = entry.strip()
        number = int(entry) if entry.isdecimal() else None
        named = entry.startswith(("GPU-", "MIG-"))
        found = [g for g in every if g.number == number or (named and g.uuid.startswith(entry))]
        if not found or (named and len(found) > 1):
            return
        for gpu in found:
            if gpu.uuid not in seen:
                seen.add(gpu.uuid)
                yield gpu


def _numbered(gpu: Gpu, index: int) -> Gpu:
    return Gpu(**{**vars(gpu), "index": index})


def _near_cpus(sysfs: Path, pci: str) -> tuple[int, ...]:
    """The CPUs of the node that the device hangs on; empty where the system does not say."""
    try:
        return parse_cpus((sysfs / "bus/pci/devices" / pci / "local_cpulist").read_text())
    except (OSError, ValueError):
        return ()


def _fake(index: int) -> Gpu:
    return Gpu(index, f"GPU-fake-{index}", "fake GPU", 1 << 33, f"0000:0{index}:00.0", (9, 0), ())
