"""Whether one client's load costs another its answers: classes, tenants and groups over one connection."""

from bench.isolation.part import measure

__all__ = ["measure"]
