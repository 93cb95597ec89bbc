"""Reads and checks the files of the TLS flags and of ``--auth-token-file``, and warns where they are missing."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from dataclasses import dataclass

from fastqps.config import Config
from fastqps.errors import ConfigError
from fastqps.process.credentials import Credentials, digest, read_credential, read_tokens

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
        found = read_tokens("--auth-token-file", self.auth_token_file) if self.auth_token_file else ()
        tokens = tuple(map(digest, found))
        if not self.tls_cert:
            return Credentials(tokens=tokens), 0.0
        pem = {part: self._text(flag) for part, flag in _PARTS.items()}
        return Credentials(**pem, tokens=tokens), self._expires_s(pem)

    def _text(self, flag: str) -> str:
        path = getattr(self, flag)
        return read_credential(f"--{flag.replace('_', '-')}", path).decode("latin-1") if path else ""

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


def exposures(config: Config) -> Iterator[str]:
    """Returns a line for each missing protection. There is none if only this machine can reach the server."""
    if not is_loopback(config.host):
        if not config.tls_cert:
            yield f"--host {config.host}: calls are not encrypted; --tls-cert and --tls-key encrypt them"
        if not config.auth_token_file and not config.tls_client_ca:
            yield f"--host {config.host}: whoever can reach it may call; --auth-token-file or --tls-client-ca limit it"
    if not is_loopback(config.admin_host):
        given = (
            "what it is asked and its tokens are not encrypted"
            if config.auth_token_file
            else ("whoever can reach it may ask it; --auth-token-file changes that for all but reading")
        )
        yield f"--admin-host {config.admin_host}: {given}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host. A name that may be public counts as public."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
