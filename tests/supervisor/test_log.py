"""The server's log: whole lines, and never a wait for its reader."""

from __future__ import annotations

import contextlib
import os
import re

import pytest
from serving import until

from fastqps.supervisor.log import LINES_WAITING_MAX, Log
from fastqps.terminal import LINE_CHARS_MAX, Level, Write, as_json, plainly, say, say_to, to_supervisor

TIME = r"\d\d:\d\d:\d\d\.\d{3}"
DATE = rf"\d{{4}}-\d\d-\d\dT{TIME}[+-]\d\d:\d\d"


def test_nobody_reads_the_log() -> None:
    reader, writer = os.pipe()
    log = Log(writer)
    for i in range(3 * LINES_WAITING_MAX):
        log.event("test", f"{i} {'x' * 100}")  # far more than the pipe holds: it must not block
    lines = os.read(reader, 1 << 16).decode().splitlines()
    assert [line.split(" ")[3] for line in lines[:3]] == ["0", "1", "2"]
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
    assert second.endswith("x…") and len(second) < LINE_CHARS_MAX + 60


@pytest.mark.parametrize(
    ("form", "level", "expected"),
    [
        ("text", Level.INFO, [f"{DATE} INFO door: a", f"{DATE} WARNING door: b", f"{DATE} ERROR supervisor: c",
                              f"{DATE} INFO access: Predict status=OK items=2"]),
        ("text", Level.WARNING, [f"{DATE} WARNING door: b", f"{DATE} ERROR supervisor: c",
                                 f"{DATE} INFO access: Predict status=OK items=2"]),
        ("terminal", Level.INFO, [f"{TIME} door: a", f"{TIME} door: warning: b", f"{TIME} supervisor: error: c",
                                  f"{TIME} access: Predict status=OK items=2"]),
        ("json", Level.ERROR, [f'{{"time": "{DATE}", "level": "error", "process": "supervisor", "message": "c"}}',
                               f'{{"time": "{DATE}", "level": "info", "process": "access", "message": "Predict", '
                               '"status": "OK", "items": 2}']),
    ],
)  # fmt: skip
def test_forms_and_levels(form: str, level: Level, expected: list[str]) -> None:
    """``terminal``: the text form, whose reader is one."""
    reader, writer = os.openpty() if form == "terminal" else os.pipe()
    log = Log(writer, form.replace("terminal", "text"), level)
    log.output("door", "<6>a")
    log.output("door", "b")  # of native code
    log.error("c")
    log.access("Predict", {"status": "OK", "items": 2})
    log.close()
    lines = os.read(reader, 1 << 16).decode().splitlines()
    assert len(lines) == len(expected)
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern, line), line
    os.close(writer), os.close(reader)


@pytest.mark.parametrize(("write", "said"), [(plainly, "warning: x"), (to_supervisor, "<4>x"), (as_json, DATE)])
def test_what_a_process_says(write: Write, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = say_to(write)
    try:
        say("x", Level.WARNING)
    finally:
        assert say_to(before) is write
    assert re.search(said, capsys.readouterr().err)
