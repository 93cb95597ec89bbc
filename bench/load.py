"""The load generators: h2load and wrk, yardsticks of gRPC and HTTP, and our own loadgen, which looks at statuses."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fastqps.bench.measure.generator import run_generator
from fastqps.bench.results.result import BenchError
from fastqps.v1 import predict_pb2 as pb

PREDICT = "/fastqps.v1.PredictService/Predict"
PREDICT_BATCH = "/fastqps.v1.PredictService/PredictBatch"
# Metadata that gRPC clients send beside the necessary.
TRACE = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
HEADERS = {"grpc-timeout": "10S", "user-agent": "grpc-python/1.66.0 grpc-c/43.0.0 (linux; chttp2)", **TRACE}
PATIENCE_S = 300.0  # of a call to a model on a CPU, for slow machines: the admission predicts the wait, too
LONG = ("spectrum", "timeline", "command")  # of loadgen's results, what a point does not keep


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
    result = {key: value for key, value in run.results.items() if key not in LONG}
    if result["empty_answers"] or not (may_fail or set(result["status_with_warmup"]) == {"OK"}):
        seen = {key: result[key] for key in ("status_with_warmup", "empty_answers")}
        raise BenchError(f"not every answer was OK: {seen}")
    if not (may_fail or result["rate"]):
        raise BenchError(f"no call was answered in the {load.seconds:g} s that were measured; set --seconds higher")
    return result


def read_samples(path: Path) -> Iterator[tuple[int, pb.PredictResponse]]:
    """(payload number, answer) of each answer that loadgen kept."""
    for line in path.read_text().splitlines():
        sample = json.loads(line)
        yield sample["payload"], pb.PredictResponse.FromString(base64.b64decode(sample["answer"]))


# ---- wrk, which speaks HTTP/1.1 without pipelining: one request for all connections, its answers counted


CONNECTIONS = 64  # of wrk
_UNITS = {"us": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0}


class WrkRun(NamedTuple):
    """``rate``: answers per second; ``service_p99_us``: of all answers, from the write of the request."""

    rate: float
    answers: int
    service_p99_us: float


@dataclass(frozen=True)
class HttpRequest:
    """A POST."""

    path: str
    body: bytes
    headers: dict[str, str]

    def write(self, folder: Path) -> Path:
        """Writes wrk's script, and the body beside it, into a folder of its own."""
        folder.mkdir()
        (folder / "body").write_bytes(self.body)
        script = [f'wrk.method, wrk.body = "POST", io.open("{folder / "body"}", "rb"):read("*a")']
        script += [f'wrk.headers["{name}"] = "{value}"' for name, value in self.headers.items()]
        (folder / "script.lua").write_text("\n".join(script) + "\n")
        return folder / "script.lua"


def wrk(address: str, path: str, script: Path, seconds: float, cpu: int) -> WrkRun:
    """One run. ``BenchError`` unless every answer was a success."""
    command = ["taskset", "-c", str(cpu), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{max(1, round(seconds))}s"]
    command += ["--timeout", "30s", "--latency", "-s", str(script), f"http://{address}{path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    return parse_wrk(done.stdout + done.stderr)


def parse_wrk(text: str) -> WrkRun:
    """Parses the output of wrk."""
    requests = re.search(r"(\d+) requests in ([\d.]+)(ms|s|m),", text)
    p99 = re.search(r"^ *99% +([\d.]+)(us|ms|s|m)$", text, re.MULTILINE)
    if not requests or not p99 or not int(requests[1]) or "Non-2xx" in text or "Socket errors" in text:
        raise BenchError(f"wrk: {text.strip()}")
    count = int(requests[1])
    return WrkRun(count / (float(requests[2]) * _UNITS[requests[3]]), count, 1e6 * float(p99[1]) * _UNITS[p99[2]])
