"""HTTP/1.1 as the admin port speaks it: whole requests and whole answers, everything bounded."""

from __future__ import annotations

import http
import json
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

HEAD_BYTES_MAX = 16 << 10
BODY_BYTES_MAX = 64 << 10  # it is parsed in the supervisor's event loop, in less than a millisecond
CONNECTIONS_MAX = 64
READ_S = 10.0  # for one request, from its first byte
IDLE_S = 60.0  # between requests
ANSWER_S = 60.0
WRITE_S = 10.0
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # a proxy may end a line at some of them, or cut there
ONCE = ("authorization", "content-length", "host")  # two would mean one thing to a proxy, another here


@dataclass(frozen=True)
class Request:
    """One request. Header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """One answer; ``text`` and ``data`` make the usual ones."""

    status: int
    body: bytes
    content_type: str
    allow: str = ""
    challenge: str = ""  # of www-authenticate

    @staticmethod
    def text(status: int, text: str) -> Answer:
        """Plain text, one line."""
        return Answer(status, (text + "\n").encode(), "text/plain; charset=utf-8")

    @staticmethod
    def data(status: int, data: Any) -> Answer:
        """JSON. A path whose bytes are no UTF-8 has lone surrogates in Python: they become escapes, as in JSON."""
        text = json.dumps(data, ensure_ascii=False) + "\n"
        return Answer(status, text.encode(errors="backslashreplace"), "application/json")


Handler = Callable[[Request], Answer | Coroutine[Any, Any, Answer]]


class Refused(Exception):
    """A malformed or too large request, with the answer to it."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.answer = Answer.text(status, reason)


def parse_head(head: str) -> tuple[Request, int]:
    """A request without its body, and how long that is. ``head``: without the empty line at its end."""
    lines = head.split("\r\n")
    if any(_CONTROL.search(line) for line in lines):
        raise Refused(400, "a line of the request's head holds a control character")
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise Refused(400, "not an HTTP/1.1 request; gRPC is served on another port")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise Refused(400, "a header line is malformed")
        name = name.lower()
        if name in headers and name in ONCE:
            raise Refused(400, f"{name} is there twice")
        headers[name] = value.strip()
    if parts[2] == "HTTP/1.0":
        headers["connection"] = "close"
    return Request(parts[0], parts[1].partition("?")[0], headers, b""), _body_length(headers)


def _body_length(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise Refused(411, "send a content-length; chunked bodies are not read")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or len(length) > 10:
        raise Refused(400, "the content-length is malformed")
    if int(length) > BODY_BYTES_MAX:
        raise Refused(413, f"the body is longer than {BODY_BYTES_MAX} bytes")
    return int(length)


def encode(answer: Answer, *, keep: bool, head_only: bool) -> bytes:
    """The bytes of an answer."""
    more = f"allow: {answer.allow}\r\n" if answer.allow else ""
    more += f"www-authenticate: {answer.challenge}\r\n" if answer.challenge else ""
    head = (
        f"HTTP/1.1 {answer.status} {_PHRASES[answer.status]}\r\n"
        f"content-type: {answer.content_type}\r\n"
        f"content-length: {len(answer.body)}\r\n"
        "cache-control: no-store\r\n"
        f"connection: {'keep-alive' if keep else 'close'}\r\n"
        f"{more}\r\n"
    ).encode("latin-1")
    return head if head_only else head + answer.body


_PHRASES = {int(status): status.phrase for status in http.HTTPStatus}
