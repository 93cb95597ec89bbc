"""A client beside the cases of a test, which must notice nothing."""

from __future__ import annotations

from raw import (
    BODY,
    PATH,
    WINDOW_UPDATE,
    Answer,
    Header,
    Peer,
    block,
    check_good,
    frame,
    message,
    request,
    u32,
    whole_call,
)

MESSAGE_BYTES_MAX = 256 << 10
UNIMPLEMENTED = 12


class Neighbour:
    """One connection that asks for one short text at a time. ``headers``: more than a call needs."""

    def __init__(self, address: str, *headers: Header, body: bytes = BODY) -> None:
        self._peer = Peer(address)
        self._head, self._message = block(request(PATH + "Predict", *headers)), message(body)
        self._stream = -1

    def check(self) -> Answer:
        """It is served as ever."""
        self._stream += 2
        self._peer.send(whole_call(self._stream, self._message, self._head))
        answer = self._peer.answer(self._stream)
        check_good(answer)
        self._peer.send(frame(WINDOW_UPDATE, 0, 0, u32(len(answer.data))))
        assert self._peer.goaway is None
        del self._peer.answers[self._stream]
        return answer

    def close(self) -> None:
        self._peer.socket.close()


def until_read(peer: Peer, stream: int) -> None:
    """All that was sent so far has been read: what nobody serves is answered at once, behind it."""
    peer.send(whole_call(stream, message(BODY), block(request(PATH + "Nothing"))))
    assert peer.answer(stream).status == UNIMPLEMENTED
