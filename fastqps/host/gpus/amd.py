"""AMD's GPUs, as the kernel's driver describes them in sysfs: no library of ROCm is needed.

The driver (KFD, a part of amdgpu) has a folder for each node of the machine, CPUs and GPUs. ROCm numbers the GPUs in
that order, leaves those that ``ROCR_VISIBLE_DEVICES`` names, and numbers them anew for ``HIP_VISIBLE_DEVICES``, or for
``CUDA_VISIBLE_DEVICES`` where that is not set. Nothing here has run on an AMD GPU.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from fastqps.host.gpus.gpu import AMD, Gpu, Gpus, choose, indexed, near_cpus
from fastqps.host.machine import text_of

_NODES = "class/kfd/kfd/topology/nodes"
_DEVICE_MEMORY = (1, 2)  # kinds of memory banks that are the GPU's own


def find_amd(environment: Mapping[str, str], sysfs: Path, dev: Path) -> Gpus | None:
    """AMD's GPUs of this machine; None if there are none."""
    every = _distinct(list(_every(sysfs)))
    if not every:
        return None
    driver = f"amdgpu {text_of(sysfs / 'module/amdgpu/version')}".strip()
    if not os.access(dev / "kfd", os.R_OK | os.W_OK):
        advice = "it needs the group render, a container also --device /dev/kfd --device /dev/dri"
        missing = f"an AMD GPU is here ({every[0].name}), but this process may not open {dev / 'kfd'}: {advice}"
        return Gpus((), missing, driver)
    chosen = every
    for variable in (AMD.visible, next((name for name in AMD.within if name in environment), "")):
        if variable in environment:
            numbered = [replace(gpu, number=number) for number, gpu in enumerate(chosen)]
            if not (chosen := list(choose(numbered, environment[variable]))):
                return Gpus((), f"{variable}={environment[variable]!r} hides every GPU ({len(numbered)})", driver)
    return Gpus(indexed(chosen), "", driver)


def _every(sysfs: Path) -> Iterator[Gpu]:
    nodes = [path for path in (sysfs / _NODES).glob("*") if path.name.isdecimal()]
    for node in sorted(nodes, key=lambda path: int(path.name)):
        properties = _properties(node)
        version = properties.get("gfx_target_version", 0)
        if not properties.get("simd_count") or not version:
            continue  # a CPU, or a GPU that this container may not see
        capability = (version // 10000, version // 100 % 100, version % 100)
        pci = _pci(properties)
        gpu = Gpu(
            index=0,
            uuid=f"GPU-{properties.get('unique_id', 0):016x}",
            name="",
            memory_bytes=_memory_bytes(node),
            pci=pci,
            capability=capability,
            cpus=near_cpus(sysfs, pci),
            vendor=AMD,
        )
        name = text_of(sysfs / "bus/pci/devices" / pci / "product_name")
        yield replace(gpu, name=name or f"AMD {gpu.architecture}")


def _distinct(every: list[Gpu]) -> list[Gpu]:
    """Numbered, and by their numbers where UUIDs are not distinct: partitions of a GPU have one in common."""
    times = Counter(gpu.uuid for gpu in every)
    return [
        replace(gpu, number=number, uuid=gpu.uuid if times[gpu.uuid] == 1 and int(gpu.uuid[4:], 16) else str(number))
        for number, gpu in enumerate(every)
    ]


def _properties(folder: Path) -> dict[str, int]:
    """Reads a file of names and numbers; empty if it cannot be read."""
    pairs = (line.split() for line in text_of(folder / "properties").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _memory_bytes(node: Path) -> int:
    banks = (_properties(bank) for bank in (node / "mem_banks").glob("*"))
    return sum(bank.get("size_in_bytes", 0) for bank in banks if bank.get("heap_type") in _DEVICE_MEMORY)


def _pci(properties: Mapping[str, int]) -> str:
    place = properties.get("location_id", 0)
    return f"{properties.get('domain', 0):04x}:{place >> 8 & 255:02x}:{place >> 3 & 31:02x}.{place & 7}"
