"""Assigns CPUs to processes: one to each if there are enough, and to dispatchers of a GPU CPUs near it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from fastqps.host.gpus import Gpu

Cpus = tuple[int, ...]  # empty: all CPUs of the server


@dataclass(frozen=True)
class Placement:
    """The CPUs of each front door and of each dispatcher."""

    doors: tuple[Cpus, ...]
    dispatchers: tuple[Cpus, ...]


def unpinned(doors: int, dispatchers: int) -> Placement:
    """The placement that pins no process."""
    return Placement(((),) * doors, ((),) * dispatchers)


def pinned(cpus: Cpus, doors: int, gpus: Sequence[Gpu | None]) -> Placement:
    """One CPU for each process. ``gpus``: the GPU of each dispatcher; None: it has none.

    Dispatchers of GPUs choose first, then front doors, which prefer CPUs away from GPUs. At least one CPU stays for the
    supervisor; with fewer CPUs no process is pinned.
    """
    if len(cpus) < doors + len(gpus) + 1:
        return unpinned(doors, len(gpus))
    free = list(cpus)

    def take(avoid: Container[int]) -> Cpus:
        cpu = min(free, key=lambda cpu: cpu in avoid)  # the first of the best
        free.remove(cpu)
        return (cpu,)

    near = {cpu for gpu in gpus if gpu for cpu in gpu.cpus}
    own = {d: take(set(cpus) - set(gpu.cpus)) for d, gpu in enumerate(gpus) if gpu}
    own_doors = tuple(take(near) for _ in range(doors))
    return Placement(own_doors, tuple(own.get(d) or take(near) for d in range(len(gpus))))
