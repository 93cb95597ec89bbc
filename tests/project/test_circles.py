"""No module imports itself through others, not even by an import inside a function, which only hides a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest
from paths import ROOT

PACKAGES = ("fastqps", "loadgen", "bench", "examples")


def module_name(path: Path, root: Path) -> str:
    """fastqps/api/rpc.py → fastqps.api.rpc; fastqps/api/__init__.py → fastqps.api."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """(module, name in it or "") of every import that can run, wherever it stands. ``package``: of relative ones."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            yield from ((module, alias.name) for alias in node.names)


def graph(root: Path, packages: tuple[str, ...]) -> Mapping[str, set[str]]:
    """Of each module, the modules that it imports. ``from package import module`` is an import of the module alone."""
    sources = {module_name(path, root): path for name in packages for path in (root / name).rglob("*.py")}
    found: dict[str, set[str]] = {name: set() for name in sources}
    for name, path in sources.items():
        package = name if path.stem == "__init__" else name.rpartition(".")[0]
        for module, member in imports(ast.parse(path.read_text()), package):
            target = f"{module}.{member}" if f"{module}.{member}" in sources else module
            if target in sources and target != name:
                found[name].add(target)
    return found


def circle(modules: Mapping[str, set[str]]) -> list[str]:
    """One circle of imports; empty where there is none."""
    try:
        TopologicalSorter(modules).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_through_others() -> None:
    modules = graph(ROOT, PACKAGES)
    assert len(modules) > 300, "the packages have moved"
    assert not circle(modules)


def test_folders_of_models_have_one_direction() -> None:
    """But for the two kinds of models that ``load_card`` and names open, which are built of what lies beside them."""
    modules, top = graph(ROOT, ("fastqps",)), "fastqps.models"
    edges = {
        (folder(name, modules), folder(other, modules))
        for name, others in modules.items()
        for other in others
        if name.startswith(f"{top}.") and other.startswith(f"{top}.")
    }
    both = {one for one, other in edges if one != other and (other, one) in edges}
    assert both == {top, f"{top}.static", f"{top}.hub"}


def folder(name: str, modules: Mapping[str, set[str]]) -> str:
    """The package that a module lies in; a package lies in itself."""
    return name if any(other.startswith(f"{name}.") for other in modules) else name.rpartition(".")[0]


def test_folders_of_the_supervisor_import_each_other_one_way() -> None:
    folder = {name: name.split(".")[2] for name in graph(ROOT, ("fastqps/supervisor",)) if name.count(".") == 3}
    found: dict[str, set[str]] = {}
    for name, imported in graph(ROOT, PACKAGES).items():
        if name in folder:
            found.setdefault(folder[name], set()).update(folder[i] for i in imported if i in folder)
    folders = {name: imported - {name} for name, imported in found.items()}
    assert "gpu" in folders["workers"], "the folders have moved"
    assert not circle(folders)


@pytest.mark.parametrize(
    ("second", "found"),
    [
        ("", False),
        ("from pkg import first", True),
        ("from . import first", True),
        ("from .first import a", True),
        ("from pkg.first import a", True),
        ("def f():\n    import pkg.first", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pkg.first import a", False),
    ],
)
def test_a_circle_is_found_wherever_the_import_stands(second: str, found: bool, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    for name, source in (("__init__", ""), ("first", "def g():\n    from pkg.second import f"), ("second", second)):
        (tmp_path / f"pkg/{name}.py").write_text(source)
    assert bool(circle(graph(tmp_path, ("pkg",)))) == found
