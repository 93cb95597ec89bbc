"""Lines on a terminal or in a log, with text from outside: files, requests, other servers."""

from __future__ import annotations

import sys

LINE_CHARS_MAX = 4096


def shown(text: str) -> str:
    """The text as one line of at most ``LINE_CHARS_MAX`` characters.

    Characters that add a line, move the cursor, or change how others look are escaped as in Python.
    """
    line = text[:LINE_CHARS_MAX]
    if not line.isprintable():
        line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    fits = len(line) <= LINE_CHARS_MAX and len(text) <= LINE_CHARS_MAX
    return line if fits else f"{line[: LINE_CHARS_MAX - 1]}…"


def say(line: object) -> None:
    """Writes a line to stderr, which is the log where a server runs."""
    print(shown(str(line)), file=sys.stderr, flush=True)
