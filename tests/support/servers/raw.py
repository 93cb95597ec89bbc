"""An HTTP/2 client made of single frames, right or wrong, and what the server said to them."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from hpack import Decoder, Encoder
from serving import PATIENCE_S

from fastqps.v1 import predict_pb2 as pb

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
ALTSVC, PRIORITY_UPDATE, UNKNOWN = 0x0A, 0x10, 0x42
ES = ACK = 0x1
EH, PADDED, PRIORITY_FLAG = 0x4, 0x8, 0x20
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = range(4)
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR = 5, 6, 7, 8, 9
ENHANCE_YOUR_CALM = 11
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WINDOW_MAX = 0x7FFFFFFF
ANSWER_HEADERS_MAX = 3584  # nginx answers 502 above 4 KiB

Header = tuple[str | bytes, str | bytes]
PATH = "/fastqps.v1.PredictService/"
WATCH = "/grpc.health.v1.Health/Watch"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def setting(name: int, value: int) -> bytes:
    return struct.pack(">HI", name, value)


def u32(value: int) -> bytes:
    return struct.pack(">I", value)


def message(body: bytes, flag: int = 0, length: int | None = None) -> bytes:
    """gRPC's framing."""
    return struct.pack(">BI", flag, len(body) if length is None else length) + body


def request(path: str = PATH + "Predict", *more: Header, without: Sequence[str] = (), **instead: str) -> list[Header]:
    """The headers of a call. ``without``: names to leave out; ``instead``: other values, ``content_type`` for
    content-type and ``method`` for :method."""
    usual: list[Header] = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ]
    named = {str(name).lstrip(":").replace("-", "_"): name for name, _ in usual}
    changed = {named[key]: value for key, value in instead.items()}
    return [(name, changed.get(name, value)) for name, value in usual if name not in without] + list(more)


def block(headers: Iterable[Header]) -> bytes:
    """Literals that the server's table does not keep: right at any place of a connection."""
    out = bytearray()
    for name, value in headers:
        out += b"\x00"
        for text in (name, value):
            data = text if isinstance(text, bytes) else text.encode()
            out += integer(len(data), 7) + data
    return bytes(out)


def integer(value: int, bits: int, first: int = 0) -> bytes:
    """HPACK's, with the first byte's other bits."""
    limit = (1 << bits) - 1
    if value < limit:
        return bytes([first | value])
    out, value = bytearray([first | limit]), value - limit
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


BLOCK = block(request())
INDEXED_BLOCK = Encoder().encode(request())
BODY = pb.PredictRequest(text="a short text", request_id=7).SerializeToString()


def whole_call(stream: int, data: bytes, head: bytes = BLOCK) -> bytes:
    """A unary call: its header block, and its framed message as the last that the client says."""
    return frame(HEADERS, EH, stream, head) + frame(DATA, ES, stream, data)


@dataclass
class Answer:
    """What came on one stream."""

    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    trailers: list[tuple[bytes, bytes]] = field(default_factory=list)
    data: bytes = field(default=b"", repr=False)
    blocks: int = 0
    ended: bool = False
    reset: int | None = None
    ended_at: float = 0.0
    reset_at: float = 0.0

    def all(self, name: str) -> list[str]:
        return [value.decode() for key, value in self.headers + self.trailers if key == name.encode()]

    def one(self, name: str) -> str | None:
        found = self.all(name)
        assert len(found) < 2, f"{name}: {found}"
        return found[0] if found else None

    @property
    def http(self) -> int:
        return int(self.one(":status") or 0)

    @property
    def status(self) -> int | None:
        value = self.one("grpc-status")
        return None if value is None else int(value)

    @property
    def text(self) -> str:
        """grpc-message; fails where that is not UTF-8 in percent-encoding."""
        value = self.one("grpc-message") or ""
        assert all(0x20 <= ord(c) <= 0x7E for c in value), value
        return unquote_to_bytes(value).decode()

    @property
    def messages(self) -> list[bytes]:
        out, rest = [], self.data
        while rest:
            flag, length = struct.unpack(">BI", rest[:5])
            assert flag == 0 and len(rest) >= 5 + length
            out.append(rest[5 : 5 + length])
            rest = rest[5 + length :]
        return out


class Peer:
    """One connection. Everything that arrives is kept: ``answers`` by stream, and what concerns the connection."""

    def __init__(self, address: str, *settings: bytes, hello: bytes | None = None) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers: dict[int, Answer] = {}
        self.goaway: int | None = None
        self.goaway_text = b""
        self.settings: dict[int, int] = {}
        self.settings_acked = 0
        self.pings_acked: list[bytes] = []
        self.closed = False
        self.connection_window = 65535
        self.windows: dict[int, int] = {}
        self.sent_streams: dict[int, None] = {}  # in the order of their HEADERS
        self._decoder = Decoder()
        self._decoder.max_header_list_size = 1 << 20
        self._unread = b""
        self._headers = b""
        if hello is None:
            self.send(PREFACE + frame(SETTINGS, 0, 0, b"".join(settings)))
            self.until(lambda: bool(self.settings), "the server's SETTINGS")
            self.send(frame(SETTINGS, ACK, 0))
        else:
            self.send(hello)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def abort(self) -> None:
        """Closes with a TCP reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    # ---- sending

    def send(self, *parts: bytes) -> None:
        for part in parts:
            if part[3:4] == bytes([HEADERS]):
                self.sent_streams[int.from_bytes(part[5:9], "big")] = None
        try:
            self.socket.settimeout(PATIENCE_S)  # reading leaves a shorter one
            self.socket.sendall(b"".join(parts))
        except (BrokenPipeError, ConnectionResetError):
            self.closed = True  # what the server said before can still be read

    def send_data(self, stream: int, data: bytes, flags: int = ES) -> None:
        """As much at a time as the server's windows allow."""
        while data:
            self.until(lambda: self.window(stream) > 0 or self.stopped(stream), "a window")
            if self.stopped(stream):
                return
            size = min(len(data), 16384, self.window(stream))
            part, data = data[:size], data[size:]
            self.send(frame(DATA, 0 if data else flags, stream, part))
            self.windows[stream] = self.windows.get(stream, 0) - size
            self.connection_window -= size

    def window(self, stream: int) -> int:
        return min(self.connection_window, self.settings.get(4, 65535) + self.windows.get(stream, 0))

    def stopped(self, stream: int) -> bool:
        answer = self.answers.get(stream, Answer())
        return self.closed or answer.ended or answer.reset is not None

    def call(self, stream: int, body: bytes = BODY, headers: Sequence[Header] | None = None) -> Answer:
        """A whole unary call and its answer."""
        self.send(frame(HEADERS, EH, stream, BLOCK if headers is None else block(headers)))
        self.send_data(stream, message(body))
        return self.answer(stream)

    # ---- receiving

    def until(self, condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Reads until the condition holds or the connection has ended."""
        limit = time.monotonic() + timeout_s
        while not condition() and self.read(limit):
            pass
        assert condition() or self.closed, f"not within {timeout_s} s: {what}; {self}"

    def read(self, limit: float) -> bool:
        """What has arrived, or arrives first. False: nothing before ``limit`` (a time), or the end."""
        try:
            self.socket.settimeout(max(limit - time.monotonic(), 0.001))
            data = self.socket.recv(1 << 16)
        except TimeoutError:
            return False
        except OSError:
            data = b""
        if not data:
            self.closed = True
            return False
        self._unread += data
        while len(self._unread) >= 9:
            size = int.from_bytes(self._unread[:3], "big")
            if len(self._unread) < 9 + size:
                break
            kind, flags, stream = struct.unpack(">BBI", self._unread[3:9])
            payload, self._unread = self._unread[9 : 9 + size], self._unread[9 + size :]
            self._take(kind, flags, stream, payload)
        return True

    def linger(self, seconds: float) -> None:
        """Reads for a while."""
        limit = time.monotonic() + seconds
        while self.read(limit):
            pass

    def answer(self, stream: int, timeout_s: float = PATIENCE_S) -> Answer:
        """The stream's answer, when it is complete."""
        self.until(lambda: self.stopped(stream), f"the end of stream {stream}", timeout_s)
        return self.answers.get(stream, Answer())

    def end(self, timeout_s: float = PATIENCE_S) -> int | None:
        """Reads to the end of the connection; GOAWAY's code, or None."""
        self.until(lambda: False, "the end of the connection", timeout_s) if not self.closed else None
        self.linger(0.2)
        return self.goaway

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        answer = self.answers.setdefault(stream, Answer()) if stream and kind != WINDOW_UPDATE else Answer()
        if stream and kind in (DATA, HEADERS, RST_STREAM):
            assert answer.reset is None, f"frame {kind} after RST_STREAM on stream {stream}"
            assert kind == RST_STREAM or not answer.ended, f"frame {kind} after END_STREAM on stream {stream}"
        match kind:
            case 0:
                answer.data += payload
            case 1:
                self._headers = payload
            case 9:
                self._headers += payload
            case 3:
                answer.reset, answer.reset_at = int.from_bytes(payload, "big"), time.monotonic()
            case 4 if flags & ACK:
                self.settings_acked += 1
            case 4:
                for at in range(0, len(payload), 6):
                    name, value = struct.unpack(">HI", payload[at : at + 6])
                    self.settings[name] = value
            case 6 if flags & ACK:
                self.pings_acked.append(payload)
            case 7:
                self.goaway, self.goaway_text = int.from_bytes(payload[4:8], "big"), payload[8:]
            case 8 if stream:
                self.windows[stream] = self.windows.get(stream, 0) + int.from_bytes(payload, "big")
            case 8:
                self.connection_window += int.from_bytes(payload, "big")
        if kind in (HEADERS, CONTINUATION) and flags & EH:
            assert len(self._headers) <= ANSWER_HEADERS_MAX
            decoded = [(bytes(name), bytes(value)) for name, value in self._decoder.decode(self._headers, raw=True)]
            assert answer.blocks < 2
            answer.blocks += 1
            (answer.headers if answer.blocks == 1 else answer.trailers).extend(decoded)
        if kind in (DATA, HEADERS) and flags & ES:
            assert any(name == b"grpc-status" for name, _ in answer.headers + answer.trailers)
            answer.ended, answer.ended_at = True, time.monotonic()

    def __str__(self) -> str:
        return f"goaway {self.goaway} {self.goaway_text!r}, closed {self.closed}, {self.answers}"


def check_good(answer: Answer, request_id: int = 7) -> pb.PredictResponse:
    """The answer of a Predict that succeeded: in full, once."""
    assert (answer.http, answer.status, answer.reset) == (200, 0, None), answer
    assert answer.blocks == 2 and answer.ended
    assert answer.one("content-type") == "application/grpc"
    (body,) = answer.messages
    response = pb.PredictResponse.FromString(body)
    assert response.request_id == request_id
    assert response.usage.input_tokens
    return response
