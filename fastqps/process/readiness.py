"""The readiness of a server and its reasons, as /readyz and /livez report it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_PHASES = {"lame duck": "a lame duck: it serves, and will drain soon"}


class Process(Protocol):
    """One worker slot of the server, running or empty."""

    given_up: str  # why it is not restarted; "" while it is

    @property
    def ready(self) -> bool:
        """Whether it runs and serves."""

    @property
    def title(self) -> str:
        """Its name in logs."""


class ModelProcess(Process, Protocol):
    """A worker slot that serves one model."""

    @property
    def model(self) -> int:
        """The model's index."""


@dataclass(frozen=True)
class Readiness:
    """``reasons``: why it is not ready; empty if it is. ``degraded``: processes that are down while others do their
    work.

    ``hopeless``: roles whose processes all stay down, so that only a restart of the server helps. ``answers``: whether
    requests are served anyway, as by a lame duck.
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
