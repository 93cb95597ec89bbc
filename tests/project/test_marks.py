"""What the marks of tests promise."""

from __future__ import annotations

import re

from paths import ROOT

# A server has to start in time, and a limit of `subprocess` ends a child.
WAITS = re.compile(r"\bServerProcess\b|from serving import .*\bServer\b|subprocess\.run\([^)]*\btimeout=", re.DOTALL)


def test_what_only_computes_waits_for_nothing() -> None:
    """Others have the cores while it runs, so that minutes may pass before it does."""
    computing = [path for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.compute" in path.read_text()]
    assert len(computing) > 50
    assert [path for path in computing if path.name != "test_marks.py" and WAITS.search(path.read_text())] == []
