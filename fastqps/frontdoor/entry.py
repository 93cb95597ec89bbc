"""Passes certificates and tokens to a front door's loop, at its start and whenever the supervisor has new ones."""

from __future__ import annotations

import time

from fastqps import _front
from fastqps.process.credentials import Credentials, Vault

LOOK_S = 0.25


class Entry:
    """Passes the current credentials to the door at once, and later ones in ``watch``."""

    def __init__(self, door: _front.Door, vault: Vault) -> None:
        self._door = door
        self._vault = vault
        self._version, self._told = vault.read()
        self._tell(self._told, Credentials())

    def watch(self) -> None:
        """Watches for new credentials for ever. Run it on its own thread."""
        while True:
            time.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Passes new credentials on, if there are any."""
        if self._vault.version() == self._version:
            return
        self._version, found = self._vault.read()
        self._tell(found, self._told)
        self._told = found

    def _tell(self, found: Credentials, before: Credentials) -> None:
        pem = (found.certificate, found.key, found.client_ca)
        if pem != (before.certificate, before.key, before.client_ca):
            self._door.set_tls(*(text.encode("latin-1") for text in pem))
        if found.tokens != before.tokens:
            self._door.set_tokens([bytes.fromhex(token) for token in found.tokens])
