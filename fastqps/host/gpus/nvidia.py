"""NVIDIA's GPUs, as NVML reports them.

``CUDA_VISIBLE_DEVICES`` is applied with indices as nvidia-smi shows them. CUDA itself counts the fastest GPU first
unless CUDA_DEVICE_ORDER is PCI_BUS_ID; where all GPUs are alike that is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from fastqps.host.gpus.gpu import NVIDIA, Gpu, Gpus, choose, indexed, near_cpus
from fastqps.host.gpus.nvml import Nvml, NvmlError, open_nvml


def find_nvidia(environment: Mapping[str, str], sysfs: Path) -> Gpus:
    """NVIDIA's GPUs of this machine. The first call may take a second if the driver has to wake them."""
    try:
        nvml = open_nvml()
        every = list(_every(nvml, sysfs))
        driver = nvml.driver_version()
    except NvmlError as error:
        return Gpus((), str(error))
    if not every:
        return Gpus((), "the NVIDIA driver is here, but no GPU", driver)
    wanted = environment.get(NVIDIA.visible)
    chosen = every if wanted is None else list(choose(every, wanted))
    missing = "" if chosen else f"{NVIDIA.visible}={wanted!r} hides every GPU ({len(every)})"
    return Gpus(indexed(chosen), missing, driver)


def _every(nvml: Nvml, sysfs: Path) -> Iterator[Gpu]:
    for index in range(nvml.count()):
        handle = nvml.device(index)
        pci = nvml.pci_bus_id(handle)
        instances = nvml.mig_instances(handle)
        for device in [handle] if instances is None else instances:
            yield Gpu(
                index=index,
                number=index,
                uuid=nvml.uuid(device),
                name=nvml.name(device),
                memory_bytes=nvml.memory_bytes(device),
                pci=pci,
                capability=nvml.capability(handle),
                cpus=near_cpus(sysfs, pci),
                mig=instances is not None,
                compute_mode=nvml.compute_mode(handle),
            )
