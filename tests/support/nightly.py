"""Parameters of a test that only ``make nightly`` runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def nightly(*parameters: Any) -> list[ParameterSet]:
    """For a ``parametrize`` of these values, or tuples of values, beside those of ``make test``."""
    values = (each if isinstance(each, tuple) else (each,) for each in parameters)
    return [pytest.param(*each, marks=pytest.mark.nightly) for each in values]


def nightly_but(quick: Iterable[Any], parameters: Iterable[Any]) -> list[Any]:
    """All of ``parameters``, of which ``make test`` runs those in ``quick``. Each of these has to be one of them."""
    quick, parameters = list(quick), list(parameters)
    assert all(each in parameters for each in quick), "a parameter that is quick is not there any more"
    return [each if each in quick else nightly(each)[0] for each in parameters]
