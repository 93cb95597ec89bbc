"""Each claim in turn: classes, tenants and siblings on a modelled device, then classes on this CPU."""

from __future__ import annotations

from bench.isolation.classes import classes
from bench.isolation.on_cpu import on_cpu
from bench.isolation.siblings import siblings
from bench.isolation.subject import computing, modelled
from bench.isolation.tenants import tenants
from bench.runner import Bench


def measure(bench: Bench) -> None:
    """One server of each device, on one core; the load on the other."""
    with modelled(bench.folder) as server:
        for claim in (classes, tenants, siblings):
            claim(bench, server)
    with computing() as server:
        on_cpu(bench, server)
