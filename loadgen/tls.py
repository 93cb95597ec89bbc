"""The flags for a server that requires TLS or a token: what they mean together, and what the engine gets of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from loadgen.errors import UsageError

AUTHORIZATION = "authorization"


def check(options: argparse.Namespace) -> None:
    """Raises ``UsageError`` for flags that do not go together."""
    if options.tls_ca and options.tls_insecure:
        raise UsageError("--tls-insecure believes every certificate; leave out --tls-ca")
    if bool(options.tls_cert) != bool(options.tls_key):
        raise UsageError("--tls-cert and --tls-key go together")
    if options.tls_cert and not (options.tls_ca or options.tls_insecure):
        raise UsageError("--tls-cert needs --tls-ca: who may have signed the server's certificate")
    if options.token_file and any(key == AUTHORIZATION for key, _ in options.header):
        raise UsageError(f"--token-file sends the header {AUTHORIZATION!r}; leave out --header {AUTHORIZATION}")


def tls_options(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments of the engine. ``UsageError`` for files that cannot be read."""
    found: dict[str, Any] = {"tls": bool(options.tls_ca or options.tls_insecure)}
    for name in ("tls_ca", "tls_cert", "tls_key"):
        path = getattr(options, name)
        try:
            found[name] = Path(path).read_bytes() if path else b""
        except OSError as error:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} {path}: cannot be read: {error.strerror}") from None
    return found


def headers(options: argparse.Namespace) -> list[tuple[str, str]]:
    """The metadata of each call, with the token of ``--token-file``. ``UsageError`` for a file that holds none."""
    found: list[tuple[str, str]] = options.header
    return [*found, (AUTHORIZATION, f"Bearer {_token(options.token_file)}")] if options.token_file else found


def _token(path: str) -> str:
    """The only line of a file that is neither empty nor a comment. No message shows it."""
    try:
        lines = [line.strip() for line in Path(path).read_text().splitlines()]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"--token-file {path}: cannot be read: {reason}") from None
    tokens = [line for line in lines if line and not line.startswith("#")]
    if len(tokens) != 1:
        raise UsageError(f"--token-file {path}: it holds {len(tokens)} tokens; one is needed")
    if not (tokens[0].isascii() and tokens[0].isprintable()) or " " in tokens[0]:
        raise UsageError(f"--token-file {path}: a token has printable ASCII characters only, and no space")
    return tokens[0]
