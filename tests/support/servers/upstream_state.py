"""An edge in front of servers, and what it says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from serving import Server, until


def start_edge(start: Callable[..., Server], addresses: Iterable[str], *flags: str, **options: Any) -> Server:
    """Starts an edge of these servers."""
    upstreams = (f"--upstream={address}" for address in addresses)
    return start("--device=remote", "--frontdoors=1", *upstreams, *flags, **options)


def edge_of(start: Callable[..., Server], addresses: Sequence[str], *flags: str, **options: Any) -> Server:
    """The same, once each of them serves."""
    edge = start_edge(start, addresses, *flags, **options)
    until(lambda: all(serving(edge, address) for address in addresses), lambda: f"they serve\n{edge.log()}")
    return edge


def news(edge: Server, address: str) -> list[str]:
    """What the log says of an upstream."""
    return [line.partition(f"{address}: ")[2] for line in list(edge.lines) if f"upstream {address}: " in line]


def serving(edge: Server, address: str) -> bool:
    """Whether the log's last word on an upstream is that it serves."""
    return news(edge, address)[-1:] == ["serving"]
