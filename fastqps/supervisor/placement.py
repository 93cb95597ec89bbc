"""How processes share the CPUs: how many dispatchers there are on the device cpu, and which CPUs each process has."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastqps.config import Config
from fastqps.config.decide import most_dispatchers
from fastqps.host import machine
from fastqps.host.gpus import Gpu
from fastqps.models import ModelCard

# A step of a larger generator takes as long as reading its weights, which threads of one dispatcher share.
GENERATOR_BYTES_MAX = 96 << 20
_MEMORY_SHARE = 4  # the weights of all dispatchers together take at most one part in so many
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


def dispatchers_on_cpu(config: Config, cards: Sequence[ModelCard]) -> int:
    """The dispatchers of each model: one for each core, or half as many with more threads each.

    Half as many where a model is a large generator, where the memory would not hold so many copies of the weights, and
    for static models alone, which compute in one thread.
    """
    most = most_dispatchers(config)
    weight_bytes = {card.name: _weight_bytes(card) for card in cards}
    large = any(card.generates and weight_bytes[card.name] > GENERATOR_BYTES_MAX for card in cards)
    fit = most * sum(weight_bytes.values()) * _MEMORY_SHARE <= machine.memory_bytes()
    return most if fit and not large and not all(card.static for card in cards) else max(1, most // 2)


def _weight_bytes(card: ModelCard) -> int:
    return sum(file.stat().st_size for file in Path(card.path).rglob("*.safetensors"))
