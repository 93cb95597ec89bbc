"""What is built runs on any CPU of its architecture: faster instructions are chosen at run time, file by file."""

from __future__ import annotations

import re

import pytest
from paths import ROOT

pytestmark = pytest.mark.compute

SOURCES = [path for folder in ("csrc", "loadgen/csrc") for path in sorted((ROOT / folder).rglob("*.cpp"))]
TARGET = re.compile(r'#pragma GCC target\("([\w,]+)"\)')


@pytest.mark.parametrize("file", ["csrc/build.mk", "Makefile", "setup.py", "tools/manylinux.sh", "pyproject.toml"])
def test_no_build_asks_for_the_builders_cpu(file: str) -> None:
    assert not re.findall(r"(?<![\w-])-m(?:arch|tune|cpu|avx|sse|fma)\S*", (ROOT / file).read_text())


def test_files_with_instructions_of_their_own_are_left_out_elsewhere() -> None:
    found = [path for path in SOURCES if TARGET.search(path.read_text()) and "tests" not in path.parts]
    assert len(found) >= 6, "the kernels have moved"
    for path in found:
        before, _, _ = path.read_text().partition("#pragma GCC target")
        assert "#if defined(__x86_64__)" in before, f"{path} does not compile for arm64"


def test_what_a_file_may_use_is_asked_of_the_cpu() -> None:
    asked = {
        name
        for path in SOURCES
        if path.is_relative_to(ROOT / "csrc/step/cpu")
        for name in re.findall(r'__builtin_cpu_supports\("(\w+)"\)', path.read_text())
    }
    used = {name for path in SOURCES for names in TARGET.findall(path.read_text()) for name in names.split(",")}
    assert used - {"avxvnni"} <= asked, "and for avxvnni the CPU's own leaf is read: GCC 12 has no name for it"
