"""The two load generators: h2load, the peers' yardstick, and our own loadgen, which looks at gRPC statuses."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastqps.bench.measure.generator import run_generator
from fastqps.bench.results.result import BenchError
from fastqps.v1 import predict_pb2 as pb

PREDICT = "/fastqps.v1.PredictService/Predict"
PREDICT_BATCH = "/fastqps.v1.PredictService/PredictBatch"
# What gRPC clients send beside the necessary.
TRACE = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
HEADERS = {"grpc-timeout": "10S", "user-agent": "grpc-python/1.66.0 grpc-c/43.0.0 (linux; chttp2)", **TRACE}
PATIENCE_S = 300.0  # of a call to a model on a CPU, for slow machines: the admission predicts the wait, too
LONG = ("histograms", "spectrum", "timeline", "command")  # of loadgen's results, what a point does not keep


@dataclass(frozen=True)
class Load:
    """How many connections with how many calls in flight on each, and for how long. ``deadline_s``: of each call."""

    connections: int = 16
    inflight: int = 64
    seconds: float = 5.0
    warmup_s: float = 1.0
    deadline_s: float = 10.0


def h2load(address: str, path: str, body: Path, load: Load, cpu: int, *, scheme: str = "http") -> float:
    """Answers per second. h2load sees HTTP only: compare with the server's own counters whether they were OK."""
    headers = {"te": "trailers", "content-type": "application/grpc", **HEADERS}
    command = ["taskset", "-c", str(cpu), "h2load", "-t", "1", "-c", str(load.connections), "-m", str(load.inflight)]
    command += ["-D", str(round(load.seconds)), "--warm-up-time", str(round(load.warmup_s)), "-d", str(body)]
    command += [part for name, value in headers.items() for part in ("-H", f"{name}: {value}")]
    command.append(f"{scheme}://{address}{path}")
    limit_s = load.seconds + load.warmup_s + 60
    text = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False).stdout
    rate = re.search(r"finished in .*?, ([\d.]+) req/s", text)
    counts = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored", text)
    if not rate or not counts or int(counts[1]) == 0 or int(counts[2]) + int(counts[3]):
        raise BenchError(f"h2load: {text}")
    return float(rate[1])


def h2load_version() -> str:
    """Its own words, or ``missing``."""
    if not shutil.which("h2load"):
        return "missing"
    done = subprocess.run(["h2load", "--version"], capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or [""])[0]


def loadgen(
    address: str,
    method: str,
    payloads: Path,
    load: Load,
    cpu: int | None = None,
    *,
    rate: float | None = None,
    samples: Path | None = None,
    may_fail: bool = False,
) -> dict[str, Any]:
    """One run of loadgen; its results. Open loop with ``rate``, else closed. ``samples`` takes some answers.

    Raises ``BenchError`` if an answer is not OK, unless calls may fail: of an overloaded peer. Whether the generator
    was the limit is the result's ``verdict``.
    """
    flags = ["--target", address, "--method", method, "--payload", str(payloads), "--delimited"]
    # The last calls may use their time up, too: a slow model needs seconds for those in flight.
    flags += ["--deadline", f"{load.deadline_s}s", "--grace", f"{load.deadline_s}s"]
    flags += ["--connections", str(load.connections), "--streams", str(load.inflight)]
    flags += ["--duration", f"{load.seconds}s", "--warmup", f"{load.warmup_s}s"]
    flags += ["--closed", str(load.connections * load.inflight)] if rate is None else ["--rate", str(rate)]
    flags += ["--samples", str(samples)] if samples else []
    flags += [part for name, value in TRACE.items() for part in ("--header", f"{name}:{value}")]
    run = run_generator(flags, cpus=[] if cpu is None else [cpu], on_line=lambda line: None)
    if run.interrupted:
        raise KeyboardInterrupt
    result = {key: value for key, value in run.found.items() if key not in LONG}
    if result["empty_answers"] or not (may_fail or set(result["status_with_warmup"]) == {"OK"}):
        seen = {key: result[key] for key in ("status_with_warmup", "empty_answers")}
        raise BenchError(f"not every answer was OK: {seen}")
    return result


def read_samples(path: Path) -> Iterator[tuple[int, pb.PredictResponse]]:
    """(payload number, answer) of each answer that loadgen kept."""
    for line in path.read_text().splitlines():
        found = json.loads(line)
        yield found["payload"], pb.PredictResponse.FromString(base64.b64decode(found["answer"]))
