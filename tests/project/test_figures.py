"""The fixture ``perf``: what counts as within bounds, which try counts, and what a run lists."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from figures import Perf, Run, Unmeasured

pytestmark = pytest.mark.compute


@pytest.mark.parametrize(
    ("value", "bounds", "within"),
    [
        (2.0, {"at_most": 2}, True),
        (2.1, {"at_most": 2}, False),
        (2.0, {"at_least": 2}, True),
        (1.9, {"at_least": 2}, False),
        (0.5, {"at_least": 0.9, "at_most": 1.1}, False),
        (math.nan, {"at_most": 2}, False),
    ],
)
def test_a_figure_is_recorded_and_held_against_its_bounds(value: float, bounds: dict[str, Any], within: bool) -> None:
    run = Run()
    if within:
        Perf(run)("a figure", value, **bounds)
    else:
        with pytest.raises(AssertionError, match="a figure"):
            Perf(run)("a figure", value, **bounds)
    assert json.loads(run.line())["figures"][0]["within"] is within
    assert run.table()[1].split()[-1] == ("yes" if within else "no")
    with pytest.raises(AssertionError, match="needs a bound"):
        Perf(run)("a figure", value)


def test_the_nearest_try_counts_and_the_first_within_bounds_ends_them() -> None:
    run = Run()
    Perf(run)("in time", iter([9, 3, 1.5, 8]).__next__, at_most=2)
    with pytest.raises(AssertionError, match=r"late 2\.5 ≤ 2"):
        Perf(run)("late", iter([9, 2.5, 3]).__next__, at_most=2, tries=3)
    assert [figure.value for figure in run.figures] == [1.5, 2.5]

    def measure() -> float:
        raise Unmeasured("no time")

    with pytest.raises(AssertionError, match=r"no try gave a figure.*no time"):
        Perf(run)("none", measure, at_most=2)
    assert len(run.figures) == 2
