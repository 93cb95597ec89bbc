"""Whether the server serves, and why not: what /readyz and /livez answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_PHASES = {"lame duck": "a lame duck: it serves, and will drain soon"}


class Process(Protocol):
    """One place of a process in the server, filled or not."""

    given_up: str  # why it is not started again; "" while it is

    @property
    def ready(self) -> bool:
        """It runs and serves."""

    @property
    def title(self) -> str:
        """For people."""


class ModelProcess(Process, Protocol):
    """One that serves a certain model."""

    @property
    def model(self) -> int:
        """The model's index."""


@dataclass(frozen=True)
class Readiness:
    """``reasons``: why it is not ready; empty: it is. ``degraded``: processes that are down while others do their work.

    ``hopeless``: roles without any process that would be started again; only a restart of the server helps.
    ``answers``: whether requests are served all the same, as those are that come to a lame duck.
    """

    reasons: tuple[str, ...]
    degraded: tuple[str, ...]
    hopeless: tuple[str, ...]
    answers: bool


def readiness(
    phase: str, doors: Sequence[Process], dispatchers: Sequence[ModelProcess], models: Sequence[str]
) -> Readiness:
    """A server is ready while it serves and each role (front doors; the dispatchers of each model) has a ready process.

    One process that restarts does not make the server unready: the others take its work. (All replicas would drop out
    of a load balancer for a fault that no client sees.)
    """
    roles: list[tuple[str, list[Process]]] = [("front door", [*doors])]
    for i, model in enumerate(models):
        roles.append((f"dispatcher of {model}", [worker for worker in dispatchers if worker.model == i]))
    missing, hopeless = [], []
    for role, processes in roles:
        if not any(process.ready for process in processes):
            missing.append(f"no {role} is ready")
        if all(process.given_up for process in processes):
            hopeless.append(f"every {role} stays down")
    workers: list[Process] = [*doors, *dispatchers]
    degraded = [f"{s.title} {_state(s)}" for s in workers if not s.ready]
    return Readiness(
        reasons=(*([] if phase == "serving" else [f"the server is {_PHASES.get(phase, phase)}"]), *missing),
        degraded=tuple(degraded),
        hopeless=tuple(hopeless),
        answers=phase in ("serving", "lame duck") and not missing,
    )


def _state(process: Process) -> str:
    return f"stays down: {process.given_up}" if process.given_up else "is not ready"
