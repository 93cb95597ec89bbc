"""The ways to a set of servers: direct, by a client that knows them all, and through each real proxy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest
from serving import Server

from proxies.envoy import Envoy
from proxies.haproxy import HAProxy
from proxies.nginx import Nginx
from proxies.proxy import Certificates, Proxy, installed

PROXIES: tuple[type[Proxy], ...] = (Envoy, HAProxy, Nginx)
WAYS = ("direct", *(kind.program for kind in PROXIES))


def stand_before(servers: Sequence[Server], stack: ExitStack, tls: Certificates | None = None) -> list[Proxy]:
    """Every proxy that is installed, before the same servers."""
    admins = [server.admin for server in servers]
    backends = [server.address for server in servers]
    return [stack.enter_context(kind(backends, admins=admins, tls=tls)) for kind in PROXIES if installed(kind.program)]


@contextmanager
def stand_before_one(way: str, server: Server, tls: Certificates | None = None) -> Iterator[str]:
    """Where clients come who take that way to one server."""
    if way == "direct":
        yield server.address
        return
    kind = next(kind for kind in PROXIES if kind.program == way)
    with kind([server.address], admins=[server.admin], tls=tls) as proxy:
        yield proxy.address


@contextmanager
def ways_to(servers: Sequence[Server]) -> Iterator[tuple[dict[str, str], list[Proxy]]]:
    """Addresses for clients by name of the way, and the proxies among them."""
    with ExitStack() as stack:
        proxies = stand_before(servers, stack)
        addresses = {"direct": "ipv4:" + ",".join(server.address for server in servers)}
        yield addresses | {proxy.program: proxy.address for proxy in proxies}, proxies


def must_be_installed(way: str) -> None:
    if way != "direct" and not installed(way):
        pytest.skip(f"{way} is not installed: packages.apt, or the dev extra")
