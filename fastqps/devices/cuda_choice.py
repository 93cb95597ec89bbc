"""Resolves ``--device cuda`` and ``auto`` to GPUs. Imports no torch and makes no CUDA context."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from fastqps.devices.cuda_versions import assigned, package_path, too_old
from fastqps.devices.errors import DeviceError
from fastqps.errors import ConfigError
from fastqps.host.gpus import AMD, FAKE_LIBRARY, NVIDIA, Gpu, Vendor, find_gpus

CAPABILITY_MIN = (8, 0)  # Ampere: the first with bfloat16
AMD_ARCHITECTURES = ("gfx942", "gfx950")  # MI300 and MI350: what the kernels are compiled for in tests
_BUILT_FOR = {NVIDIA: "cuda", AMD: "hip"}  # the name in torch's version.py


@dataclass(frozen=True)
class Choice:
    """The device that ``--device auto`` chooses. ``reason``: for the log."""

    device: str
    reason: str


def choose_device() -> Choice:
    """``cuda`` where there is a GPU and all that it takes to use it, else ``cpu``."""
    try:
        gpus = usable_gpus()
    except DeviceError as error:
        return Choice("cpu", str(error))
    return Choice("cuda", ", ".join(f"cuda:{gpu.index} is {gpu.name}" for gpu in gpus))


def chosen_gpus(text: str) -> tuple[Gpu, ...]:
    """The GPUs of ``cuda`` (all that are visible) or ``cuda:0,2``.

    Raises ``ConfigError`` for what makes no sense, ``DeviceError`` where there is no such GPU or no way to use it.
    """
    listed = text.partition(":")[2]
    parts = [part.strip() for part in listed.split(",")] if ":" in text else []
    if not all(part.isdecimal() and len(part) < 5 for part in parts):
        raise ConfigError(f"--device {text}: write cuda, or cuda: and the numbers of GPUs, as in cuda:0,1")
    numbers = [int(part) for part in parts]
    if len(set(numbers)) < len(numbers):
        raise ConfigError(f"--device {text}: a GPU is served once; --dispatchers says by how many processes")
    try:
        return usable_gpus(numbers)
    except DeviceError as error:
        raise DeviceError(f"--device {text}: {error}") from None


def usable_gpus(numbers: Sequence[int] = ()) -> tuple[Gpu, ...]:
    """The GPUs of these numbers, or all visible ones. ``DeviceError`` says, without a flag's name, why not."""
    gpus = find_gpus()
    if not gpus.visible:
        raise DeviceError(gpus.missing)
    if not os.environ.get(FAKE_LIBRARY) and (lack := torch_lack()):
        raise DeviceError(f"a GPU is here ({gpus.visible[0].name}), but {lack}")
    if mismatch := torch_mismatch(gpus.visible[0].vendor):
        raise DeviceError(f"a GPU is here ({gpus.visible[0].name}), but {mismatch}")
    last = len(gpus.visible) - 1
    if (too_high := next((n for n in numbers if n > last), None)) is not None:
        have = "there is only cuda:0" if last == 0 else f"there are cuda:0 to cuda:{last}"
        raise DeviceError(f"there is no cuda:{too_high}; {have}")
    chosen = tuple(gpus.visible[n] for n in numbers) if numbers else gpus.visible
    for gpu in chosen:
        try:
            check_gpu(gpu)
        except DeviceError as error:
            if len(chosen) == 1:
                raise
            raise DeviceError(f"{error}; leave cuda:{gpu.index} out of --device, or of {gpu.vendor.visible}") from None
    return chosen


def torch_lack() -> str:
    """Why the installed torch cannot use a GPU, and what to do if that is not obvious; "" if it can."""
    torch, triton = package_path("torch"), package_path("triton")
    if torch is None:
        return "torch is not installed"
    if not any(assigned(torch / "version.py", name) for name in _BUILT_FOR.values()):
        return "the installed torch is a CPU build"
    if triton is None:
        return "the package triton, which compiles the kernels, is not installed"
    return too_old(torch, triton)


def torch_mismatch(vendor: Vendor) -> str:
    """Why the installed torch is not one for this vendor's GPUs; "" if it is, or is built for the CPU alone."""
    torch = package_path("torch")
    for other, name in _BUILT_FOR.items():
        if other != vendor and torch and assigned(torch / "version.py", name):
            return f"the installed torch is built for {other.platform}, and the GPU needs one for {vendor.platform}"
    return ""


def check_gpu(gpu: Gpu) -> None:
    """Raises ``DeviceError`` if this GPU cannot be used."""
    if gpu.vendor == AMD and gpu.architecture not in AMD_ARCHITECTURES:
        raise DeviceError(f"{gpu.name} is a {gpu.architecture}; the kernels need {' or '.join(AMD_ARCHITECTURES)}")
    if gpu.vendor == NVIDIA and gpu.capability < CAPABILITY_MIN:
        need = ".".join(map(str, CAPABILITY_MIN))
        raise DeviceError(f"{gpu.name} has {gpu.architecture}; the kernels need {need} or later")
    if gpu.compute_mode == "prohibited":
        raise DeviceError(f"{gpu.name} is in compute mode prohibited: nvidia-smi -i {gpu.pci} -c 0 allows its use")
