"""The server that the pages show and change."""

from __future__ import annotations

import asyncio
from typing import Protocol

from fastqps.process.served_models import Limits, ModelLimits, Reloaded
from fastqps.telemetry.live import Seen


class Reloads(Protocol):
    """The component that reloads models."""

    last: Reloaded | None

    @property
    def doing(self) -> str:
        """The step at which a running reload is; "" if none runs."""

    def start(self, model: int, path: str) -> asyncio.Task[Reloaded | None]:
        """Begins a reload. Raises ``ReloadRefused`` if it cannot begin now."""


class Changes(Protocol):
    """The component that changes limits."""

    def all(self) -> list[ModelLimits]:
        """The limits of all models, by index; none of a server that runs no steps."""

    def change(self, model: int, now: Limits) -> ModelLimits:
        """Has a model obey these limits, which are within its ``most``."""


class Served(Seen, Protocol):
    """A server, with what only its admin port asks of it."""

    @property
    def reloads(self) -> Reloads:
        """Reloads its models."""

    @property
    def limits(self) -> Changes:
        """The limits of its models, and the way to change them."""

    def admits(self, authorization: str) -> bool:
        """Whether this authorization header is accepted."""

    def on_loopback(self) -> bool:
        """Whether only this machine can reach the admin port."""
