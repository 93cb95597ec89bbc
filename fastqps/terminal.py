"""Lines on a terminal or in a log, with text from outside: files, requests, other servers."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

LINE_CHARS_MAX = 4096


class Level(IntEnum):
    """The levels of log lines, by their numbers in syslog."""

    ERROR = 3
    WARNING = 4
    INFO = 6


def shown(text: str) -> str:
    """The text as one line of at most ``LINE_CHARS_MAX`` characters.

    Characters that add a line, move the cursor, or change how others look are escaped as in Python.
    """
    line = text[:LINE_CHARS_MAX]
    if not line.isprintable():
        line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    fits = len(line) <= LINE_CHARS_MAX and len(text) <= LINE_CHARS_MAX
    return line if fits else f"{line[: LINE_CHARS_MAX - 1]}…"


def log_line(form: str, level: Level, process: str, text: str, fields: Mapping[str, Any] | None = None) -> str:
    """An event as a line of the log. ``form``: "json"; "text"; "short", for a terminal. ``fields``: beside the text."""
    now = datetime.datetime.now().astimezone()
    fields = fields or {}
    if form == "json":
        said = {"time": now.isoformat(timespec="milliseconds"), "level": level.name.lower(), "process": process}
        return json.dumps({**said, "message": shown(text), **fields}, ensure_ascii=False)
    text = " ".join((shown(text), *(f"{name}={value}" for name, value in fields.items())))
    if form == "short":
        warns = f"{level.name.lower()}: " if level < Level.INFO else ""
        return f"{now:%H:%M:%S}.{now.microsecond // 1000:03} {process}: {warns}{text}"
    return f"{now.isoformat(timespec='milliseconds')} {level.name} {process}: {text}"


Write = Callable[[Level, str], None]


def say(line: object, level: Level = Level.INFO) -> None:
    """Writes a line where this process says things: to stderr, unless ``say_to`` has changed that."""
    _write(level, str(line))


def say_to(write: Write) -> Write:
    """Makes ``write`` take what this process says from now on; what did so before."""
    global _write
    before, _write = _write, write
    return before


def plainly(level: Level, line: str) -> None:
    """For people."""
    _print(f"warning: {shown(line)}" if level == Level.WARNING else shown(line))


def as_json(level: Level, line: str) -> None:
    """As a line of the log in JSON, before there is a log."""
    _print(log_line("json", level, "fastqps", line.removeprefix("fastqps: ")))


def to_supervisor(level: Level, line: str) -> None:
    """As ``leveled`` reads it; systemd reads the same."""
    _print(f"<{level}>{shown(line)}")


def leveled(line: str) -> tuple[Level, str]:
    """The level and the text of a child's line. One without a level comes from a library, the interpreter or native
    code, and warns."""
    for level in Level:
        if line.startswith(f"<{level}>"):
            return level, line[3:]
    return Level.WARNING, line


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


_write: Write = plainly
