"""The interface between a scrape and the server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fastqps.process.served_models import ServedVersion
from fastqps.telemetry.capacity import Capacity


@dataclass(frozen=True)
class Canaries:
    """The canaries of one dispatcher, over all its incarnations. ``age_s``: since it last finished a step, of a client
    or a canary.

    None: no canaries are sent, so an idle dispatcher's age would raise a false alarm.
    """

    dispatcher: int
    answered: int
    missed: int
    age_s: float | None


class Credentials(Protocol):
    """The state of the server's certificates and tokens."""

    expires_s: float  # of the certificate, since 1970; 0: no TLS
    reloads: dict[str, int]  # by outcome

    @property
    def refused(self) -> Mapping[str, bool]:
        """For each kind of credential in use: whether its files are invalid, so that the old ones stay in force."""


class Source(Protocol):
    """The data of a scrape: the segment, and the state that only the supervisor has."""

    segment: Any
    models: Sequence[str]
    device: str  # all of them, for people
    devices: Sequence[str]  # each of them, by its index in the segment
    busy: Any  # _core.BusyUnion
    window: Any  # _core.LoadWindow
    capacity: Capacity | None  # as measured, if that is known
    queue_budget_s: float | None  # how long requests may wait, if the capacity file does not say; None: not set
    batch_delay_s: float  # the longest batch delay
    target_saturation: float  # above 0

    @property
    def ready(self) -> bool:
        """Whether load balancers should send requests here."""

    @property
    def credentials(self) -> Credentials:
        """The state of the server's certificates and tokens."""

    def route_of(self, model: int) -> int:
        """The route that answers for a model."""

    def model_of(self, dispatcher: int) -> int:
        """The model that a dispatcher serves."""

    def device_of(self, dispatcher: int) -> int:
        """The device that a dispatcher runs on."""

    def versions(self) -> Sequence[ServedVersion]:
        """The served version of each model."""

    def reload_counts(self) -> Mapping[tuple[str, str], int]:
        """The number of reloads by model and outcome."""

    def reload_failed(self) -> Mapping[str, bool]:
        """For each model: whether its last reload failed."""

    def filled(self) -> Mapping[int, bool]:
        """The dispatchers that shall serve, and whether each does: a reloaded model's next ones have indices of their
        own, and are among them from when they can."""

    def doors(self) -> Sequence[bool]:
        """Whether each front door serves."""

    def trace_spans(self) -> dict[str, int]:
        """Spans of traced calls, by what became of them; empty where none are traced."""

    def processes(self) -> Iterable[tuple[str, int]]:
        """The (role, pid) of each process of the server."""

    def restarts(self) -> dict[str, int]:
        """How often processes were started again, by role."""

    def kernel_fallbacks(self) -> Mapping[str, int]:
        """How often torch's operation replaced each kernel; empty if no device has kernels."""

    def canaries(self) -> Sequence[Canaries]:
        """The canaries of each running dispatcher."""
