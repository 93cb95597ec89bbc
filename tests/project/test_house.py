"""The house stays as small and as little divided as it is. ``python tools/house.py`` prints what is counted."""

from __future__ import annotations

import runpy
from collections import Counter
from types import SimpleNamespace

import pytest
from ladder import CXX
from paths import ROOT

house = SimpleNamespace(**runpy.run_path(str(ROOT / "tools/house.py")))
PRODUCT = house.sources()


def test_few_files_are_small() -> None:
    small = [source.path for source in PRODUCT if source.small]
    assert len(small) <= 90, small


def test_the_service_can_be_read() -> None:
    files = [source.path for source in PRODUCT if source.path.startswith("csrc/service/")]
    assert 20 < len(files) <= 45, files


def test_files_of_tests_have_names_of_their_own() -> None:
    """pytest cannot collect two of a name at once."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_cxx_has_few_floors() -> None:
    assert len(CXX) <= 12


def test_nothing_is_made_of_many_parts() -> None:
    made = house.constructors(PRODUCT)
    assert len(made) > 50, "the classes have moved"
    assert not {name: count for name, count in made.items() if count > 6}


@pytest.mark.parametrize(
    ("declared", "count"),
    [("", 0), ("int a", 1), ("std::map<int, u32> a, Limits b = {1, 2}", 2), ("F(*f)(int, int)", 1)],
)
def test_parameters_are_counted(declared: str, count: int) -> None:
    assert house.parameters(declared) == count


@pytest.mark.parametrize(
    ("change", "least", "most"),
    [  # an option: with the kernels that compute it, and what protoc makes
        ("an option of a generation", 5, 9),
        ("a task", 5, 12),
        ("a setting of the front door", 3, 3),
        ("a status code", 2, 2),
    ],
)
def test_a_change_touches_few_files(change: str, least: int, most: int) -> None:
    files = house.touched(change, PRODUCT)
    assert least <= len(files) <= most, files
