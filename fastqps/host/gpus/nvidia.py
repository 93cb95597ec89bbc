"""NVIDIA's GPUs, as NVML reports them: the library of the driver that nvidia-smi asks.

``CUDA_VISIBLE_DEVICES`` is applied with indices as nvidia-smi shows them. CUDA itself counts the fastest GPU first
unless CUDA_DEVICE_ORDER is PCI_BUS_ID; where all GPUs are alike that is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from fastqps.host.gpus.gpu import NVIDIA, Gpu, Gpus, choose, indexed, near_cpus

_COMPUTE_MODES = ("default", "exclusive-thread", "prohibited", "exclusive-process")


def find_nvidia(environment: Mapping[str, str], sysfs: Path) -> Gpus:
    """NVIDIA's GPUs of this machine. The first call may take a second if the driver has to wake them."""
    nvml = import_module("pynvml")  # a large module: imported only here
    try:
        _initialize()
        every, driver = list(_every(nvml, sysfs)), nvml.nvmlSystemGetDriverVersion()
    except nvml.NVMLError_LibraryNotFound:
        return Gpus((), "no NVIDIA driver is here (libnvidia-ml.so.1 cannot be loaded)")
    except nvml.NVMLError_FunctionNotFound:
        return Gpus((), "the NVIDIA driver is too old for NVML's functions")
    except nvml.NVMLError as error:
        return Gpus((), f"the NVIDIA driver does not answer: {error} ({error.value})")
    if not every:
        return Gpus((), "the NVIDIA driver is here, but no GPU", driver)
    wanted = environment.get(NVIDIA.visible)
    chosen = every if wanted is None else list(choose(every, wanted))
    missing = "" if chosen else f"{NVIDIA.visible}={wanted!r} hides every GPU ({len(every)})"
    return Gpus(indexed(chosen), missing, driver)


@cache
def _initialize() -> None:
    """Initializes the driver once in a process. It takes a second if no other process keeps the driver loaded."""
    import_module("pynvml").nvmlInit()


def _every(nvml: Any, sysfs: Path) -> Iterator[Gpu]:
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        domain, _, rest = nvml.nvmlDeviceGetPciInfo(handle).busId.lower().partition(":")
        pci = f"{domain[-4:]}:{rest}"  # as sysfs writes it
        mode = nvml.nvmlDeviceGetComputeMode(handle)
        instances = _mig_instances(nvml, handle)
        for device in [handle] if instances is None else instances:
            yield Gpu(
                index=index,
                number=index,
                uuid=nvml.nvmlDeviceGetUUID(device),
                name=nvml.nvmlDeviceGetName(device),
                memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(device).total),
                pci=pci,
                capability=tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle)),
                cpus=near_cpus(sysfs, pci),
                mig=instances is not None,
                compute_mode=_COMPUTE_MODES[mode] if mode < len(_COMPUTE_MODES) else f"mode {mode}",
            )


def _mig_instances(nvml: Any, gpu: Any) -> list[Any] | None:
    """The MIG instances that this container may see; None where the GPU is not cut into such."""
    try:
        if not nvml.nvmlDeviceGetMigMode(gpu)[0]:
            return None
    except nvml.NVMLError_NotSupported:
        return None
    instances = []
    for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            instances.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place))
        except (nvml.NVMLError_NotFound, nvml.NVMLError_InvalidArgument):  # instances need not have the first numbers
            continue
    return instances
