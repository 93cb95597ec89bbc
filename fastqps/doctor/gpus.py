"""The GPU findings of ``fastqps doctor``. Serving on the CPU needs none of them, so none counts as missing."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import shutil
import sysconfig
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from fastqps.devices import DeviceError
from fastqps.devices.cuda_choice import check_gpu, torch_lack, torch_mismatch
from fastqps.devices.cuda_versions import TORCH_MIN, TRITON_MIN
from fastqps.doctor import Finding
from fastqps.host.gpus import Gpu, Gpus, Vendor, find_gpus
from fastqps.supervisor.gpu.mps import PROGRAM, MpsDaemon, MpsError, find_program
from fastqps.supervisor.log import Log
from fastqps.supervisor.run_directory import RunDirectory
from fastqps.telemetry.metrics.gpm import Gpm

SHM_WANTED = 256 << 20  # MPS may hold its clients' pinned memory to the size of /dev/shm; each dispatcher has some MiB


def examine_gpus(shm: Path = Path("/dev/shm")) -> Iterator[Finding]:
    """All of it, in a fixed order; one line where there is no GPU. Starts and ends an MPS daemon for a moment."""
    gpus = find_gpus()
    if not gpus.visible:
        yield Finding("gpu", f"none: {gpus.missing}; models run on the cpu")
        return
    yield Finding("gpu driver", gpus.driver or "of the tests")
    yield from map(_gpu, gpus.visible)
    yield from _software(gpus.visible[0].vendor)
    if gpus.visible[0].vendor.mps:
        yield _mps(gpus)
        yield _shared_memory(shm)
        yield _gpm()


def _gpu(gpu: Gpu) -> Finding:
    near = f", near {len(gpu.cpus)} CPUs" if gpu.cpus else ", near CPUs unknown"
    value = f"{gpu.name}, {gpu.memory_bytes / (1 << 30):.1f} GiB, {gpu.architecture}{near}"
    value += ", a MIG instance" if gpu.mig else ""
    value += f", compute mode {gpu.compute_mode}" if gpu.compute_mode != "default" else ""
    try:
        check_gpu(gpu)
    except DeviceError as error:
        return Finding(f"cuda:{gpu.index}", value, "note", str(error))
    if gpu.mig:
        return Finding(f"cuda:{gpu.index}", value, "note", "no MPS on it: several dispatchers would take turns")
    if gpu.compute_mode != "default":
        advice = f"without MPS it takes one process at a time; nvidia-smi -i {gpu.pci} -c 0 lifts that"
        return Finding(f"cuda:{gpu.index}", value, "note", advice)
    return Finding(f"cuda:{gpu.index}", value)


def _software(vendor: Vendor) -> Iterator[Finding]:
    yield _torch(torch_lack() or torch_mismatch(vendor), vendor)
    if packages := metadata.packages_distributions().get("triton"):  # ROCm's torch has it under another name
        yield Finding("triton", metadata.version(packages[0]))
    else:
        yield Finding("triton", "missing", "note", "pip install triton: it compiles the kernels of --device cuda")
    yield _compiler()


def _compiler() -> Finding:
    """Triton makes in C what loads and starts its kernels, when they are first used."""
    name = os.environ.get("CC") or "gcc"
    path = shutil.which(name) or ("CC" not in os.environ and shutil.which("clang"))
    if not path:
        return Finding("c compiler", f"no {name}", "note", "triton needs one to start kernels: apt-get install gcc")
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return Finding("c compiler", f"{path}, but no Python.h", "note", "for triton: apt-get install python3-dev")
    return Finding("c compiler", str(path))


def _torch(lack: str, vendor: Vendor) -> Finding:
    if lack:
        oldest = (".".join(map(str, version)) for version in (TORCH_MIN, TRITON_MIN))
        advice = f"--device cuda needs torch {{}} or later, built for {vendor.platform}, with triton {{}} or later"
        return Finding("cuda", lack, "note", f"{advice.format(*oldest)}: see pytorch.org")
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        advice = "the driver may be too old for this torch: python -c 'import torch; torch.cuda.init()' says more"
        return Finding("cuda", f"torch {torch.__version__} sees no GPU", "note", advice)
    version = torch.version.cuda or torch.version.hip
    return Finding("cuda", f"{vendor.platform} {version}, torch sees {torch.cuda.device_count()}")


def _mps(gpus: Gpus) -> Finding:
    path = find_program()
    if path is None:
        return Finding("mps", f"no {PROGRAM}", "note", "several dispatchers of one GPU would take turns on it")
    try:
        asyncio.run(_start_and_stop(gpus.visible[0]))
    except MpsError as error:
        return Finding("mps", f"{path}: {error}", "note", "several dispatchers of one GPU would take turns on it")
    except OSError as error:
        return Finding("mps", f"no directory for its sockets: {error}", "note", "set TMPDIR")
    return Finding("mps", f"{path}: a private daemon starts")


async def _start_and_stop(gpu: Gpu) -> None:
    with tempfile.TemporaryFile() as nowhere:  # what it says is said when it fails
        log = Log(nowhere.fileno())
        with contextlib.closing(log), contextlib.closing(RunDirectory(log)) as run:
            daemon = MpsDaemon(gpu, run, log)
            await daemon.start()
            await daemon.stop()


def _shared_memory(path: Path) -> Finding:
    try:
        total = shutil.disk_usage(path).total
    except OSError:
        total = 0
    value = f"{total / (1 << 20):.0f} MiB"
    if total < SHM_WANTED:
        advice = "MPS may hold its clients' pinned memory to that: give the container more (--shm-size 1g)"
        return Finding("/dev/shm for mps", value, "note", advice)
    return Finding("/dev/shm for mps", value)


def _gpm() -> Finding:
    gpm = Gpm.open()
    if gpm is None:
        advice = "fastqps bench shows no SM utilization: NVML measures it on Hopper and newer GPUs"
        return Finding("gpm counters", "none", "note", advice)
    gpm.close()
    return Finding("gpm counters", "NVML's, of compute units and memory")
