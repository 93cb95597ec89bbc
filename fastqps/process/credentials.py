"""Certificates and tokens, and the in-memory file by which the supervisor hands them to front doors.

Only front doors and the supervisor have that file. It has two places, of which the newer complete one counts. So a
front door that reads during a write, or starts after the files on disk have become invalid, finds the last valid
credentials.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import os
import struct
from dataclasses import dataclass

_HEAD = struct.Struct("<QQ32s")  # version, bytes that follow, their SHA-256
_PLACE_BYTES = 4 << 20
_SCHEME = "bearer "


@dataclass(frozen=True)
class Credentials:
    """Texts are the contents of PEM files, byte for byte as Latin-1."""

    certificate: str = ""  # empty: connections are not encrypted
    key: str = dataclasses.field(default="", repr=False)
    client_ca: str = ""  # empty: clients need no certificate
    tokens: tuple[str, ...] = dataclasses.field(default=(), repr=False)  # SHA-256 in hex; empty: calls need none

    def admits(self, authorization: str) -> bool:
        """Whether a call with this authorization header is allowed. The time it takes does not depend on the token."""
        if not self.tokens:
            return True
        if authorization[: len(_SCHEME)].lower() != _SCHEME:
            return False
        found = digest(authorization[len(_SCHEME) :].lstrip(" ").encode("utf-8", "surrogateescape"))
        good = False
        for token in self.tokens:  # compare all of them, even after a match
            good |= hmac.compare_digest(found, token)
        return good


def digest(token: bytes) -> str:
    """The digest of a token, which is stored instead of the token."""
    return hashlib.sha256(token).hexdigest()


class Vault:
    """The in-memory file. One process writes it, any number read it."""

    def __init__(self, fd: int | None = None) -> None:
        """Opens the file of an inherited descriptor, or makes a new one."""
        self.fd = os.memfd_create("fastqps-credentials", os.MFD_CLOEXEC) if fd is None else fd

    def write(self, version: int, credentials: Credentials) -> None:
        """``version``: higher than all before, from 1."""
        data = json.dumps(dataclasses.asdict(credentials)).encode()
        if _HEAD.size + len(data) > _PLACE_BYTES:
            raise ValueError(f"{len(data)} bytes of certificates and tokens are more than {_PLACE_BYTES}")
        at = version % 2 * _PLACE_BYTES
        os.pwrite(self.fd, data, at + _HEAD.size)
        os.pwrite(self.fd, _HEAD.pack(version, len(data), hashlib.sha256(data).digest()), at)

    def version(self) -> int:
        """The newest version, possibly still being written."""
        return max(self._head(place)[0] for place in (0, 1))

    def read(self) -> tuple[int, Credentials]:
        """Returns (version, credentials) of the newest complete version."""
        for place in sorted((0, 1), key=lambda place: self._head(place)[0], reverse=True):
            version, size, checksum = self._head(place)
            data = os.pread(self.fd, min(size, _PLACE_BYTES), place * _PLACE_BYTES + _HEAD.size)
            if version and hashlib.sha256(data).digest() == checksum:
                found = json.loads(data)
                return version, Credentials(**{**found, "tokens": tuple(found["tokens"])})
        raise ValueError("no credentials have been written")

    def _head(self, place: int) -> tuple[int, int, bytes]:
        found = os.pread(self.fd, _HEAD.size, place * _PLACE_BYTES)
        return _HEAD.unpack(found.ljust(_HEAD.size, b"\0"))
