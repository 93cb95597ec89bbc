"""What the tests of the protocol share: a client beside them that must notice nothing."""

from __future__ import annotations

from raw import BODY, PATH, WINDOW_UPDATE, Peer, block, check_good, frame, message, request, u32, whole_call

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


def until_read(peer: Peer, stream: int) -> None:
    """All that was sent so far has been read: what nobody serves is answered at once, behind it."""
    peer.send(whole_call(stream, message(BODY), block(request(PATH + "Nothing"))))
    assert peer.answer(stream).status == UNIMPLEMENTED
