"""Result files: the summary that is committed, and the raw figures that are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.result_file import RESULTS, ROOT, Row, medians, raw_path, write_summary

LINES_MAX = 800  # of all committed results: each change of one is read by people


@pytest.mark.parametrize(
    ("runs", "median"),
    [
        ([{"rates": [3, 1, 2]}], {"rates": 2}),
        ([{"rate": 3}, {"rate": 1}, {"rate": 2}], {"rate": 2}),
        ([{"us": {"p50": 1, "p75": 9, "worst": "a"}}, {"us": {"p50": 3}}], {"us": {"p50": 2}}),
        ([{"runs": [{"rate": 1, "ok": True}, {"rate": 5}, {"rate": 3}]}], {"runs": {"rate": 3}}),
        ([{"kinds": [{"name": "a", "us": 1}, {"name": "b", "us": 2}]}], {"kinds": {"a": {"us": 1}, "b": {"us": 2}}}),
        ([{"figure": [1, 4, 2]}, {"figure": [3, 5]}], {"figure": 3}),
        ([{"verdict": "VALID", "notes": [], "load": {"rate": 3}, "none": None}], {}),
    ],
)
def test_a_point_has_the_median_of_each_figure(runs: list[dict[str, Any]], median: dict[str, Any]) -> None:
    assert medians({"name": "x", **run} for run in runs) == [{"name": "x", **median}]


def test_each_row_point_and_step_has_one_line(tmp_path: Path) -> None:
    found = {"command": "ü", "table": [Row("a", 1.5, "×").as_json(), {}], "steps": {"x": {"s": 1}, "y": {}}, "none": []}
    write_summary(tmp_path / "deep/x.json", found)
    text = (tmp_path / "deep/x.json").read_text()
    assert json.loads(text) == found and len(text.splitlines()) == 12 and '"ü"' in text


@pytest.mark.parametrize("interval", [None, [0.5, 2.0]])
def test_a_row_is_read_as_it_was_written(interval: Any) -> None:
    row = Row("a", 1.0, "×", 0.9, 2.0, True, "of b", interval)
    assert Row.from_json(row.as_json()) == row


def test_committed_results_are_summaries() -> None:
    files = sorted(RESULTS.glob("*.json"))
    assert files and sum(len(path.read_text().splitlines()) for path in files) <= LINES_MAX
    assert raw_path(files[0]) == ROOT / "build/bench" / files[0].name
    assert raw_path(Path("/x/y.json")) == Path("/x/raw/y.json")
