"""The options of a run: the command line, checked as a whole, and what the engine gets of TLS and tokens."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loadgen import arrivals, flags
from loadgen.errors import UsageError


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The checked options of a run; raises ``UsageError``."""
    options = flags.parser().parse(arguments)
    _check_load(options)
    _check_payloads(options)
    _check_tls(options)
    return options


def _check_load(o: argparse.Namespace) -> None:
    if o.trace and (o.rate is not None or o.arrivals or o.closed):
        raise UsageError("--trace says when calls are due; leave out --rate, --arrivals and --closed")
    if o.closed and (o.rate is not None or o.arrivals):
        raise UsageError("--closed sends as fast as answers come; leave out --rate and --arrivals")
    if o.speedup is not None and not o.trace:
        raise UsageError("--speedup is for a --trace")
    if not o.trace and not o.closed:
        o.arrivals = o.arrivals or arrivals.parse("poisson")
        if o.rate is None and not o.arrivals.has_rate:
            raise UsageError("how much load? Give --rate R, --trace FILE or --closed N")
    if o.duration is None and not o.trace:
        o.duration = 10_000_000_000
    if o.warmup is None:
        o.warmup = 0 if o.trace else 1_000_000_000
    for flag, value in (("--duration", o.duration), ("--connect-timeout", o.connect_timeout)):
        if value == 0:
            raise UsageError(f"{flag} must be above 0")
    if o.closed:
        o.connections = min(o.connections, o.closed)  # each has a call
    if o.threads > o.connections:
        raise UsageError(f"--threads {o.threads} needs at least as many --connections; there are {o.connections}")


def _check_payloads(o: argparse.Namespace) -> None:
    sources = [bool(o.payload), o.text_field is not None, o.empty_payload]
    if sum(sources) != 1:
        raise UsageError("what to send? Give one of --payload FILE…, --text-field N and --empty-payload")
    if o.calls and o.closed:
        raise UsageError("--calls needs an open loop: nobody knows how many calls a closed one makes; give --rate R")


AUTHORIZATION = "authorization"


def _check_tls(options: argparse.Namespace) -> None:
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
    tls: dict[str, Any] = {"tls": bool(options.tls_ca or options.tls_insecure)}
    for name in ("tls_ca", "tls_cert", "tls_key"):
        path = getattr(options, name)
        try:
            tls[name] = Path(path).read_bytes() if path else b""
        except OSError as error:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} {path}: cannot be read: {error.strerror}") from None
    return tls


def headers(options: argparse.Namespace) -> list[tuple[str, str]]:
    """The metadata of each call, with the token of ``--token-file``. ``UsageError`` for a file that holds none."""
    headers: list[tuple[str, str]] = options.header
    return [*headers, (AUTHORIZATION, f"Bearer {_token(options.token_file)}")] if options.token_file else headers


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
