"""Certificates and tokens: their files, as which anything may have been mounted, and the in-memory file by which the
supervisor hands them to front doors.

Only front doors and the supervisor have the latter. It has two places, of which the newer complete one counts. So a
front door that reads during a write, or starts after the files on disk have become invalid, finds the last valid
credentials.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import os
import re
import struct
from dataclasses import dataclass

from fastqps.errors import ConfigError
from fastqps.files.regular import read_regular

_HEAD = struct.Struct("<QQ32s")  # version, bytes that follow, their SHA-256
_PLACE_BYTES = 4 << 20
_SCHEME = "bearer "
FILE_BYTES_MAX = 256 << 10
BUNDLE_BYTES_MAX = 2 << 20  # of authorities: a system's has 220 KiB
TOKENS_MAX = 1024
TOKEN_LENGTHS = range(16, 4097)
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/=-]+")  # the characters of a token in RFC 6750


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


def read_credential(flag: str, path: str, bytes_max: int = FILE_BYTES_MAX) -> bytes:
    """The content of the file of a flag. ``ConfigError`` names both if it cannot be read or is too long."""
    try:
        return read_regular(path, bytes_max)
    except OSError as error:
        raise ConfigError(f"{flag} {path}: cannot be read: {error.strerror}") from None


def read_tokens(flag: str, path: str) -> list[bytes]:
    """One token a line, except empty lines and lines that begin with #; at least one. No message quotes the file."""
    found = []
    for number, line in enumerate(read_credential(flag, path).splitlines(), 1):
        token = line.strip()
        if not token or token.startswith(b"#"):
            continue
        where = f"{flag} {path}: line {number}"
        if not _TOKEN.fullmatch(token):
            raise ConfigError(f"{where}: a token consists of letters, digits and ._~+/=-")
        if len(token) not in TOKEN_LENGTHS:
            raise ConfigError(
                f"{where}: a token of {len(token)} characters; {TOKEN_LENGTHS[0]} to {TOKEN_LENGTHS[-1]} are allowed"
            )
        found.append(token)
    if not found:
        raise ConfigError(f"{flag} {path}: it holds no token")
    if len(found) > TOKENS_MAX:
        raise ConfigError(f"{flag} {path}: {len(found)} tokens; at most {TOKENS_MAX} are allowed")
    return found


@dataclass(frozen=True)
class UpstreamFiles:
    """The paths of the files by which an edge and its upstreams know each other; empty for a flag that is not set."""

    tls_ca: str  # empty: connections are not encrypted
    tls_cert: str
    tls_key: str
    token_file: str

    def token(self) -> str:
        """The token to send, the first of the file; "": none. Raises ``ConfigError``."""
        return read_tokens("--upstream-token-file", self.token_file)[0].decode() if self.token_file else ""

    def pem(self) -> tuple[bytes, bytes, bytes] | None:
        """(authorities, certificate, key), the last two possibly empty; None: no TLS. Raises ``ConfigError``."""
        if not self.tls_ca:
            return None
        ca = read_credential("--upstream-tls-ca", self.tls_ca, BUNDLE_BYTES_MAX)
        if not self.tls_cert:
            return ca, b"", b""
        cert = read_credential("--upstream-tls-cert", self.tls_cert)
        return ca, cert, read_credential("--upstream-tls-key", self.tls_key)

    @property
    def tls_flags(self) -> str:
        """The flags of the PEM files, for what is wrong with one of them."""
        given = {"ca": self.tls_ca, "cert": self.tls_cert, "key": self.tls_key}
        return ", ".join(f"--upstream-tls-{name} {path}" for name, path in given.items() if path)
