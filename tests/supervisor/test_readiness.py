"""What /readyz and /livez say, from the phase of the server and from what its processes are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from fastqps.supervisor.server.view import readiness


@dataclass
class WorkerSlot:
    title: str
    ready: bool = True
    given_up: str = ""
    model: int = 0


DOOR: Any
DISPATCHER: Any
DOOR, DISPATCHER = WorkerSlot("frontdoor 0"), WorkerSlot("dispatcher 0")


@pytest.mark.parametrize(
    ("phase", "dispatchers", "reasons", "answers"),
    [
        ("serving", [DISPATCHER], [], True),
        ("serving", [DISPATCHER, WorkerSlot("dispatcher 1", ready=False)], [], True),
        ("serving", [WorkerSlot("dispatcher 0", ready=False)], ["no dispatcher of m is ready"], False),
        ("starting", [DISPATCHER], ["the server is starting"], False),
        ("lame duck", [DISPATCHER], ["the server is a lame duck: it serves, and will drain soon"], True),
        ("draining", [DISPATCHER], ["the server is draining"], False),
    ],
)
def test_reasons(phase: str, dispatchers: list[Any], reasons: list[str], answers: bool) -> None:
    found = readiness(phase, [DOOR], dispatchers, ["m"])
    assert (list(found.reasons), found.answers, found.hopeless) == (reasons, answers, ())
    assert list(found.degraded) == [f"{worker.title} is not ready" for worker in dispatchers if not worker.ready]


def test_hopeless() -> None:
    """Only where nobody of a role will come back does a restart of the server help."""
    down: Any = WorkerSlot("dispatcher 0", ready=False, given_up="died too often")
    assert not readiness("serving", [DOOR], [down, DISPATCHER], ["m"]).hopeless
    found = readiness("serving", [DOOR], [down], ["m"])
    assert found.hopeless == ("every dispatcher of m stays down",)
    assert found.degraded == ("dispatcher 0 stays down: died too often",)
