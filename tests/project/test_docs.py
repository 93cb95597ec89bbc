"""The documentation: links lead somewhere, the index names every page, the README stays short."""

from __future__ import annotations

import pydoc
import re
import runpy
from pathlib import Path

import pytest
from paths import ROOT

import fastqps
from fastqps.api.request import Options, option_type

PAGES = sorted(
    path for path in ROOT.rglob("*.md") if not {".venv", "build", "node_modules"} & set(path.relative_to(ROOT).parts)
)


def anchors(page: Path) -> set[str]:
    """The fragments that a renderer of Markdown gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, fragment = link.partition("#")
        if path.startswith(("http:", "https:", "mailto:")):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (fragment and target.suffix == ".md" and fragment not in anchors(target)):
            broken.append(link)
    assert not broken


def test_no_page_has_both_sides_of_a_conflict() -> None:
    assert [page for page in PAGES if re.search(r"^(<{7}|>{7}) ", page.read_text(), re.MULTILINE)] == []


def test_the_api_reference_is_that_of_the_docstrings() -> None:
    written = runpy.run_path(str(ROOT / "tools" / "api_reference.py"))["page"]()
    found = (ROOT / "docs" / "python-api.md").read_text()
    assert found == written, "run: python tools/api_reference.py > docs/python-api.md"


@pytest.mark.parametrize("kind", [fastqps.Client, fastqps.AsyncClient])
def test_help_lists_every_option(kind: type) -> None:
    said = pydoc.render_doc(kind, renderer=pydoc.plaintext)
    assert [name for name in Options.__annotations__ if f"{name}: {option_type(name)}. " not in said] == []


@pytest.mark.parametrize("folder", ["docs", "docs/decisions"])
def test_the_index_names_every_page(folder: str) -> None:
    index = (ROOT / folder / "README.md").read_text()
    pages = {page.name for page in (ROOT / folder).glob("*.md")} - {"README.md"}
    assert {page for page in pages if f"({page}" not in index} == set()


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 130
