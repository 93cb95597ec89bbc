"""Reads and checks the files of the TLS flags and of ``--auth-token-file``."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from fastqps.config import Config
from fastqps.errors import ConfigError
from fastqps.process.credentials import Credentials, digest

FILE_BYTES_MAX = 256 << 10
TOKENS_MAX = 1024
TOKEN_LENGTHS = range(16, 4097)
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/=-]+")  # the characters of a token in RFC 6750
_PARTS = {"certificate": "tls_cert", "key": "tls_key", "client_ca": "tls_client_ca"}


@dataclass(frozen=True)
class CredentialFiles:
    """The paths of the credential files; empty for a flag that is not set."""

    tls_cert: str
    tls_key: str
    tls_client_ca: str
    auth_token_file: str

    @staticmethod
    def of(config: Config) -> CredentialFiles:
        """Takes the paths from the flags. Raises ``ConfigError`` if one lacks another."""
        if bool(config.tls_cert) != bool(config.tls_key):
            have, lack = ("--tls-cert", "--tls-key") if config.tls_cert else ("--tls-key", "--tls-cert")
            raise ConfigError(f"{have} needs {lack} too: a certificate and its key")
        if config.tls_client_ca and not config.tls_cert:
            raise ConfigError("--tls-client-ca needs --tls-cert and --tls-key: certificates are shown under TLS")
        return CredentialFiles(config.tls_cert, config.tls_key, config.tls_client_ca, config.auth_token_file)

    def __bool__(self) -> bool:
        return bool(self.tls_cert or self.auth_token_file)

    def state(self) -> tuple[object, ...]:
        """A value that changes with each file and with each link on the way to it. Kubernetes replaces a link."""
        return tuple(_state(path) for path in (self.tls_cert, self.tls_key, self.tls_client_ca, self.auth_token_file))

    def read(self) -> tuple[Credentials, float]:
        """(what the files hold, when the certificate expires in seconds since 1970 or 0 without TLS).

        Raises ``ConfigError`` for what cannot be served with.
        """
        tokens = _tokens(self.auth_token_file) if self.auth_token_file else ()
        if not self.tls_cert:
            return Credentials(tokens=tokens), 0.0
        pem = {part: self._text(flag) for part, flag in _PARTS.items()}
        return Credentials(**pem, tokens=tokens), self._expires_s(pem)

    def _text(self, flag: str) -> str:
        path = getattr(self, flag)
        return _read(flag, path).decode("latin-1") if path else ""

    def _expires_s(self, pem: dict[str, str]) -> float:
        from fastqps._front import TlsError, check_tls  # only here: without TLS this process never needs it

        try:
            return float(check_tls(*(pem[part].encode("latin-1") for part in _PARTS)))
        except TlsError as error:
            part, why = error.args
            flag = _PARTS[part]
            raise ConfigError(f"--{flag.replace('_', '-')} {getattr(self, flag)}: {why}") from None


def _state(path: str) -> object:
    if not path:
        return None
    try:
        found = os.stat(path)
    except OSError as error:
        return error.errno
    return os.path.realpath(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(setting: str, path: str) -> bytes:
    flag = f"--{setting.replace('_', '-')}"
    try:
        with open(path, "rb", opener=_open_at_once) as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{flag} {path}: cannot be read: {error.strerror}") from None
    if data is None or len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{flag} {path}: it is no file of at most {FILE_BYTES_MAX >> 10} KiB")
    return data


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # opening a named pipe would wait for its writer


def _tokens(path: str) -> tuple[str, ...]:
    """Reads one token a line, except empty lines and lines that begin with #. No message quotes the file."""
    found = []
    for number, line in enumerate(_read("auth_token_file", path).splitlines(), 1):
        token = line.strip()
        if not token or token.startswith(b"#"):
            continue
        where = f"--auth-token-file {path}: line {number}"
        if not _TOKEN.fullmatch(token):
            raise ConfigError(f"{where}: a token consists of letters, digits and ._~+/=-")
        if len(token) not in TOKEN_LENGTHS:
            raise ConfigError(
                f"{where}: a token of {len(token)} characters; {TOKEN_LENGTHS[0]} to {TOKEN_LENGTHS[-1]} are allowed"
            )
        found.append(digest(token))
    if not found:
        raise ConfigError(f"--auth-token-file {path}: it holds no token")
    if len(found) > TOKENS_MAX:
        raise ConfigError(f"--auth-token-file {path}: {len(found)} tokens; at most {TOKENS_MAX} are allowed")
    return tuple(found)
