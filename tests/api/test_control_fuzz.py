"""Random bytes into what Python parses of clients: heads of the admin port, and reflection.

FASTQPS_FUZZ_CONTROL=1000000 sets how many (`make fuzz-control`).
"""

from __future__ import annotations

import os
import random

import pytest

from fastqps.admin.http import BODY_BYTES_MAX, ONCE, Refused, parse_head
from fastqps.api import reflection
from fastqps.api.reflection import SERVICES, Version

pytestmark = [pytest.mark.compute, pytest.mark.timeout(0)]
INPUTS = int(os.environ.get("FASTQPS_FUZZ_CONTROL", "5000"))
HEADS = [
    "GET /livez HTTP/1.1\r\nhost: localhost:9464\r\naccept: */*",
    "POST /reload HTTP/1.1\r\ncontent-length: 70000",
    "POST /reload HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\nauthorization: Bearer abc\r\norigin: http://y",
    "GET /metrics?x=1 HTTP/1.0\r\nconnection: keep-alive\r\ntransfer-encoding: chunked",
]
PIECES = ["\r\n", "\n", "\r", "\0", ":", " ", "\t", "\x7f", "\xff", "content-length", "host: a", "-1", "9" * 30, "HTTP"]
SYMBOLS = [*(service.encode() for service in SERVICES), b"fastqps.v1.PredictRequest", b"proto/fastqps/v1/predict.proto"]
ANSWER_BYTES_MAX = 256 << 10


def changed(chance: random.Random, text: str) -> str:
    """With a few pieces put in, taken out or doubled."""
    for _ in range(chance.randrange(5)):
        at, end = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        match chance.randrange(4):
            case 0:
                text = text[:at] + chance.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[min(end, at + 10) :]
            case 2:
                text = text[:end] + text[at:]
            case 3:
                text = text[:at] + chr(chance.randrange(256)) + text[at:]
    return text


def test_heads() -> None:
    """One is a request without a control character and with a body of known length, or refused."""
    chance, accepted, statuses = random.Random(11), 0, set[int]()
    for _ in range(INPUTS):
        head = changed(chance, chance.choice(HEADS))
        try:
            request, length = parse_head(head)
        except Refused as refused:
            statuses.add(refused.answer.status)
            continue
        accepted += 1
        assert 0 <= length <= BODY_BYTES_MAX
        lines = head.split("\r\n")
        assert not any((c < " " and c != "\t") or c == "\x7f" for line in lines for c in line), repr(head)
        assert all(name == name.strip().lower() and name for name in request.headers)
        for name in ONCE:
            assert sum(line.lower().startswith(name + ":") for line in lines[1:]) <= 1, repr(head)
    assert statuses == {400, 411, 413} and INPUTS // 10 < accepted < INPUTS


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection(version: Version) -> None:
    """Each question has an answer of bounded length, whatever it is."""
    chance, found = random.Random(12), 0
    for _ in range(INPUTS // 2):
        name = chance.choice(SYMBOLS) if chance.random() < 0.7 else chance.randbytes(chance.randrange(120))
        question = bytes([chance.choice((0x0A, 0x1A, 0x22, 0x2A, 0x32, 0x3A)), len(name)]) + name
        if chance.random() < 0.5:
            at = chance.randrange(len(question) + 1)
            question = question[:at] + chance.randbytes(chance.randrange(8)) + question[at + chance.randrange(3) :]
        answer = reflection.answer(question, version)
        assert 0 < len(answer) < ANSWER_BYTES_MAX
        found += len(answer) > 1000
    assert found
