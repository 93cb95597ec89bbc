"""The server's log on stderr: one line per event. A reader that stalls never stalls the server."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Mapping
from typing import Any

from fastqps.terminal import Level, leveled, log_line

STDERR = 2
LINES_WAITING_MAX = 4096
FLUSH_S = 2.0
SUPERVISOR = "supervisor"


class Log:
    """Writes on its own thread. While stderr is blocked, lines beyond a limit are dropped and counted.

    ``form``: "text", which is short on a terminal, or "json". Lines above ``level`` are left out.
    """

    def __init__(self, fd: int = STDERR, form: str = "text", level: Level = Level.INFO) -> None:
        self._fd = fd
        self._form = "short" if form == "text" and os.isatty(fd) else form
        self._level = level
        self._lines: queue.Queue[str | None] = queue.Queue(LINES_WAITING_MAX)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def info(self, text: str) -> None:
        """Logs an event of the supervisor. Never blocks."""
        self.event(SUPERVISOR, text)

    def warning(self, text: str) -> None:
        """The same of one that somebody should look at."""
        self.event(SUPERVISOR, text, Level.WARNING)

    def error(self, text: str) -> None:
        """The same of one that somebody must look at: less is served."""
        self.event(SUPERVISOR, text, Level.ERROR)

    def access(self, method: str, fields: Mapping[str, Any]) -> None:
        """Logs a call of a client, whatever the level: these lines are asked for by themselves. Never blocks."""
        self._log(Level.INFO, "access", method, fields)

    def output(self, process: str, line: str) -> None:
        """Logs a line that a child process has written. Never blocks."""
        level, text = leveled(line)
        self.event(process, text, level)

    def event(self, process: str, text: str, level: Level = Level.INFO, **fields: Any) -> None:
        """Logs one line. ``fields``: what it says beside the text. Never blocks."""
        if level <= self._level:
            self._log(level, process, text, fields)

    def close(self) -> None:
        """Waits until all lines are written, at most FLUSH_S."""
        try:
            self._lines.put(None, timeout=FLUSH_S)
        except queue.Full:
            return
        self._thread.join(FLUSH_S)

    def _log(self, level: Level, process: str, text: str, fields: Mapping[str, Any]) -> None:
        try:
            if self._dropped:
                self._put(Level.WARNING, SUPERVISOR, f"{self._dropped} log lines were dropped", {})
                self._dropped = 0
            self._put(level, process, text, fields)
        except queue.Full:
            self._dropped += 1

    def _put(self, level: Level, process: str, text: str, fields: Mapping[str, Any]) -> None:
        self._lines.put_nowait(f"{log_line(self._form, level, process, text, fields)}\n")

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            data = line.encode(errors="backslashreplace")
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            except OSError:
                continue  # stderr is closed: no reason to stop serving
