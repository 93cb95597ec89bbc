"""Tells a front door's loop who may come in, and again when the supervisor has new certificates or tokens."""

from __future__ import annotations

import time
from typing import Protocol

from fastqps.process.credentials import Credentials, Vault

LOOK_S = 0.25


class Door(Protocol):
    """The receiver of new credentials."""

    def set_tls(self, certificate: bytes, key: bytes, client_ca: bytes) -> None:
        """Sets the certificates of connections that are accepted from now on."""

    def set_tokens(self, digests: list[bytes]) -> None:
        """For calls from now on."""


class Entry:
    """Tells the door at once what holds; ``watch`` tells it what follows."""

    def __init__(self, door: Door, vault: Vault) -> None:
        self._door = door
        self._vault = vault
        self._version, self._told = vault.read()
        self._tell(self._told, Credentials())

    def watch(self) -> None:
        """Without end, in a thread of its own."""
        while True:
            time.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Once."""
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
