"""The two load generators: h2load, the peers' yardstick, and our own driver, which looks at gRPC statuses."""

from __future__ import annotations

import json
import re
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastqps.v1 import predict_pb2 as pb

PREDICT = "/fastqps.v1.PredictService/Predict"
PREDICT_BATCH = "/fastqps.v1.PredictService/PredictBatch"
# What gRPC clients send beside the necessary.
HEADERS = {
    "grpc-timeout": "10S",
    "user-agent": "grpc-python/1.66.0 grpc-c/43.0.0 (linux; chttp2)",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}
DRIVER = Path(__file__).parents[1] / "build/bench/drive"


class LoadError(Exception):
    """A generator failed, or the server answered something else than OK."""


@dataclass(frozen=True)
class Load:
    """How many connections with how many calls in flight on each, and for how long."""

    connections: int = 16
    inflight: int = 64
    seconds: float = 5.0
    warmup_s: float = 1.0


def h2load(address: str, path: str, body: Path, load: Load, cpu: int) -> float:
    """Answers per second. h2load sees HTTP only: compare with the server's own counters whether they were OK."""
    headers = {"te": "trailers", "content-type": "application/grpc", **HEADERS}
    command = ["taskset", "-c", str(cpu), "h2load", "-t", "1", "-c", str(load.connections), "-m", str(load.inflight)]
    command += ["-D", str(round(load.seconds)), "--warm-up-time", str(round(load.warmup_s)), "-d", str(body)]
    command += [part for name, value in headers.items() for part in ("-H", f"{name}: {value}")]
    text = _run([*command, f"http://{address}{path}"], load)
    rate = re.search(r"finished in .*?, ([\d.]+) req/s", text)
    counts = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored", text)
    if not rate or not counts or int(counts[1]) == 0 or int(counts[2]) + int(counts[3]):
        raise LoadError(f"h2load: {text}")
    return float(rate[1])


def drive(address: str, path: str, payloads: Path, load: Load, cpu: int | None = None, **more: Any) -> dict[str, Any]:
    """One run of the driver; its JSON. ``more``: its further flags. Raises ``LoadError`` if an answer is not OK."""
    command = ["taskset", "-c", str(cpu)] if cpu is not None else []
    flags = {"connections": load.connections, "inflight": load.inflight, "seconds": load.seconds}
    flags |= {"warmup": load.warmup_s, **more}
    command += [str(DRIVER), "--target", address, "--path", path, "--payloads", str(payloads)]
    command += [part for name, value in flags.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    command += [part for name, value in HEADERS.items() for part in ("--header", f"{name}:{value}")]
    result: dict[str, Any] = json.loads(_run(command, load))
    if set(result["status"]) != {"0"} or result["empty_answers"] or result["unfinished"]:
        seen = {key: result[key] for key in ("status", "empty_answers", "unfinished")}
        raise LoadError(f"not every answer was OK: {seen}")
    return result


def read_samples(path: Path) -> Iterator[tuple[int, pb.PredictResponse]]:
    """(payload number, answer) of each answer that the driver kept."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        payload, size = struct.unpack_from("<II", data, at)
        at += 8 + size
        yield payload, pb.PredictResponse.FromString(data[at - size + 5 : at])


def _run(command: list[str], load: Load) -> str:
    limit_s = load.seconds + load.warmup_s + 30
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    if done.returncode:
        raise LoadError(f"{command[0]}: {done.stderr or done.stdout}")
    return done.stdout
