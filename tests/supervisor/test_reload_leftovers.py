"""What a generation leaves behind that was reloaded: it goes in the end, and until then only the next reload waits."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fastqps.models import ModelError
from fastqps.supervisor.generation import Generation
from fastqps.supervisor.log import Log
from fastqps.supervisor.reload import reload as reloads
from fastqps.supervisor.reload.reload import Reloader
from fastqps.supervisor.workers.restarter import Restarters

FLIPS = 3  # what the front doors see with the flip
NOTHING: Any = None


class Segment:
    """``held``: what front door 0 has of any route."""

    def __init__(self) -> None:
        self.held = 0
        self.states: dict[int, str] = {}

    def door_route(self, door: int, route: int) -> tuple[int, int, int]:
        return -1, -1, self.held

    def set_route_state(self, route: int, state: str) -> None:
        self.states[route] = state


class World:
    """A model that has just been reloaded, from generation 0 to 1, whose dispatchers have gone."""

    def __init__(self) -> None:
        def generation(number: int) -> Generation:
            return Generation(0, number, cast(Any, SimpleNamespace(name="m", version=f"v{number}")), NOTHING)

        self.line = SimpleNamespace(live=True, ready=True, flips_seen=0)
        self.segment = Segment()
        self.old = generation(0)
        door = SimpleNamespace(index=0, title="frontdoor 0", child=None, line=self.line)
        workers = SimpleNamespace(
            doors=[door], sharings={}, serving=[generation(1)], of=lambda _: [], set_routes=lambda: None
        )
        config = SimpleNamespace(model=("m=/here",), drain_timeout_ns=0)
        self.reloader = Reloader(
            cast(Any, SimpleNamespace(config=config, reloads=True)),
            cast(Any, SimpleNamespace(segment=self.segment, forget=self.forget)),
            cast(Any, workers),
            Restarters(-1, NOTHING, NOTHING, lambda: None),
            Log(),
        )

    def forget(self, gone: Generation) -> None:
        self.segment.set_route_state(gone.route, "empty")

    def let_go(self) -> bool:
        """What the reload did last; whether the generation before has gone."""
        asyncio.run(self.reloader._let_go(self.old, FLIPS))
        return self.gone()

    def gone(self) -> bool:
        return self.segment.states == {self.old.route: "empty"}

    def next_reload(self) -> str:
        """Why it failed: there is nothing to reload."""
        return asyncio.run(self.reloader.reload(0, "", {})).reason


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    def next_model(*_: object) -> None:
        raise ModelError("it was read")

    monkeypatch.setattr(reloads, "CLEAN_MAX_S", 0.05)
    monkeypatch.setattr(reloads, "next_model", next_model)
    return World()


@pytest.mark.parametrize("line", [{"live": False, "ready": False}, {"ready": False}, {"flips_seen": FLIPS}])
def test_who_is_down_or_starts_has_nothing_of_it(world: World, line: dict[str, Any]) -> None:
    """However long a front door takes that died behind the flip, and is started again."""
    vars(world.line).update(line)
    assert world.let_go()
    assert world.next_reload() == "it was read"


@pytest.mark.parametrize(("flips_seen", "held"), [(FLIPS - 1, 0), (FLIPS, 2)])
def test_each_reload_looks_again(world: World, flips_seen: int, held: int) -> None:
    world.line.flips_seen, world.segment.held = flips_seen, held
    assert not world.let_go()
    assert world.next_reload() == f"frontdoor 0 may still use m@v0 ({held} items)"
    assert not world.gone()
    world.line.flips_seen, world.segment.held = FLIPS + 1, 0  # another model was reloaded meanwhile
    assert world.next_reload() == "it was read"
    assert world.gone()
