"""Reads PEM files and files of tokens, which anything may have been mounted as."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fastqps.errors import ConfigError
from fastqps.files.regular import read_regular

FILE_BYTES_MAX = 256 << 10
BUNDLE_BYTES_MAX = 2 << 20  # of authorities: a system's has 220 KiB
TOKENS_MAX = 1024
TOKEN_LENGTHS = range(16, 4097)
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/=-]+")  # the characters of a token in RFC 6750


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
