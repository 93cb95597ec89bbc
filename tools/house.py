"""Counts how large and how divided the project is, and what a change touches. ``python tools/house.py`` prints it.

tests/project/test_house.py holds the limits. Counted are the files that git knows, without tests: ``.py``, ``.pyi``,
``.cpp``, ``.h``, ``.js``, ``.sh`` and ``.proto`` of the folders below.
"""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("fastqps", "csrc", "loadgen", "bench", "k8s", "tools", "proto")
SUFFIXES = (".py", ".pyi", ".cpp", ".h", ".js", ".sh", ".proto")
SMALL_LINES = 40
# For each kind of change, a pattern that stands in every file that had to change for the newest one of its kind.
CHANGES = {
    "an option of a generation": r"no_repeat_ngram_size",
    "a task": r"embed_?multi",
    "a setting of the front door": r"stream_idle_timeout",
    "a status code": r"(?:internal|INTERNAL|Internal) ?= ?13\b",
}


def sources() -> list[Path]:
    """The product's source files."""
    listed = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = (ROOT / name for name in listed.stdout.split() if not re.search(r"(?:^|/)tests/", name))
    return [path for path in paths if path.suffix in SUFFIXES and path.is_file() and not path.is_symlink()]


def small(paths: list[Path]) -> list[Path]:
    """Files that may be too small to be one noun. A package's ``__init__`` has to be there."""
    return [path for path in paths if path.stem != "__init__" and len(path.read_text().splitlines()) < SMALL_LINES]


def touched(pattern: str, paths: list[Path]) -> list[Path]:
    """The files that a change of a kind has to touch, by the newest change of that kind."""
    found = re.compile(pattern, re.IGNORECASE if pattern.islower() else 0)
    return [path for path in paths if found.search(path.read_text())]


def includes(path: Path) -> set[str]:
    """The folders of csrc that a file includes."""
    return {header.rpartition("/")[0] for header in re.findall(r'#\s*include "([^"]+/[^"]+)"', path.read_text())}


def mutual(edges: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs of folders of which each uses the other."""
    return sorted((one, other) for one, other in edges if one < other and (other, one) in edges)


def folders_of_csrc(paths: list[Path]) -> list[tuple[str, str]]:
    csrc = ROOT / "csrc"
    own = [
        path
        for path in paths
        if path.is_relative_to(csrc) and path.relative_to(csrc).parts[0] not in ("bench", "model")
    ]
    return mutual({(path.parent.relative_to(csrc).as_posix(), folder) for path in own for folder in includes(path)})


def folders_of_fastqps(paths: list[Path]) -> list[tuple[str, str]]:
    """A module lies in the package that holds it, a package's ``__init__`` in the package itself; loose modules of
    ``fastqps`` are folders of their own, as on the ladder, and its ``__init__`` only names lazy exports."""
    own = [path for path in paths if path.suffix == ".py" and path.is_relative_to(ROOT / "fastqps")]
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in own}
    del modules["fastqps"]
    home = {
        name: name if path.stem == "__init__" or name.count(".") == 1 else name.rpartition(".")[0]
        for name, path in modules.items()
    }
    edges = set()
    for name, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                package = home[name].split(".")
                base = (
                    ".".join((*package[: len(package) - node.level + 1], node.module or ""))
                    if node.level
                    else node.module
                )
                base = (base or "").strip(".")
                used = [f"{base}.{alias.name}" if f"{base}.{alias.name}" in home else base for alias in node.names]
            elif isinstance(node, ast.Import):
                used = [alias.name for alias in node.names]
            else:
                continue
            edges |= {(home[name], home[other]) for other in used if other in home}
    return mutual(edges)


def widest_constructors(paths: list[Path]) -> list[tuple[int, str]]:
    """(parameters, class) of the C++ constructors with the most parameters, of transport, service and protocols."""
    found = []
    for path in paths:
        if path.suffix == ".h" and re.match(r"csrc/(transport|service|protocols)/", path.relative_to(ROOT).as_posix()):
            text = re.sub(r"//[^\n]*", "", path.read_text())
            for name in set(re.findall(r"\b(?:class|struct) (\w+)", text)):
                for made in re.findall(rf"(?<![\w~:])(?:explicit )?{name}\(([^()]*(?:\([^()]*\)[^()]*)*)\)", text):
                    depth, count = 0, 1 if made.strip() else 0
                    for sign in made:
                        depth += (sign in "<({[") - (sign in ">)}]")
                        count += sign == "," and not depth
                    found.append((count, name))
    return sorted(set(found), reverse=True)


def main() -> None:
    paths = sources()
    print(f"{sum(len(path.read_text().splitlines()) for path in paths):,} lines in {len(paths):,} files")
    print(f"{len(small(paths))} files have fewer than {SMALL_LINES} lines")
    print(f"{len(list((ROOT / 'csrc/service').rglob('*.*')))} files in csrc/service")
    for title, pairs in (("csrc", folders_of_csrc(paths)), ("fastqps", folders_of_fastqps(paths))):
        print(
            f"{len(pairs)} pairs of folders of {title} use each other" + "".join(f"\n  {a} and {b}" for a, b in pairs)
        )
    print("constructors:", ", ".join(f"{name} {count}" for count, name in widest_constructors(paths)[:5]))
    for change, pattern in CHANGES.items():
        files = touched(pattern, paths)
        print(f"{change} touches {len(files)} files" + "".join(f"\n  {path.relative_to(ROOT)}" for path in files))


if __name__ == "__main__":
    main()
