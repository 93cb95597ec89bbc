"""An extension that does not belong to the Python code beside it must say so."""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fastqps import __version__, _native

pytestmark = pytest.mark.compute


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the sources that the extensions are built from."""
    shutil.copytree(_native.ROOT / "csrc", tmp_path / "csrc")
    return tmp_path


def changed(tree: Path, path: str) -> Path:
    with (tree / path).open("a") as file:
        file.write("\n")
    _native._folder_sum.cache_clear()
    return tree


@pytest.mark.parametrize("name", ["_core", "_front"])
def test_the_same_sources_pass(name: str, tree: Path) -> None:
    _native.check(name, __version__, _native.checksum(name), tree)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("_core", "csrc/core/slab.h"),
        ("_core", "csrc/text/unicode/unicode_tables.inc"),
        ("_core", "csrc/build.mk"),
        ("_front", "csrc/service/intake/intake.cpp"),
        ("_front", "csrc/bind/front/front.cpp"),
        ("_front", "csrc/transport/loop/new.h"),
    ],
)
def test_changed_sources_are_seen(name: str, path: str, tree: Path) -> None:
    with pytest.raises(ImportError, match=rf"fastqps\.{name} was built from other sources .* run: make build"):
        _native.check(name, __version__, _native.checksum(name), changed(tree, path))


def test_every_folder_that_is_compiled_belongs_to_an_extension() -> None:
    """Else its changes would be seen by nobody."""
    parts = re.search(r"^PARTS := ((?:.*\\\n)*.*)", (_native.ROOT / "csrc/build.mk").read_text(), re.MULTILINE)
    assert parts
    compiled = {part.split("/")[0] for part in parts[1].replace("\\\n", " ").split()}
    watched = {part for parts in _native.PARTS.values() for part in parts.split()}
    assert compiled == {part for part in watched if not part.startswith("bind/")}


@pytest.mark.parametrize("path", ["csrc/tests/check.h", "csrc/service/intake/intake.cpp"])
def test_what_an_extension_is_not_built_from_does_not_matter(path: str, tree: Path) -> None:
    _native.check("_core", __version__, _native.checksum("_core"), changed(tree, path))


def test_another_version_is_seen_without_a_source_tree(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match=rf"built for fastqps 0\.0\.1, but this is {__version__}"):
        _native.check("_core", "0.0.1", "", tmp_path)
    _native.check("_core", __version__, "no tree: not compared", tmp_path)


def test_a_removed_file_is_seen(tree: Path) -> None:
    expected = _native.checksum("_core", tree)
    (tree / "csrc/core/supervise.h").unlink()
    _native._folder_sum.cache_clear()
    assert _native.checksum("_core", tree) != expected


def test_it_costs_little() -> None:
    """Less than what Python takes before it imports anything of ours."""
    least_s = python_s = 60.0
    for _ in range(5):
        _native._folder_sum.cache_clear()
        began = time.process_time()
        _native.checksum("_core"), _native.checksum("_front")
        least_s = min(least_s, time.process_time() - began)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", ""], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        python_s = min(python_s, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert least_s < python_s


def test_the_reason_is_found_behind_what_pybind11_says() -> None:
    reason = _native.StaleExtension("make build")
    failure = ImportError("initialization failed")
    failure.__cause__ = reason
    assert _native.stale(failure) is reason
    assert _native.stale(ImportError("no such module")) is None
