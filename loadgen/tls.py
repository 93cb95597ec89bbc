"""The flags of TLS: what they mean together, and what the engine gets of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from loadgen.errors import UsageError


def check(options: argparse.Namespace) -> None:
    """Raises ``UsageError`` for flags that do not go together."""
    if options.tls_ca and options.tls_insecure:
        raise UsageError("--tls-insecure believes every certificate; leave out --tls-ca")
    if bool(options.tls_cert) != bool(options.tls_key):
        raise UsageError("--tls-cert and --tls-key go together")
    if options.tls_cert and not (options.tls_ca or options.tls_insecure):
        raise UsageError("--tls-cert needs --tls-ca: who may have signed the server's certificate")


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
