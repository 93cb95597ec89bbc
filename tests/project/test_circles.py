"""No module imports itself through others, not even by an import inside a function, which only hides a circle.

No two folders import each other, nor include each other.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
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


def folder(name: str, modules: Mapping[str, set[str]]) -> str:
    """The package that a module lies in; a package lies in itself."""
    return name if any(other.startswith(f"{name}.") for other in modules) else name.rpartition(".")[0]


def both_ways(edges: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """The pairs of folders with edges in both directions."""
    known = set(edges)
    return {(one, other) for one, other in known if one < other and (other, one) in known}


def package_edges(modules: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Package -> package of every import. A ``__main__`` imports, and nothing imports it."""
    for name, imported in modules.items():
        if name.rpartition(".")[2] != "__main__":
            yield from ((folder(name, modules), folder(other, modules)) for other in imported)


def include_edges(root: Path) -> Iterator[tuple[str, str]]:
    """Folder -> folder of every include below ``root``, without those of tests and benchmarks."""
    for path in (path for path in root.rglob("*") if path.suffix in (".h", ".cpp")):
        name = path.relative_to(root)
        if name.parts[0] not in ("tests", "bench"):
            for header in re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE):
                if (root / header).is_file():
                    yield name.parent.as_posix(), Path(header).parent.as_posix()


def test_no_two_packages_import_each_other() -> None:
    """A package is the modules beside its ``__init__``, and this file itself."""
    assert not both_ways(package_edges(graph(ROOT, ("fastqps", "loadgen", "bench"))))


def test_no_two_folders_of_cxx_include_each_other() -> None:
    edges = set(include_edges(ROOT / "csrc"))
    assert len(edges) > 100, "the folders have moved"
    assert not both_ways(edges)


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


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"a.py": "import pkg.child.c"}, set()),
        ({"a.py": "import pkg.child.c", "child/d.py": "from pkg import b"}, {("pkg", "pkg.child")}),
        ({"a.py": "import pkg.child.c", "child/__init__.py": "import pkg.b"}, {("pkg", "pkg.child")}),
        ({"__init__.py": "from pkg.child.c import x", "child/c.py": "import pkg.b"}, {("pkg", "pkg.child")}),
        ({"__main__.py": "import pkg.child.c", "child/c.py": "import pkg.b"}, set()),
        ({"child/c.py": "import pkg.other.o", "other/p.py": "import pkg.child.d"}, {("pkg.child", "pkg.other")}),
    ],
)
def test_packages_that_import_each_other_are_found(
    files: Mapping[str, str], found: set[tuple[str, str]], tmp_path: Path
) -> None:
    empty = dict.fromkeys(
        ("a.py", "b.py", *(f"{path}.py" for path in ("child/c", "child/d", "other/o", "other/p"))), ""
    )
    packages = dict.fromkeys(("__init__.py", "child/__init__.py", "other/__init__.py"), "")
    for name, source in {**empty, **packages, **files}.items():
        (tmp_path / "pkg" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pkg" / name).write_text(source)
    assert both_ways(package_edges(graph(tmp_path, ("pkg",)))) == found


def test_folders_that_include_each_other_are_found(tmp_path: Path) -> None:
    for name, source in (("up/a.h", '#include "up/in/b.h"'), ("up/in/b.h", ""), ("up/in/c.h", '#include "up/d.h"')):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    assert not both_ways(include_edges(tmp_path))
    (tmp_path / "up/d.h").touch()
    assert both_ways(include_edges(tmp_path)) == {("up", "up/in")}
