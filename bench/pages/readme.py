"""Writes the README's figures, its plot and docs/results.md from bench/results: ``make results-table``."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from bench.__main__ import PARTS, QUIET
from bench.gpu.plan import TARGETS
from bench.gpu.results import MODE
from bench.result_file import RESULTS, ROOT, Row, number

BEGIN, END = "<!-- measured -->", "<!-- end of measured -->"
_PAGE = """# Results

Every figure of `make bench` and of `make gpu-check`, beside the baseline of the same run. `make results-table` writes
this page from [bench/results](../bench/results). `make bench` measures the first table again on your machine,
`make gpu-check` the second.

{cpu}

{gpu}
"""
# The rows of the README's plot: the part and the row of its ratio, and what the ratio compares.
_PLOTTED = (
    ("transport", "… over a grpc.aio echo", "gRPC calls/s over a grpc.aio echo server"),
    ("gather", "gather over torch", "packing a batch of tokens, over torch"),
    ("generate", "over gRPC, 2 dispatchers, over generate_batch", "10M decoder over gRPC, over transformers batching"),
    ("generate", "over gRPC, 2 dispatchers, over generate", "10M decoder over gRPC, over transformers generate"),
    ("static", "static Predict over model2vec encode", "static model over gRPC, over model2vec in process"),
    ("work", "Predict over sentence-transformers", "MiniLM over gRPC, over sentence-transformers"),
    ("protocols", "ModelInfer over Triton ModelInfer", "Triton's ModelInfer, over Triton"),
    ("protocols", "/v1/embeddings, floats over LitServe JSON", "OpenAI's embeddings over HTTP, over LitServe"),
)

_WIDTH, _LEFT, _ROW = 880, 430, 34
_AXIS = (1, 10, 100, 1000)


def table(results: dict[str, dict[str, Any]]) -> str:
    """The rows of all parts, and where they were measured."""
    lines = ["| what | measured | asked for | |", "|---|--:|--:|---|"]
    for part in results.values():
        for entry in part["table"]:
            row = Row.from_json(entry)
            asked = f"{'≤' if row.at_most else '≥'} {number(row.accept)}" if row.accept is not None else ""
            missed = "missed" if entry["accepted"] is False else ""
            undecided = "inconclusive" if row.accept is not None and entry["accepted"] is None else ""
            lines.append(f"| {row.name} | {number(row.measured)} {row.unit} | {asked} | {missed}{undecided} |")
    return "\n".join([*lines, "", *_machines(results)])


def _machines(results: dict[str, dict[str, Any]]) -> list[str]:
    """A line for each machine: the parts that it measured, each with its commit, and where it was not quiet."""
    parts: dict[str, list[str]] = {}
    for name, part in results.items():
        where = part["environment"]
        machine = f"{where['cpu']} with {where['cores']} cores, Linux {where['kernel']}, Python {where['python']}"
        noise = where["other_programs_cpu_share"]
        busy = f", while other programs took {100 * noise:.0f} % of the CPU time" if noise > QUIET else ""
        parts.setdefault(f"{machine}, torch {where['torch']}", []).append(f"{name} ({part['commit']}{busy})")
    return [f"* {machine}: {', '.join(entries)}; `make bench`." for machine, entries in parts.items()]


def gpu_table(runs: Sequence[dict[str, Any]], how: str, *, brief: bool = False) -> str:
    """The GPU targets with the latest figure of each, beside what is asked for now.

    ``runs``: the oldest first. ``how``: the guide's path. ``brief``: only what has been measured.
    """
    measured = {entry["target"]: (entry, run) for run in runs for entry in run["table"] if entry["target"]}
    lines = ["| on one GPU | measured | asked for | |", "|---|--:|--:|---|"]
    for key, target in TARGETS.items():
        if brief and measured and key not in measured:
            continue
        figure, missed, accept = "not yet measured", "", target.accept
        if key in measured:
            entry, run = measured[key]
            accept, _ = target.marks(run["environment"]["gpu"])  # as of now: a figure may be older than its mark
            interval = entry.get("interval")
            row = Row(target.name, entry["measured"], entry["unit"], accept, at_most=target.at_most, interval=interval)
            figure = "failed" if row.measured is None else f"{number(row.measured)} {row.unit}"
            missed = {False: "missed", None: "inconclusive" if accept else ""}.get(row.accepted, "")
        asked = f"{'≤' if target.at_most else '≥'} {number(accept)}" if accept is not None else ""
        lines.append(f"| {target.name} | {figure} | {asked} | {missed} |")
    used: dict[str, list[str]] = {}  # commits by machine
    for entry, run in measured.values():
        where, commit = run["environment"], run["steps"][entry["step"]]["commit"]
        commits = used.setdefault(f"{where['gpu']}, {where['cpu']} with {where['cores']} cores", [])
        commits += [commit] if commit not in commits else []
    facts = [f"{machine}, commit {', '.join(commits)}" for machine, commits in used.items()]
    source = f"{'; '.join(facts)}; `make gpu-check`." if facts else "To measure: `make gpu-check` where there is a GPU"
    return "\n".join([*lines, "", source if facts else f"{source} ([how]({how}))."])


def gpu_runs(folder: Path) -> list[dict[str, Any]]:
    """The GPU suite's files, the oldest first."""
    runs = [json.loads(path.read_text()) for path in folder.glob("*-????-??-??.json")]
    of_gpus = (run for run in runs if run["mode"] == MODE and not run["environment"].get("dry"))
    return sorted(of_gpus, key=lambda run: str(run["date"]))


def bars(results: dict[str, dict[str, Any]]) -> list[tuple[str, float]]:
    """The plotted ratios of those parts that have been measured."""
    measured = {(part, row["name"]): row["measured"] for part, summary in results.items() for row in summary["table"]}
    return [(label, measured[part, row]) for part, row, label in _PLOTTED if measured.get((part, row))]


def plot(bars: Sequence[tuple[str, float]]) -> str:
    """An SVG image of (label, ratio of fastqps to the baseline of the same run), on a logarithmic axis."""
    height = _ROW * len(bars) + 60
    scale = (_WIDTH - _LEFT - 80) / math.log10(_AXIS[-1])
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="14" role="img">',
        "<title>fastqps beside other software, in the same run on 2 CPU cores</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for tick in _AXIS:
        x = _LEFT + scale * math.log10(tick)
        lines.append(f'<path d="M{x:.0f} 20V{height - 30}" stroke="#ddd"/>')
        lines.append(f'<text x="{x:.0f}" y="{height - 12}" text-anchor="middle" fill="#555">{tick} ×</text>')
    for row, (label, ratio) in enumerate(bars):
        y = 26 + row * _ROW
        length = max(scale * math.log10(ratio), 1.0)
        lines.append(f'<text x="{_LEFT - 10}" y="{y + 15}" text-anchor="end" fill="#222">{escape(label)}</text>')
        lines.append(f'<rect x="{_LEFT}" y="{y}" width="{length:.0f}" height="22" fill="#4a76a8"/>')
        lines.append(f'<text x="{_LEFT + length + 8:.0f}" y="{y + 16}" fill="#222">{ratio:.3g} ×</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> int:
    """Writes the page and the plot, and replaces what is between the marks. 1 if nothing has been measured."""
    paths = [path for part in PARTS if (path := RESULTS / f"{part}.json").is_file()]
    if not paths:
        print("nothing in bench/results: run make bench", file=sys.stderr)
        return 1
    results = {path.stem: json.loads(path.read_text()) for path in paths}
    runs = gpu_runs(RESULTS)
    (ROOT / "docs/results.md").write_text(_PAGE.format(cpu=table(results), gpu=gpu_table(runs, "gpu-check.md")))
    (ROOT / "docs/images/results.svg").write_text(plot(bars(results)))
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    readme.write_text(f"{before}{BEGIN}\n{gpu_table(runs, 'docs/gpu-check.md', brief=True)}\n{end}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
