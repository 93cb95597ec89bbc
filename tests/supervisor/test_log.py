"""The server's log: whole lines, and never a wait for its reader."""

from __future__ import annotations

import contextlib
import os

from serving import until

from fastqps.supervisor.log import LINES_WAITING_MAX, Log
from fastqps.terminal import LINE_CHARS_MAX


def test_nobody_reads_the_log() -> None:
    reader, writer = os.pipe()
    log = Log(writer)
    for i in range(3 * LINES_WAITING_MAX):
        log.event("test", f"{i} {'x' * 100}")  # far more than the pipe holds: it must not block
    lines = os.read(reader, 1 << 16).decode().splitlines()
    assert [line.split(" ")[2] for line in lines[:3]] == ["0", "1", "2"]
    os.set_blocking(reader, False)
    text = b""

    def read_all() -> bool:
        nonlocal text
        with contextlib.suppress(BlockingIOError):
            while data := os.read(reader, 1 << 16):
                text += data
        log.event("test", "after")
        return b"test: after" in text

    until(read_all, lambda: text[-200:].decode())
    assert b"log lines were dropped" in text
    log.close()


def test_a_line_of_the_log_is_one_line() -> None:
    """Whatever a client has made part of it, a path to reload for example."""
    reader, writer = os.pipe()
    log = Log(writer)
    log.event("test", "from /a\n09:00 supervisor: ready\x1b[2J\x9b\ttab é")
    log.event("test", "x" * 1_000_000)
    log.close()
    os.close(writer)
    with open(reader, encoding="utf-8", newline="") as stream:
        first, second = stream.read().splitlines()
    assert first.endswith("test: from /a\\n09:00 supervisor: ready\\x1b[2J\\x9b\\ttab é")
    assert second.endswith("x…") and len(second) < LINE_CHARS_MAX + 30
