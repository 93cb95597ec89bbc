"""Tells a SIGHUP of a closed terminal, which ends the server, from one that asks for a reload."""

from __future__ import annotations

import os


class Terminal:
    """The one that the server was started from, if any."""

    def __init__(self) -> None:
        self._had = _is_there()

    def lost(self) -> bool:
        """Whether it has gone since it was last asked: then a SIGHUP was about that."""
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
