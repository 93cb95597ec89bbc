"""The suite's file, bench/results/GPU-DATE.json, written again after every figure, and its Markdown table."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.gpu.targets import TARGETS
from bench.row import Row, markdown
from fastqps.bench.whole import write_whole

SCHEMA_VERSION = 1
MODE = "gpu-check"


class Results:
    """One file. Several processes may add to it, one after the other: each change reads it and writes it whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def start(self, **facts: Any) -> None:
        """The facts of this run; what other parts have left in the file stays."""
        found = self.read()
        kept = {key: found.get(key, empty) for key, empty in (("table", []), ("parts", {}), ("raw", {}))}
        self._write({"schema_version": SCHEMA_VERSION, "mode": MODE, **facts, **kept})

    def begin(self, step: str) -> None:
        """A step starts: what it had measured before goes. What others have measured may be of another commit."""
        found = self.read()
        found["table"] = [row for row in found["table"] if row["step"] != step]
        found["raw"].pop(step, None)
        found["parts"][step] = {"state": "running", "commit": found["commit"]}
        self._write(found)

    def row(self, step: str, row: Row, target: str = "") -> None:
        """A figure. ``target``: its key in TARGETS."""
        found = self.read()
        found["table"].append(_entry(step, row, target))
        self._write(found)

    def raw(self, step: str, name: str, value: Any) -> None:
        """What a figure was made of; JSON."""
        found = self.read()
        found["raw"].setdefault(step, {})[name] = value
        self._write(found)

    def end(self, step: str, state: str, seconds: float, error: str = "") -> None:
        """``state``: done or failed. Of a failed step the targets that it owed stand in the table with the error."""
        found = self.read()
        found["parts"][step] |= {"state": state, "seconds": round(seconds, 1)} | ({"error": error} if error else {})
        there = {row["target"] for row in found["table"]}
        for key, t in TARGETS.items():
            if error and t.step == step and key not in there:
                row = Row(t.name, None, t.unit, t.accept, t.goal, note=f"failed: {error}")
                found["table"].append(_entry(step, row, key))
        self._write(found)

    def take(self, other: dict[str, Any]) -> None:
        """The steps of another file's content, in the place of what is here of them."""
        found = self.read()
        found["table"] = [row for row in found["table"] if row["step"] not in other["parts"]] + other["table"]
        for key in ("parts", "raw"):
            found[key] |= other[key]
        self._write(found)

    def read(self) -> dict[str, Any]:
        """The file's content; ``{}`` where there is none yet."""
        try:
            found = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, found: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, json.dumps(found, indent=1, allow_nan=False) + "\n")
        write_whole(self.path.with_suffix(".md"), page(found))


def _entry(step: str, row: Row, target: str) -> dict[str, Any]:
    entry = {"name": row.name, "measured": row.measured, "accept": row.accept, "goal": row.goal}
    entry |= {"accepted": row.accepted, "bound_by": row.note, "unit": row.unit, "at_most": row.at_most}
    return {**entry, "step": step, "target": target}


def rows_of(found: dict[str, Any], steps: Sequence[str] | None = None) -> list[Row]:
    """The table's rows, all or of these steps."""
    keys = ("name", "measured", "unit", "accept", "goal", "at_most", "bound_by")
    entries = [entry for entry in found["table"] if steps is None or entry["step"] in steps]
    return [Row(*(entry[key] for key in keys)) for entry in entries]


def page(found: dict[str, Any]) -> str:
    """The Markdown: targets that were measured first, then all else, then what failed and where it ran."""
    order = list(TARGETS)
    entries = sorted(found["table"], key=lambda e: order.index(e["target"]) if e["target"] in order else len(order))
    lines = [markdown(rows_of({"table": entries})), ""]
    failed = {step: part["error"] for step, part in found["parts"].items() if part.get("error")}
    lines += [f"* {step} failed: {error}" for step, error in failed.items()]
    commits = {step: part["commit"] for step, part in found["parts"].items()}
    lines += [f"* {step} is of commit {commit}" for step, commit in commits.items() if commit != found["commit"]]
    where = found.get("environment", {})
    facts = [where.get("gpu", ""), where.get("cpu", ""), f"{where.get('cores', '?')} cores"]
    facts += [
        f"{name} {where[name]}" for name in ("driver", "python", "torch", "triton", "transformers") if name in where
    ]
    lines += ["", f"{', '.join(filter(None, facts))}; commit {found.get('commit', '')}; `{found.get('command', '')}`"]
    if where.get("dry"):
        lines = ["**A dry run on a CPU at tiny shapes: no figure here says anything about a GPU.**", "", *lines]
    return "\n".join(lines) + "\n"


def slug(gpu: str) -> str:
    """``NVIDIA H200`` → ``h200``."""
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower().removeprefix("nvidia ")).strip("-") or "gpu"
