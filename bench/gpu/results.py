"""The suite's summary, bench/results/GPU-DATE.json, its raw figures and its table, all written after every figure."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.gpu.plan import TARGETS
from bench.result_file import RESULTS, Row, markdown, medians, raw_path, write_raw, write_summary
from loadgen.atomic_file import replace_file

SCHEMA_VERSION = 3
MODE = "gpu-check"
PROGRAMS = ("driver", "python", "torch", "triton", "transformers")


class Results:
    """One file. Several processes may add to it, one after the other: each change reads it and writes it whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def start(self, steps: Iterable[str] = (), **facts: Any) -> None:
        """The facts of this run, and what it intends. What other runs have measured stays."""
        document = self.read()
        empty: dict[str, Any] = {"table": [], "steps": {}, "points": [], "raw": {}}
        kept = {key: document.get(key, nothing) for key, nothing in empty.items()}
        for step in steps:  # a run that is killed shows what it did not reach
            kept["steps"].setdefault(step, {"state": "pending", "commit": facts["commit"]})
        self._write({"schema_version": SCHEMA_VERSION, "mode": MODE, **facts, **kept})

    def begin(self, step: str) -> None:
        """A step starts: what it had measured before goes. What others have measured may be of another commit."""
        document = self.read()
        for key in ("table", "points"):
            document[key] = [entry for entry in document[key] if entry["step"] != step]
        document["raw"].pop(step, None)
        document["steps"][step] = {"state": "running", "commit": document["commit"]}
        self._write(document)

    def row(self, step: str, row: Row, target: str = "") -> None:
        """A figure, in the place of one of the same step and name. ``target``: its key in TARGETS."""
        self._write(_put(self.read(), "table", _entry(step, row, target)))

    def raw(self, step: str, name: str, value: Any) -> None:
        """The raw measurements behind a figure, as JSON."""
        document = self.read()
        document["raw"].setdefault(step, {})[name] = value
        figures = value if isinstance(value, dict) else {"figure": value}
        [point] = medians([{**figures, "name": name}])
        self._write(_put(document, "points", {"step": step, **point}))

    def leave_out(self, step: str, what: str) -> None:
        """Names something that a step did not measure."""
        document = self.read()
        document["steps"][step].setdefault("left_out", []).append(what)
        self._write(document)

    def end(self, step: str, state: str, seconds: float, error: str = "") -> None:
        """``state``: done, failed or left out. The targets that a failed step owed stand in the table with the error.

        The step's own error is kept: how its process ended says less.
        """
        document = self.read()
        error = document["steps"][step].get("error") or error
        document["steps"][step] |= {"state": state, "seconds": round(seconds, 1)} | ({"error": error} if error else {})
        there = {row["target"] for row in document["table"]}
        for key, t in TARGETS.items():
            if state == "failed" and t.step == step and key not in there:
                accept, goal = t.marks(str(document["environment"].get("gpu", "")))
                row = Row(t.name, None, t.unit, accept, goal, t.at_most, note=f"failed: {error}")
                document["table"].append(_entry(step, row, key))
        self._write(document)

    def take(self, other: dict[str, Any]) -> None:
        """The steps of another file's content, in the place of what is here of them."""
        document = self.read()
        ran = {step: facts for step, facts in other["steps"].items() if facts["state"] != "pending"}
        for key in ("table", "points"):
            kept = [entry for entry in document[key] if entry["step"] not in ran]
            document[key] = kept + [entry for entry in other[key] if entry["step"] in ran]
        document["steps"] |= ran
        document["raw"] |= other["raw"]
        self._write(document)

    def read(self) -> dict[str, Any]:
        """The summary, and below ``raw`` the raw figures of steps that ran here; ``{}`` where there is none yet."""
        summary = _read(self.path)
        return summary and summary | {"raw": _read(raw_path(self.path))}

    def _write(self, document: dict[str, Any]) -> None:
        write_raw(self.path, document["raw"])
        write_summary(self.path, {key: value for key, value in document.items() if key != "raw"})
        replace_file(self.path.with_suffix(".md"), page(document))


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return document if isinstance(document, dict) else {}


def _put(document: dict[str, Any], key: str, entry: dict[str, Any]) -> dict[str, Any]:
    """The document with this entry in the place of one of the same step and name."""
    others = [each for each in document[key] if (each["step"], each["name"]) != (entry["step"], entry["name"])]
    return document | {key: [*others, entry]}


def _entry(step: str, row: Row, target: str) -> dict[str, Any]:
    return {**row.as_json(), "step": step, "target": target}


def rows_of(document: dict[str, Any], step: str = "") -> list[Row]:
    """The table's rows, all or of one step."""
    return [Row.from_json(entry) for entry in document["table"] if step in ("", entry["step"])]


def page(document: dict[str, Any]) -> str:
    """The Markdown: targets that were measured first, then all else, then what is missing and where it ran."""
    order = list(TARGETS)
    entries = sorted(document["table"], key=lambda e: order.index(e["target"]) if e["target"] in order else len(order))
    lines = [markdown(rows_of({"table": entries})), "", *(f"* {line}" for line in missing(document))]
    commits = {step: facts["commit"] for step, facts in document["steps"].items()}
    lines += [f"* {step} is of commit {commit}" for step, commit in commits.items() if commit != document["commit"]]
    where = document["environment"]
    facts = [where.get("gpu", ""), where.get("cpu", ""), f"{where.get('cores', '?')} cores"]
    facts += [f"{name} {where[name]}" for name in PROGRAMS if name in where]
    lines += ["", f"{', '.join(filter(None, facts))}; commit {document['commit']}; `{document['command']}`"]
    if where.get("dry"):
        lines = ["**A dry run on a CPU at tiny shapes: no figure here says anything about a GPU.**", "", *lines]
    return "\n".join(lines) + "\n"


def missing(document: dict[str, Any]) -> list[str]:
    """Steps that failed, were left out or were never reached, and what the others left out."""
    lines = []
    for step, facts in document["steps"].items():
        if facts["state"] in ("pending", "running"):
            lines.append(f"{step}: {'not reached' if facts['state'] == 'pending' else 'interrupted'}")
        elif facts["state"] != "done":
            lines.append(f"{step} {facts['state']}: {facts.get('error', '')}")
        lines += [f"{step}: left out: {what}" for what in facts.get("left_out", ())]
    return lines


def merge(files: Sequence[Path], folder: Path = RESULTS) -> list[Path]:
    """Each file's steps into the one of its name in ``folder``, in the place of what was there of them.

    ``ValueError`` for a file that is none of the suite's, or that was measured on another GPU than the rest. Its steps
    keep their commits.
    """
    changed = []
    for path in files:
        new = Results(path).read()
        if new.get("mode") != MODE:
            raise ValueError(f"{path} is no result of the GPU suite")
        results = Results(folder / path.name)
        if not (document := results.read()):
            results.path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, results.path)
            document = new
        old, own = document["environment"].get("gpu"), new["environment"].get("gpu")
        if old != own:
            raise ValueError(f"{path} is of the GPU {own!r}, and {results.path} of {old!r}")
        results.take(new)
        changed.append(results.path)
    return changed


def slug(gpu: str) -> str:
    """``NVIDIA H200`` → ``h200``."""
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower().removeprefix("nvidia ")).strip("-") or "gpu"
