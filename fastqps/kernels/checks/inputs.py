"""A small random step in place of a call's arguments, and what an operation makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fastqps._core import HEADER_TARGETS, TARGET_WORDS

_SEED = 14
_PAIR = ("fp8", "scale")  # what an operation with two results without names returns


@dataclass(frozen=True)
class Case:
    """``mutated`` are the arguments that the operation writes.

    ``rows`` of a result, or of a mutated argument, are no padding; those that are not named count in full. The columns
    of a mutated int32 argument from ``floats_from`` on are the bits of float32 numbers, and are compared as such.
    """

    arguments: dict[str, Any]
    mutated: Sequence[str] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    floats_from: Mapping[str, int] = field(default_factory=dict)

    def run(self, operation: Callable[..., Any]) -> dict[str, torch.Tensor]:
        """The results that the operation returns or writes, by name. The arguments stay unchanged."""
        own = self.arguments | {name: self.arguments[name].clone() for name in self.mutated}
        returned = operation(**own)
        results = {name: own[name] for name in self.mutated}
        if isinstance(returned, torch.Tensor):
            results["result"] = returned
        elif returned is not None:
            named = returned._asdict() if hasattr(returned, "_asdict") else dict(zip(_PAIR, returned, strict=True))
            results |= {name: value for name, value in named.items() if value is not None}
        found = {name: value[: self.rows.get(name, len(value))] for name, value in results.items()}
        for name, column in self.floats_from.items():
            bits = found.pop(name)
            found |= {name: bits[:, :column], f"{name}, as floats": bits[:, column:].view(torch.float32)}
        return found


Inputs = Callable[["Random", dict[str, Any]], Case]  # of a call's arguments


class Random:
    """Random tensors where those of ``arguments`` are; the same ones at each check of a shape."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.device = next(value.device for value in arguments.values() if isinstance(value, torch.Tensor))
        self._generator = torch.Generator(self.device).manual_seed(_SEED)

    def normal(self, *shape: int, like: torch.Tensor, live: int | None = None) -> torch.Tensor:
        """Normal random numbers of the type of ``like``; rows from ``live`` on are NaN."""
        x = torch.randn(*shape, generator=self._generator, device=self.device)
        x[shape[0] if live is None else live :] = torch.nan
        return x.to(like.dtype)

    def below(self, end: int, size: int) -> torch.Tensor:
        """int32 [size]: numbers from 0 on that are less than ``end``."""
        return torch.randint(end, (size,), generator=self._generator, device=self.device, dtype=torch.int32)

    def places(self, count: int, end: int) -> torch.Tensor:
        """int64 [count]: different numbers below ``end``, ascending."""
        return torch.randperm(end, generator=self._generator, device=self.device)[:count].sort().values

    def ints(self, values: Sequence[int], size: int) -> torch.Tensor:
        """int32 [size]: ``values``, then what an older step may have left: the same in another order."""
        older = list(reversed(values)) or [0]
        filled = [*values, *(older[i % len(older)] for i in range(size - len(values)))]
        return torch.tensor(filled[:size], dtype=torch.int32, device=self.device)

    def targets(self, given: torch.Tensor | None, counts: torch.Tensor, size: int) -> torch.Tensor | None:
        """Targets [size, TARGET_WORDS] of which the first run alone has one, token 0; the header ``counts`` says so."""
        if given is None:
            return None
        counts[HEADER_TARGETS] = 1
        rows = torch.zeros(size, TARGET_WORDS, dtype=torch.int32, device=self.device)
        rows[0, 0] = 1
        return rows

    def stamps(self, given: torch.Tensor | None) -> torch.Tensor | None:
        """A buffer for the device's time stamps."""
        return None if given is None else torch.zeros(2, dtype=torch.int64, device=self.device)
