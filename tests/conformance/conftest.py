"""One server for all cases of a module, with dispatchers that can be told to take their time; after each case its
neighbours are asked whether they noticed anything, and at the end nothing may be left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from raw import BODY, PATH, WINDOW_UPDATE, Peer, block, check_good, frame, message, request, u32, whole_call
from serving import Server, descriptors, until

MESSAGE_BYTES_MAX = 256 << 10
UNIMPLEMENTED = 12


class Neighbour:
    """Another client's connection, older than all cases."""

    def __init__(self, address: str) -> None:
        self._peer = Peer(address)
        self._stream = -1

    def check(self) -> None:
        """It is served as ever."""
        self._stream += 2
        answer = self._peer.call(self._stream)
        check_good(answer)
        self._peer.send(frame(WINDOW_UPDATE, 0, 0, u32(len(answer.data))))
        assert self._peer.goaway is None
        del self._peer.answers[self._stream]

    def close(self) -> None:
        self._peer.socket.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One front door, two dispatchers."""
    flags = ("--frontdoors=1", "--dispatchers=2", f"--max-message-bytes={MESSAGE_BYTES_MAX}", "--max-batch-items=4")
    server = Server(*flags, echo=True)
    try:
        yield server
        server.stop()
    finally:
        server.kill()


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


def until_read(peer: Peer, stream: int) -> None:
    """All that was sent so far has been read: what nobody serves is answered at once, behind it."""
    peer.send(whole_call(stream, message(BODY), block(request(PATH + "Nothing"))))
    assert peer.answer(stream).status == UNIMPLEMENTED
