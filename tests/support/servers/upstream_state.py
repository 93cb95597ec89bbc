"""What an edge says of its upstreams."""

from __future__ import annotations

from serving import Server


def news(edge: Server, address: str) -> list[str]:
    """What the log says of an upstream."""
    return [line.partition(f"{address}: ")[2] for line in list(edge.lines) if f"upstream {address}: " in line]


def serving(edge: Server, address: str) -> bool:
    """Whether the log's last word on an upstream is that it serves."""
    return news(edge, address)[-1:] == ["serving"]
