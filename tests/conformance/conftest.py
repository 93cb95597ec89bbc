"""One server for all cases of a module, with dispatchers that can be told to take their time; after each case its
neighbours are asked whether they noticed anything, and at the end nothing may be left."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from neighbour import MESSAGE_BYTES_MAX, Neighbour
from raw import Peer
from serving import Server, descriptors, until


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server]) -> Server:
    """One front door, two dispatchers."""
    flags = ("--frontdoors=1", "--dispatchers=2", f"--max-message-bytes={MESSAGE_BYTES_MAX}", "--max-batch-items=4")
    return module_server(*flags, echo=True)


@pytest.fixture(scope="module")
def neighbour(server: Server) -> Iterator[Neighbour]:
    """Its connection outlives all cases; when they are over, only it is left of what they opened."""
    door = server.child("frontdoor 0")
    neighbour = Neighbour(server.address)
    neighbour.check()
    before = descriptors(door)
    yield neighbour
    neighbour.check()
    until(lambda: server.connections() == [1], f"one connection, but {server.connections()}")
    server.until_idle()
    until(lambda: descriptors(door) == before, "its descriptors")
    assert server.child("frontdoor 0") == door
    assert not server.metrics()["fastqps_restarts_total"]
    neighbour.close()


@pytest.fixture(autouse=True)
def undisturbed(neighbour: Neighbour) -> Iterator[None]:
    """After each case."""
    yield
    neighbour.check()


@pytest.fixture
def peer(server: Server) -> Iterator[Peer]:
    """A fresh connection, past its SETTINGS."""
    with Peer(server.address) as peer:
        yield peer
