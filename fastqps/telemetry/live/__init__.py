"""The live page of the admin port: what happens in a server now, and what happened in the last minutes."""

from pathlib import Path

from fastqps.telemetry.live.counts import Seen
from fastqps.telemetry.live.sampler import Sampler

__all__ = ["PAGE", "Sampler", "Seen"]


def _page() -> bytes:
    """One answer that holds its style and its program, so that it needs nothing else, and no network."""
    folder = Path(__file__).parent
    html = (folder / "page.html").read_text("utf-8")
    for name in ("page.css", "page.js"):
        html = html.replace(f"{{{{{name}}}}}", (folder / name).read_text("utf-8"))
    return html.encode()


PAGE = _page()
