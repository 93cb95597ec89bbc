"""``python -m bench [PART...]``: runs the parts, prints their tables, and writes summaries and raw figures as JSON."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

from bench.load import h2load_version
from bench.result_file import RESULTS, Row, markdown, medians, write_raw, write_summary
from bench.runner import Bench
from fastqps.bench.results.environment import Others, commit, environment

PARTS = {
    "transport": "the host path on one core, against a grpc.aio echo",
    "openloop": "the load generator on one core, against h2load",
    "work": "MiniLM over gRPC, against sentence-transformers, OpenVINO and onnxruntime",
    "tasks": "named entities and reranking, against transformers and sentence-transformers",
    "static": "a static model over gRPC, against model2vec and the null device",
    "gather": "packing a batch, against torch",
    "generate": "small Llamas, against transformers, OpenVINO GenAI and CTranslate2",
    "labels": "labels that are tokens, against generating one token",
    "structure": "texts with a JSON schema, against texts without",
    "prepare": "preparing a step of generation",
    "protocols": "ModelInfer and HTTP, against Predict, Triton, mosec and LitServe",
    "edge": "an edge in front of a server, next to the server alone",
    "light": "memory, idle CPU, start",
    "isolation": "classes, tenants and groups beside the load of others",
    "neighbours": "what is kept beside noisy neighbours, against mosec and a grpc.aio echo",
    "knee": "steps of the chosen size, against fixed sizes",
}
SCHEMA_VERSION = 2
QUIET = 0.03  # share of the machine's CPU time that other programs may take


def main() -> int:
    """0, or 1 if something that has to be reached was not."""
    listed = "\n".join(f"  {name:<12} {what}" for name, what in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench", epilog=f"parts:\n{listed}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="*", help="default: all of them", metavar="PART")
    parser.add_argument("--repetitions", type=int, default=3, help="of every point, interleaved (default: 3)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of every point (default: 5)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for PART.json")
    options = parser.parse_args()
    if strange := [part for part in options.part if part not in PARTS]:
        parser.error(f"{strange[0]!r} is no part; parts: {', '.join(PARTS)}")
    rows: list[Row] = []
    for part in options.part or PARTS:
        rows += _measure(part, options)
    return 1 if any(row.accepted is False for row in rows) else 0


def _measure(part: str, options: argparse.Namespace) -> list[Row]:
    print(f"== {part}: {PARTS[part]}", flush=True)
    where = environment("sentence-transformers", "transformers") | {"h2load": h2load_version()}
    version, began, others = commit(), time.monotonic(), Others()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        bench = Bench(Path(folder), options.repetitions, options.seconds, stack)
        import_module(f"bench.{part}").measure(bench)
    noise = round(others.share(), 3)
    command = f"python -m bench {part} --repetitions {options.repetitions} --seconds {options.seconds:g}"
    result = {"schema_version": SCHEMA_VERSION, "mode": part, "command": command, "commit": version}
    result |= {
        "environment": {**where, **bench.facts, "other_programs_cpu_share": noise},
        "table": [row.as_json() for row in bench.rows],
    }
    write_raw(options.results / f"{part}.json", bench.points)
    write_summary(options.results / f"{part}.json", {**result, "points": medians(bench.points)})
    facts = f"{where['cpu']}, {where['cores']} cores, Linux {where['kernel']}; commit {version}; `{command}`"
    if noise > QUIET:
        facts += f"; NOT QUIET: other programs took {100 * noise:.0f} % of the CPU time"
    print(markdown(bench.rows))
    print(f"{facts}; {time.monotonic() - began:.0f} s\n", flush=True)
    return bench.rows


if __name__ == "__main__":
    sys.exit(main())
