"""Counts how large and how divided the project is, and what a change touches. ``python tools/house.py`` prints it.

tests/project/test_house.py holds the limits, and test_circles.py that folders use each other in one direction. Counted
are the files that git knows, without tests: ``.py``, ``.pyi``, ``.cpp``, ``.h``, ``.js``, ``.sh`` and ``.proto`` of the
folders below.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("fastqps", "csrc", "loadgen", "bench", "k8s", "tools", "proto")
SUFFIXES = (".py", ".pyi", ".cpp", ".h", ".js", ".sh", ".proto")
SMALL_LINES = 40
# For each kind of change, a pattern that stands in every file that had to change for one of its kind.
CHANGES = {
    "an option of a generation": r"(?i)(?<!encoder_)no_?repeat_?ngram",
    "a task": r"(?i)embed_?multi",
    "a setting of the front door": r"stream_idle_timeout",
    "a status code": r"(?i)\binternal = 13\b|\bkInternal = 13\b",
}


@dataclass(frozen=True)
class Source:
    """A source file of the product: its path from the root, and its text."""

    path: str
    text: str

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def small(self) -> bool:
        """Whether it may be too small to be one noun. A package's ``__init__`` has to be there."""
        return self.lines < SMALL_LINES and not self.path.endswith("__init__.py")


def sources() -> list[Source]:
    listed = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [name for name in listed.stdout.split() if not re.search(r"(?:^|/)tests/", name)]
    files = [(name, ROOT / name) for name in paths if name.endswith(SUFFIXES) and name != "tools/house.py"]
    return [Source(name, path.read_text()) for name, path in files if path.is_file() and not path.is_symlink()]


def touched(change: str, product: list[Source]) -> list[str]:
    """The files that a change of this kind has to touch, by one of its kind."""
    return [source.path for source in product if re.search(CHANGES[change], source.text)]


def constructors(product: list[Source]) -> dict[str, int]:
    """The parameters of each C++ class of the front door, of its constructor with the most."""
    most: dict[str, int] = {}
    for source in product:
        if re.match(r"csrc/(transport|service|protocols)/.*\.h$", source.path):
            text = re.sub(r"//[^\n]*", "", source.text)
            for name in set(re.findall(r"\b(?:class|struct) (\w+)", text)):
                for made in re.findall(
                    rf"(?<![\w~:.])(?:explicit )?{name}\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s*[:;{{]", text
                ):
                    most[name] = max(most.get(name, 0), parameters(made))
    return most


def parameters(declared: str) -> int:
    """How many parameters ``declared`` lists: commas inside templates and defaults separate none."""
    depth, count = 0, 1 if declared.strip() else 0
    for sign in declared:
        depth += (sign in "<({[") - (sign in ">)}]")
        count += sign == "," and not depth
    return count


def main() -> None:
    product = sources()
    print(f"{sum(source.lines for source in product):,} lines in {len(product):,} files")
    print(f"{sum(source.small for source in product)} files have fewer than {SMALL_LINES} lines")
    print(f"{sum(source.path.startswith('csrc/service/') for source in product)} files in csrc/service")
    widest = sorted(constructors(product).items(), key=lambda item: -item[1])[:5]
    print("constructors with the most parameters:", ", ".join(f"{name} {count}" for name, count in widest))
    for change in CHANGES:
        files = touched(change, product)
        print(f"{change} touches {len(files)} files", *files, sep="\n  ")


if __name__ == "__main__":
    main()
