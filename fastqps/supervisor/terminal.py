"""Distinguishes the SIGHUP of a closed terminal, which ends the server, from a request to reload."""

from __future__ import annotations

import os


class Terminal:
    """The terminal from which the server was started, if any."""

    def __init__(self) -> None:
        self._had = _is_there()

    def lost(self) -> bool:
        """Whether the terminal has closed since the last call, which explains a SIGHUP."""
        if not self._had or _is_there():
            return False
        self._had = False
        return True


def _is_there() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
