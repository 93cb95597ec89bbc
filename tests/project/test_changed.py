"""``make test CHANGED=1`` finds the tests of every file."""

from __future__ import annotations

import subprocess

import pytest
from changed import OWNERS, SMOKE, owner, targets
from ladder import CXX, PYTHON
from paths import ROOT

pytestmark = pytest.mark.compute

ELSEWHERE = {"gpu", "support", "faults"}  # these need a GPU, are no tests, or are chosen by all others


def test_every_rung_owns_tests() -> None:
    rungs = [f"csrc/{name}/" for name in CXX] + [f"fastqps/{name}" for rung in PYTHON for name in rung]
    assert [rung for rung in rungs if not any(prefix.rstrip("/") == rung.rstrip("/") for prefix in OWNERS)] == []


def test_every_row_matches_files_and_names_tests_that_exist() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert [prefix for prefix in OWNERS if not any(path.startswith(prefix) for path in tracked)] == []
    named = {test for tests, _ in OWNERS.values() for test in tests} | set(SMOKE)
    assert [test for test in named if not (ROOT / test).exists()] == []
    programs = {name for _, native in OWNERS.values() for name in native} - {"loadgen"}
    assert programs == {path.parent.name for path in (ROOT / "csrc/tests").glob("*/test_*.cpp")}
    folders = {str(path.parent.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    chosen = {test.rpartition("/")[0] if test.endswith(".py") else test for test in named}
    assert {folder for folder in folders - chosen if folder.split("/")[1] not in ELSEWHERE} == set()


@pytest.mark.parametrize(
    ("path", "python", "native"),
    [
        ("csrc/step/cuda/event.cpp", "tests/cuda", "cuda"),
        ("csrc/tests/text/test_bpe.cpp", "tests/project", "text"),
        ("tests/support/servers/ledger.py", "tests/e2e/recovery/test_ledger.py", ""),
        ("csrc/tests/fuzz/fuzz_wire.cpp", "tests/project", ""),
        ("tests/e2e/protocols/conftest.py", "tests/e2e/protocols", ""),
        ("tests/models/test_static.py", "tests/models/test_static.py", ""),
        ("README.md", "tests/project", ""),
    ],
)
def test_a_file_selects_its_tests(path: str, python: str, native: str) -> None:
    found, programs = targets([path])
    assert python in found
    assert (native in programs) if native else not programs


def test_the_longest_beginning_counts() -> None:
    assert owner("csrc/step/cuda/x.cpp") != owner("csrc/step/x.cpp")
