"""Logs one line per event on stderr: time, role, event. A reader that stalls never stalls the server."""

from __future__ import annotations

import datetime
import os
import queue
import threading

from fastqps.terminal import shown

STDERR = 2
LINES_WAITING_MAX = 4096
FLUSH_S = 2.0


class Log:
    """Writes on its own thread. While stderr is blocked, lines beyond a limit are dropped and counted."""

    def __init__(self, fd: int = STDERR) -> None:
        self._fd = fd
        self._lines: queue.Queue[str | None] = queue.Queue(LINES_WAITING_MAX)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def event(self, role: str, text: str) -> None:
        """Logs one line. Never blocks."""
        now = datetime.datetime.now().strftime("%H:%M:%S.%f")[:-3]
        line = f"{now} {role}: {shown(text)}\n"
        try:
            if self._dropped:
                self._lines.put_nowait(f"{now} supervisor: {self._dropped} log lines were dropped\n")
                self._dropped = 0
            self._lines.put_nowait(line)
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """Waits until all lines are written, at most FLUSH_S."""
        try:
            self._lines.put(None, timeout=FLUSH_S)
        except queue.Full:
            return
        self._thread.join(FLUSH_S)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            data = line.encode(errors="backslashreplace")
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            except OSError:
                continue  # stderr is closed: no reason to stop serving
