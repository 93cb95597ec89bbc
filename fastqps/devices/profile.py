"""The cost of steps on a modelled device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fastqps.devices.kernel_cost import Kernel, Peaks
from fastqps.errors import ConfigError
from fastqps.models.card import ModelCard
from fastqps.runners.kinds import kind_of_task, step_kind

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Profile:
    """A device and a model, as far as a step's time goes. All times in µs.

    A step of T tokens and S items (of a generator: T rows, S sampled ones) that has the device for itself takes
    ``fixed_us + per_token_us * T + per_item_us * S``, and what its ``kernels`` take by the device's ``peaks``. With a
    ``table`` of (tokens, µs), straight lines between its points stand for the second term. Steps of other dispatchers
    and lanes can make use of ``overlap`` of the fixed parts.
    """

    name: str
    status: str  # estimated, or measured
    source: str  # where the figures are from
    gpu: str
    model: str
    task: str
    fixed_us: float
    per_token_us: float
    per_item_us: float
    overlap: float  # 0 to 1
    table: Points = ()
    launch_us: float = 0.0  # CPU time of the thread that launches a step
    peaks: Peaks = field(default_factory=Peaks)
    kernels: tuple[Kernel, ...] = ()

    @property
    def latency_us(self) -> float:
        """The fixed part of a step, that of each launch of a kernel included."""
        return self.fixed_us + sum(kernel.launches * kernel.fixed_us for kernel in self.kernels)

    def step_us(self, tokens: int, items: int) -> float:
        """The time of a step that has the device for itself."""
        return self.latency_us + self._tokens_us(tokens) + self._items_us(items)

    def token_points(self) -> Points:
        """Points (tokens, µs) with straight lines between them: the part of a step's time that depends on tokens. The
        last line goes on."""
        bends = (bend for kernel in self.kernels if not kernel.by_item for bend in kernel.bends(self.peaks))
        return _points(self._tokens_us, (*(tokens for tokens, _ in self.table), *bends))

    def item_points(self) -> Points:
        """The same by items."""
        bends = (bend for kernel in self.kernels if kernel.by_item for bend in kernel.bends(self.peaks))
        return _points(self._items_us, bends)

    def _tokens_us(self, tokens: float) -> float:
        kernels_us = sum(kernel.tokens_us(tokens, self.peaks) for kernel in self.kernels)
        return (self._table_us(tokens) if self.table else self.per_token_us * tokens) + kernels_us

    def _items_us(self, items: float) -> float:
        return self.per_item_us * items + sum(kernel.items_us(items, self.peaks) for kernel in self.kernels)

    def _table_us(self, tokens: float) -> float:
        if tokens <= self.table[0][0] or len(self.table) == 1:
            return self.table[0][1]
        i = next((i for i in range(1, len(self.table) - 1) if self.table[i][0] >= tokens), len(self.table) - 1)
        (x0, y0), (x1, y1) = self.table[i - 1 : i + 1]
        return y0 + (tokens - x0) * (y1 - y0) / (x1 - x0)


def check_task(card: ModelCard, profile: Profile) -> None:
    """``ConfigError`` where a generator's steps would be timed as an encoder's, or the other way round."""
    if step_kind(card) != kind_of_task(profile.task):
        raise ConfigError(
            f"device sim:{profile.name} models steps of the task {profile.task} ({profile.model}); the task of "
            f"{card.name} is {card.task}"
        )


def _points(us: Callable[[float], float], bends: Iterable[float]) -> Points:
    numbers = sorted({0.0, *bends})
    return tuple((number, us(number)) for number in (*numbers, numbers[-1] + 1))
