"""Reloads certificates and tokens when their files change. Invalid files are ignored."""

from __future__ import annotations

import asyncio
import datetime

from fastqps.errors import ConfigError
from fastqps.process.background import UnexpectedError, in_background
from fastqps.process.credentials import Credentials, Vault
from fastqps.supervisor.credentials.files import CredentialFiles
from fastqps.supervisor.log import Log

LOOK_S = 0.5
# Files that are written one after another do not match for a moment. An error is reported only if it lasts.
COMPLAIN_AFTER_S = 2.0


class CredentialWatch:
    """Holds what is in force: ``now``, and ``expires_s`` of the certificate, 0 without TLS.

    Reads the files at construction. Raises ``ConfigError`` if they are invalid.
    """

    def __init__(self, files: CredentialFiles) -> None:
        self._files = files
        self._state = files.state()  # taken before reading, so that a change meanwhile is noticed
        self.now, self.expires_s = files.read()
        self.vault = Vault()
        self._version = 1
        self.vault.write(self._version, self.now)
        self.reloads = {"ok": 0, "failed": 0}  # of the TLS files
        self._coming: tuple[Credentials, float] | None = None  # new contents that the next look must confirm
        self._complaint = ""
        self._failing_since: float | None = None
        self._blind = ""  # why the last look failed

    @property
    def refused(self) -> dict[str, bool]:
        """For each kind of credential in use: whether its files are invalid, so that the old ones stay in force."""
        kinds = (("tls", self._files.tls_cert, "--tls"), ("tokens", self._files.auth_token_file, "--auth-token-file"))
        return {kind: self._complaint.startswith(flag) for kind, path, flag in kinds if path}

    async def run(self, log: Log) -> None:
        """Until cancelled."""
        while self._files:
            await asyncio.sleep(LOOK_S)
            await self.look(log)

    async def look(self, log: Log) -> None:
        """Reads the files if they have changed. No error here ends the server."""
        try:
            await self._look(log)
            self._blind = ""
        except ConfigError as error:
            self._failed(str(error), log)
        except UnexpectedError as error:  # the machine's fault, not that of the files
            if str(error) != self._blind:
                self._blind = str(error)
                log.warning(f"cannot look whether certificates or tokens have changed: {error}")

    async def _look(self, log: Log) -> None:
        """New contents are in use when two looks in a row find the same: a file that is written in place is whole at
        its end only, and half of a token, or of a chain, looks whole too.
        """
        state = await in_background(self._files.state)  # on a thread, because a file system may hang
        if state == self._state:
            self._coming, self._failing_since, self._complaint = None, None, ""
            return
        before, self._coming = self._coming, None
        found = await in_background(self._files.read)
        self._failing_since, self._complaint = None, ""
        if found != before:
            self._coming = found
            return
        self._state = state
        self._take(*found, log)

    def _take(self, found: Credentials, expires_s: float, log: Log) -> None:
        before, self.now = self.now, found
        self.expires_s = expires_s
        if found == before:
            return
        self._version += 1
        self.vault.write(self._version, found)
        if (found.certificate, found.key, found.client_ca) != (before.certificate, before.key, before.client_ca):
            self.reloads["ok"] += 1
            log.info(f"TLS files have changed and are in use; the certificate expires {day(expires_s)}")
        if found.tokens != before.tokens:
            log.info(f"--auth-token-file has changed and is in use; tokens: {len(found.tokens)}")

    def _failed(self, why: str, log: Log) -> None:
        now = asyncio.get_running_loop().time()
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since < COMPLAIN_AFTER_S or why == self._complaint:
            return
        self._complaint = why
        if why.startswith("--tls"):
            self.reloads["failed"] += 1
        log.warning(f"{why}; what was in use before stays in use")


def day(seconds: float) -> str:
    """Formats a time in seconds since 1970."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("on %Y-%m-%d at %H:%M UTC")
