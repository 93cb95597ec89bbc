"""Warnings at the start of a publicly reachable server about missing protection."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from fastqps.config import Config


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
