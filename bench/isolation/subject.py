"""The servers under test: one front door and one dispatcher on one core, and a step's time by its metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.runner import SERVER_CPU
from fastqps.process.server_process import ServerProcess
from fastqps.telemetry.live.counts import Counts
from fastqps.telemetry.live.view import View
from fastqps.v1 import predict_pb2 as pb

QUEUE = 256  # less than the streams of a connection: a flood fills the queue, and not only its own streams
STEP_US, BATCH = 4000, 8  # of the modelled device: this host has time to spare for it
CAPACITY = 1e6 * BATCH / STEP_US  # requests per second
DEADLINE_S = 1.0  # many times the queue's length
TOKENS = 16  # of each request
_PROFILE = f"""name = "isolation"
status = "estimated"
source = "steps of one length, whatever is in them"
gpu = ""
model = "any"
task = "embed"

[step]
fixed_us = {STEP_US}
per_token_us = 0
"""
_FLAGS = ("--frontdoors=1", "--dispatchers=1", "--pin=off", f"--max-queue-items={QUEUE}")


@contextmanager
def modelled(folder: Path) -> Iterator[ServerProcess]:
    """A server of the modelled device."""
    profile = folder / "isolation.toml"
    profile.write_text(_PROFILE)
    device = (f"--device=sim:{profile}", f"--max-batch-items={BATCH}")
    with ServerProcess("--model=minilm", *device, *_FLAGS, cpus=[SERVER_CPU]) as server:
        yield server


@contextmanager
def computing() -> Iterator[ServerProcess]:
    """A server of MiniLM on this CPU, with all settings that it chooses itself."""
    patient = "--default-timeout=60s"  # a saturated model on a busy machine is slow
    with ServerProcess("--model=minilm", "--device=cpu", patient, *_FLAGS, cpus=[SERVER_CPU]) as server:
        yield server


def message(priority: pb.Priority = pb.PRIORITY_UNSPECIFIED, tenant: str = "", group: str = "") -> pb.PredictRequest:
    """A request of ``TOKENS`` tokens."""
    ids = [101, *[2000] * (TOKENS - 2), 102]
    return pb.PredictRequest(token_ids={"ids": ids}, priority=priority, tenant=tenant, group=group)


def step_us(before: Counts, after: Counts) -> float:
    """The mean time of the device's steps."""
    [then], [now] = before["dispatchers"], after["dispatchers"]
    return (now["busy_ns"] - then["busy_ns"]) / 1000 / max(1, now["steps"] - then["steps"])


def host_share(during: View) -> float:
    """The share of the time in which the device waited for the host to prepare a step or to read its answers."""
    [dispatcher] = during.dispatchers
    return sum(dispatcher.idle.get(reason, 0.0) for reason in ("gather", "launch", "scatter"))
