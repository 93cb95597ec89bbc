"""What the marks of tests promise."""

from __future__ import annotations

import ast
from pathlib import Path

from paths import ROOT


def waits(path: Path) -> bool:
    """Whether it starts a server, which has to be ready in time, or limits the time of a program."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and {"ServerProcess", "Server"} & {name.name for name in node.names}:
            return True
        if isinstance(node, ast.Call) and "timeout" in {keyword.arg for keyword in node.keywords}:
            return True
    return False


def test_what_only_computes_waits_for_nothing() -> None:
    """Others have the cores while it runs, so that minutes may pass before it does."""
    computing = [path for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.compute" in path.read_text()]
    assert len(computing) > 50
    assert [path for path in computing if path.name != "test_marks.py" and waits(path)] == []


def test_nobody_imports_a_conftest() -> None:
    """All have one name, so that the order of the files would decide which is found."""
    importing = [
        path
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "conftest"
    ]
    assert importing == []
