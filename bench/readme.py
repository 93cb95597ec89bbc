"""Writes the README's table from bench/results: ``make results-table``. The table never differs from the files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.__main__ import PARTS, QUIET
from bench.row import Row, number

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- measured -->", "`make bench` measures all of it again"


def table(results: dict[str, dict[str, Any]]) -> str:
    """The rows of all parts, and where they were measured."""
    lines = ["| what | measured | asked for | |", "|---|--:|--:|---|"]
    for part in results.values():
        for entry in part["table"]:
            row = Row(entry["name"], entry["measured"], entry["unit"], entry["accept"], entry["goal"], entry["at_most"])
            asked = f"{'≤' if row.at_most else '≥'} {number(row.accept)}" if row.accept is not None else ""
            missed = "missed" if row.accepted is False else ""
            lines.append(f"| {row.name} | {number(row.measured)} {row.unit} | {asked} | {missed} |")
    first = next(iter(results.values()))
    where = first["environment"]
    commits = ", ".join(sorted({part["commit"] for part in results.values()}))
    facts = f"{where['cpu']} with {where['cores']} cores, Linux {where['kernel']}, Python {where['python']}"
    noise = max(part["environment"]["other_programs_cpu_share"] for part in results.values())
    if noise > QUIET:
        facts += f", while other programs took up to {100 * noise:.0f} % of the CPU time"
    return "\n".join([*lines, "", f"{facts}, torch {where['torch']}; commit {commits}; `make bench`."])


def main() -> int:
    """Replaces what is between the marks. 1 if nothing has been measured."""
    paths = [path for part in PARTS if (path := ROOT / f"bench/results/{part}.json").is_file()]
    if not paths:
        print("nothing in bench/results: run make bench", file=sys.stderr)
        return 1
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    results = {path.stem: json.loads(path.read_text()) for path in paths}
    readme.write_text(f"{before}{BEGIN}\n{table(results)}\n\n{end}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
