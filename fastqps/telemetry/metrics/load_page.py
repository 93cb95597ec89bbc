"""The text of ``/metrics/load``: for load balancers that look at every server twenty times a second."""

from __future__ import annotations

from collections.abc import Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def load_page(values: Mapping[str, float | None]) -> bytes:
    """The page with one gauge for each name, without labels; None is left out. It is below 1 KiB."""
    shown = ((f"fastqps_{name}", value) for name, value in values.items() if value is not None)
    return "".join(f"# TYPE {name} gauge\n{name} {value:.9g}\n" for name, value in shown).encode()
