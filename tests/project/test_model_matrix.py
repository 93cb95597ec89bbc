"""The matrix of docs/models.md is what the registry says."""

from __future__ import annotations

import runpy

from paths import ROOT


def test_the_page_has_the_matrix_of_the_code() -> None:
    tool = runpy.run_path(str(ROOT / "tools/model_matrix.py"))
    page = tool["PAGE"].read_text()
    assert tool["written"](page) == page
    assert tool["matrix"]().count("\n| `") > 20
