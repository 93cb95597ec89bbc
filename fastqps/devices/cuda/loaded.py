"""A model on a GPU, as all lanes of a process share it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from fastqps.devices.cuda.backend import Backend
from fastqps.devices.cuda.memory import told_when_full
from fastqps.devices.cuda.start_lock import alone_on
from fastqps.models.card import ModelCard

M = TypeVar("M")


@dataclass(frozen=True)
class Loaded(Generic[M]):
    """The weights are in the model. Whoever takes memory of the GPU does it ``starting``."""

    card: ModelCard
    backend: Backend
    model: M

    def starting(self, max_tokens: int) -> AbstractContextManager[None]:
        """As the function."""
        return starting(self.card, self.backend, max_tokens)


@contextmanager
def starting(card: ModelCard, backend: Backend, max_tokens: int) -> Iterator[None]:
    """Alone on the GPU among those that start; ``ConfigError`` where its memory is too small."""
    with alone_on(backend.uuid), told_when_full(card, max_tokens, backend.where):
        yield
