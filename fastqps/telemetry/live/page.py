"""The page itself: one answer that holds its style and its program, so that it needs nothing else, and no network."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent


def _page() -> bytes:
    html = (_HERE / "page.html").read_text("utf-8")
    for name in ("page.css", "page.js"):
        html = html.replace(f"{{{{{name}}}}}", (_HERE / name).read_text("utf-8"))
    return html.encode()


PAGE = _page()
