"""One GPU of any vendor, and the choice that environment variables make among several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from fastqps.host.machine import parse_cpus


class Vendor(NamedTuple):
    """``visible``: the variable that chooses among its GPUs by number or UUID. ``within``: variables that choose again
    among what that one has left, by number; of those the first that is set holds."""

    name: str
    platform: str  # the platform that torch must be built for
    visible: str
    within: tuple[str, ...]
    mps: bool  # whether its processes can share a GPU by MPS


NVIDIA = Vendor("NVIDIA", "CUDA", "CUDA_VISIBLE_DEVICES", (), True)
AMD = Vendor("AMD", "ROCm", "ROCR_VISIBLE_DEVICES", ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"), False)


@dataclass(frozen=True)
class Gpu:
    """One GPU, or one MIG instance or partition of one."""

    index: int  # among the visible ones, from 0: the i of cuda:i
    uuid: str  # "GPU-…", or "MIG-…": by which ``visible`` names it
    name: str
    memory_bytes: int
    pci: str  # "0000:18:00.0"
    capability: tuple[int, ...]  # (9, 0); AMD's (9, 4, 2) is gfx942
    cpus: tuple[int, ...]  # of its NUMA node; empty: unknown
    mig: bool = False
    compute_mode: str = "default"  # or exclusive-thread, prohibited, exclusive-process
    number: int = 0  # in nvidia-smi, rocminfo
    vendor: Vendor = NVIDIA

    @property
    def architecture(self) -> str:
        """A readable name: "compute capability 9.0", "gfx942"."""
        if self.vendor == NVIDIA:
            return "compute capability " + ".".join(map(str, self.capability))
        return f"gfx{self.capability[0]}" + "".join(f"{part:x}" for part in self.capability[1:])

    def environment(self) -> dict[str, str]:
        """Variables by which a process sees this GPU alone, as number 0."""
        return {self.vendor.visible: self.uuid, **dict.fromkeys(self.vendor.within, "0")}


@dataclass(frozen=True)
class Gpus:
    """``missing``: why ``visible`` is empty, for people; "" where it is not."""

    visible: tuple[Gpu, ...]
    missing: str = ""
    driver: str = ""


def choose(every: Iterable[Gpu], text: str) -> Iterator[Gpu]:
    """The GPUs that a variable selects, read as the vendor's runtime does: in order, up to the first entry that names
    nothing. An entry is an index, or the beginning of one UUID."""
    every = list(every)
    seen: set[str] = set()
    for entry in text.split(","):
        entry = entry.strip()
        number = int(entry) if entry.isdecimal() else None
        named = entry.startswith(("GPU-", "MIG-"))
        matches = [g for g in every if g.number == number or (named and g.uuid.startswith(entry))]
        if not matches or (named and len(matches) > 1):
            return
        for gpu in matches:
            if gpu.uuid not in seen:
                seen.add(gpu.uuid)
                yield gpu


def indexed(gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """The GPUs with their places as ``index``."""
    return tuple(replace(gpu, index=index) for index, gpu in enumerate(gpus))


def near_cpus(sysfs: Path, pci: str) -> tuple[int, ...]:
    """The CPUs of the node that the device hangs on; empty where the system does not say."""
    try:
        return parse_cpus((sysfs / "bus/pci/devices" / pci / "local_cpulist").read_text())
    except (OSError, ValueError):
        return ()
