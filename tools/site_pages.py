"""Hooks of mkdocs for the site of the documentation: its navigation, and links that lead to sources."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Sections as in the index, docs/README.md, with the pages that each names and none before it."""
    introduction, *sections = (ROOT / "docs/README.md").read_text().split("\n## ")
    nav: list[Any] = ["README.md"]
    seen = {"README.md"}
    for title, text in [("Start here", "[](README.md)" + introduction), *(part.split("\n", 1) for part in sections)]:
        named = [posixpath.normpath(f"docs/{link[2]}") for link in _LINK.finditer(text)]
        pages = [page for page in dict.fromkeys(named) if page.endswith(".md") and page not in seen]
        seen.update(pages)
        nav.append({title: pages})
    config.nav = [*nav, {"Project": ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]}]
    return config


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """Leaves the text alone of links to files and folders of the repository that are no pages."""

    def kept(link: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), link[2]))
        outside = not files.get_file_from_path(place) and (ROOT / place).exists()
        return link[1] if outside else link[0]

    return _LINK.sub(kept, markdown)
