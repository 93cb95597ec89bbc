"""Follows the files of an edge's token and certificates: connections that are opened later use what they hold now."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from fastqps.errors import ConfigError
from fastqps.process.credential_files import UpstreamFiles

INTERVAL_S = 5.0
Pem = tuple[bytes, bytes, bytes]


class UpstreamCredentials:
    """Reads ``files`` again and again. ``use`` gets (token, PEM texts) when they have changed.

    Files that are no use change nothing; ``say`` gets a line if that lasts for two looks. They may be written one after
    the other.
    """

    def __init__(
        self, files: UpstreamFiles, use: Callable[[str, Pem | None], None], say: Callable[[str], None]
    ) -> None:
        self._files = files
        self._use = use
        self._say = say
        self._now = files.token(), files.pem()
        self._fault, self._told = "", ""

    def start(self) -> None:
        """Starts the thread, which ends with the process. Without files there is nothing to follow."""
        if any(self._now):
            threading.Thread(target=self._run, name="credentials", daemon=True).start()

    def look(self) -> None:
        """Reads the files once."""
        try:
            credentials = self._files.token(), self._files.pem()
            if credentials != self._now:
                self._use(*credentials)
                self._now = credentials
                self._say("upstreams: connections are opened with the new token and certificates from now on")
            self._fault = self._told = ""
        except (ConfigError, ValueError) as error:  # TlsError is a ValueError
            fault = str(error)
            if fault == self._fault != self._told:
                self._told = fault
                self._say(f"upstreams: the old token and certificates stay in use: {fault}")
            self._fault = fault

    def _run(self) -> None:
        while True:
            time.sleep(INTERVAL_S)
            self.look()
