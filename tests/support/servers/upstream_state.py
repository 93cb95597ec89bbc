"""What an edge says of its upstreams."""

from __future__ import annotations

from serving import Server


def serving(edge: Server, address: str) -> bool:
    """Whether the log's last word on an upstream is that it serves."""
    lines = [line for line in list(edge.lines) if f"upstream {address}: " in line]
    return bool(lines) and lines[-1].endswith(": serving")
