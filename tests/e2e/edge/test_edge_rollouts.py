"""Servers behind an edge that are restarted, and then reloaded to a new version, one after the other and under load: by
the client's ledger nothing is lost, answered twice or swapped, and no client sees an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from busy import sees
from ledger import Ledger, Load
from ports import free_port
from reloading import Reloaded, version_of
from server_faults import drained
from upstream_state import news, start_edge

MORE = 100  # answers between two events


class Rollout:
    """Two servers at ports that outlive them, and an edge in front of them."""

    def __init__(self, serve: Callable[..., Any], folder: Path) -> None:
        self._serve = serve
        self._folders = [folder / name for name in ("first", "second")]
        self._ports = [free_port() for _ in self._folders]
        for each in self._folders:
            each.mkdir()
        self.servers: list[Reloaded] = [self._start(place) for place in range(2)]
        addresses = [server.address for server in self.servers]
        self.edge = start_edge(serve, addresses, "--slots=256", f"--model=m={self.servers[0].one}")

    def _start(self, place: int) -> Any:
        flags = (f"--port={self._ports[place]}", "--frontdoors=1", "--dispatchers=1")
        return self._serve(self._folders[place], *flags, kind=Reloaded)

    def restart(self, place: int) -> None:
        """As a rollout does: told to end, ended without haste, started anew."""
        drained(self.servers[place])
        code = self.servers[place].wait()
        assert code == 0, f"exit code {code}:\n{self.servers[place].log()}"
        self.servers[place] = self._start(place)

    async def until_state(self, place: int, state: str) -> None:
        """Until the edge says so of a server."""

        def said() -> bool:
            return any(line.startswith(state) for line in news(self.edge, self.servers[place].address)[-1:])

        await sees(said, lambda: f"{state}\n{self.edge.log()}")

    async def until_used(self, place: int) -> None:
        """Until a server has answered since it was started."""
        await sees(lambda: self.servers[place].metrics().get("fastqps_items_total", 0), "used")


async def test_restarts_and_reloads(serve: Callable[..., Any], tmp_path: Path) -> None:
    """The edge is reloaded in between. Its reload waits for the first server of the new version, and the old one serves
    meanwhile."""
    rollout = Rollout(serve, tmp_path)
    edge = rollout.edge
    ledger = Ledger()
    for place in range(2):
        await rollout.until_state(place, "serving")
    old = await asyncio.to_thread(version_of, edge)
    async with Load(edge.address, ledger, workers=2, pause_s=0.02) as load:
        for place in range(2):
            await load.more(MORE)
            await asyncio.to_thread(rollout.restart, place)
            await rollout.until_state(place, "serving")
            await rollout.until_used(place)
        await load.more(MORE)
        reload = asyncio.create_task(asyncio.to_thread(edge.reload, **{"from": rollout.servers[0].two}))
        for place in range(2):
            await rollout.until_state(place, "mismatch")  # says the edge's new dispatcher
        await load.more(MORE)
        assert not reload.done()
        await rollout.servers[0].becomes(rollout.servers[0].two)
        status, answer = await reload
        assert (status, answer["outcome"]) == (200, "reloaded"), answer
        await rollout.until_state(0, "serving")
        await rollout.until_state(1, "mismatch")
        await load.more(MORE)
        await rollout.servers[1].becomes(rollout.servers[1].two)
        await rollout.until_state(1, "serving")
        await load.more(MORE)
    versions = [await asyncio.to_thread(version_of, each) for each in (edge, *rollout.servers)]
    assert versions == [versions[0]] * 3 and versions[0] != old, (old, versions)
    ledger.check()
    # Each request is one item of one of them, or of several if it was sent again.
    assert edge.metrics()["fastqps_items_total"] == ledger.sent
