"""The files that a run leaves."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

from loadgen import hgrm
from loadgen.atomic_file import replace_file
from loadgen.errors import UsageError
from loadgen.histogram import Histogram
from loadgen.results import MAIN
from loadgen.run import Run


def require_folder(path: str) -> None:
    """Raises ``UsageError`` where no file can be made."""
    folder = Path(path).parent
    if Path(path).is_dir():
        raise UsageError(f"cannot write {path}: it is a folder")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {path}: there is no folder {folder} that we may write to")


def histograms(run: Run) -> dict[str, str]:
    """The two main ones in HdrHistogram's V2 encoding."""
    return {name: hgrm.encode(Histogram.of(run.result[name])) for name in MAIN}


def write_histograms(prefix: str, run: Run) -> None:
    """The .hgrm and .hlog files."""
    hgrm.write_percentiles(Path(f"{prefix}.hgrm"), Histogram.of(run.result["response"]))
    hgrm.write_percentiles(Path(f"{prefix}.service.hgrm"), Histogram.of(run.result["service"]))
    seconds = [(second.start_s, second.length_s, second.response) for second in run.timeline.measured()]
    began_s = run.result["start_unix_ns"] / 1e9 + run.plan.measure_from_ns / 1e9
    hgrm.write_log(Path(f"{prefix}.hlog"), began_s, seconds)


def write_samples(path: str, run: Run) -> None:
    """Answers as JSON lines."""
    lines: list[str] = []
    for sample in run.result["samples"]:
        answer = base64.b64encode(sample["answer"]).decode()
        lines.append(json.dumps({"payload": sample["payload"], "request_id": sample["request_id"], "answer": answer}))
    replace_file(Path(path), "".join(line + "\n" for line in lines))
