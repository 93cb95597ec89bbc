"""The flags of commands that ask a server at ``--address`` which requires TLS or a token."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fastqps.errors import ConfigError

_FLAGS = ("tls_ca", "tls_cert", "tls_key", "token_file")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """TLS and the token."""
    group = parser.add_argument_group("a server at --address with TLS or tokens")
    group.add_argument("--tls-ca", metavar="FILE", help="use TLS; PEM file with who may have signed its certificate")
    group.add_argument("--tls-cert", metavar="FILE", help="PEM file with the certificate to show it")
    group.add_argument("--tls-key", metavar="FILE", help="PEM file with the key of --tls-cert")
    group.add_argument("--token-file", metavar="FILE", help="file with the token to send; lines with # are left out")


def check_flags(options: argparse.Namespace) -> None:
    """Raises ``ConfigError`` for flags that do not go together."""
    given = [f"--{name.replace('_', '-')}" for name in _FLAGS if getattr(options, name)]
    if given and not options.address:
        raise ConfigError(f"{given[0]} is for a server: add --address HOST:PORT")
    if bool(options.tls_cert) != bool(options.tls_key) or (options.tls_cert and not options.tls_ca):
        raise ConfigError("--tls-cert and --tls-key go together, and with --tls-ca")


def client_options(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of a client. Raises ``ConfigError`` with the flag whose file cannot be read."""
    paths: dict[str, Any] = {name: getattr(options, name) or "" for name in _FLAGS[:3]}
    for name, path in paths.items():
        if path:
            _read(f"--{name.replace('_', '-')}", path)
    return {**paths, "token": _token(options.token_file) if options.token_file else ""}


def _read(flag: str, path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{flag} {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _token(path: str) -> str:
    lines = [line.strip() for line in _read("--token-file", path).splitlines()]
    tokens = [line for line in lines if line and not line.startswith("#")]
    if len(tokens) != 1:
        raise ConfigError(f"--token-file {path}: it holds {len(tokens)} tokens; one is needed")
    return tokens[0]
