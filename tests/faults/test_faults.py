"""The table of faults.toml: each class of faults has one owner in the gate, and a mistake that can be planted."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from paths import ROOT
from plant import FAULTS, TABLE, Fault

pytestmark = pytest.mark.compute


def python_marks(path: Path, name: str) -> set[str]:
    """The marks of a test and of its file. There must be such a test."""
    tree = ast.parse(path.read_text())
    functions = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
    assert len(functions) == 1, f"{path} has no test {name}"
    marked: list[ast.expr] = list(functions[0].decorator_list)
    marked += [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    return set(re.findall(r"pytest\.mark\.(\w+)", " ".join(map(ast.unparse, marked))))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_has_its_owner_in_the_gate(fault: Fault) -> None:
    path = ROOT / fault.test_file
    if fault.native:
        assert f"TEST({fault.case})" in path.read_text(), f"{path} has no case {fault.case}"
    else:
        assert not python_marks(path, fault.case) & {"nightly", "perf", "gpu"}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_mistake_can_be_planted(fault: Fault) -> None:
    assert (ROOT / fault.file).read_text().count(fault.right) == 1, (
        f"{fault.file}: {fault.right!r} must stand there once"
    )
    assert fault.wrong != fault.right
    assert "test" not in fault.file, "a mistake is one of the product"


def test_names_are_unique() -> None:
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names) >= 40


def test_each_folder_of_tests_owns_a_fault_or_says_why_not() -> None:
    files = [
        *(ROOT / "tests").rglob("test_*.py"),
        *ROOT.glob("csrc/tests/*/test_*.cpp"),
        *ROOT.glob("loadgen/csrc/tests/*.cpp"),
    ]
    folders = {path.parent.relative_to(ROOT).as_posix() for path in files}
    owners = {Path(fault.test_file).parent.as_posix() for fault in FAULTS}
    without = TABLE["without"]
    assert folders == owners | set(without)
    assert not owners & set(without)
    assert all(reason.endswith(".") for reason in without.values())
