"""Several kinds of calls at one time over one connection, as behind a proxy, and what became of each kind.

All calls are due at times that are fixed before the run, and times count from there. A call that is refused or late
counts as one that takes its whole deadline: what is never answered must not make a percentile look better.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.load import PREDICT, Load, loadgen
from bench.runner import LOAD_CPU, Bench
from fastqps.bench.measure.generator import run_generator
from fastqps.bench.results.result import BenchError
from fastqps.process.server_process import ServerProcess
from fastqps.telemetry.live.counts import Counts
from fastqps.telemetry.live.remote import fetch_counts
from fastqps.telemetry.live.view import view
from fastqps.v1 import predict_pb2 as pb

WARMUP_S = 1.0
STREAMS = 1024  # as many as a front door allows on a connection
BEHIND = 0.05  # share of the time in which the device waits for the host, from which on its times prove nothing
_OF_LOAD = {"OK", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "TIMEOUT", "EXPIRED_UNSENT"}

Times = NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    """Calls whose answers are looked at together. ``due_s``: their times. ``message``: which of ``messages`` each call
    carries; without, they take turns."""

    name: str
    messages: Sequence[pb.PredictRequest]
    due_s: Times
    message: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Ends:
    """How the measured calls of a kind ended: ``message`` and ``wait_us`` of each, the deadline of those that were not
    answered. ``lost``: the percentage that was refused or late."""

    message: NDArray[np.int64]
    wait_us: Times
    lost: float

    def wait(self, percent: float) -> float:
        """A percentile of the waits, in µs."""
        return float(np.percentile(self.wait_us, percent, method="higher"))


@dataclass(frozen=True)
class Mixed:
    """One run: the ends by kind, the mean step of the device, and whether the generator or the host was a limit."""

    ends: dict[str, Ends]
    step_us: float
    doubtful: bool


@dataclass(frozen=True)
class Mix:
    """Runs of mixed calls against a server."""

    bench: Bench
    server: ServerProcess
    deadline_s: float

    def poisson(self, rate: float, seed: int) -> Times:
        """Independent calls, from the start of the warm-up to the end."""
        rng = np.random.default_rng(seed)
        until_s = WARMUP_S + self.bench.seconds
        return np.sort(rng.uniform(0, until_s, rng.poisson(rate * until_s)))

    def run(self, *kinds: Kind) -> Mixed:
        """One run over one connection. ``BenchError`` if a call ended in another way than those expected of load."""
        folder, first = self.bench.folder, np.cumsum([0, *(len(kind.messages) for kind in kinds)])
        payloads = self.bench.write(message for kind in kinds for message in kind.messages)
        trace, calls = folder / "trace.csv", folder / "calls.csv"
        due_s = np.concatenate([kind.due_s for kind in kinds])
        which = np.concatenate([start + _turns(kind) for start, kind in zip(first, kinds, strict=False)])
        order = np.argsort(due_s, kind="stable")
        rows = zip((due_s[order] * 1e6).tolist(), which[order].tolist(), strict=True)
        trace.write_text("t_us,payload\n" + "".join(f"{t_us:.3f},{payload}\n" for t_us, payload in rows))
        # A trace begins with its first call.
        flags = ["--target", self.server.address, "--method", PREDICT, "--payload", str(payloads), "--delimited"]
        flags += ["--trace", str(trace), "--warmup", f"{max(0.0, WARMUP_S - due_s.min()):.6f}s", "--calls", str(calls)]
        flags += ["--deadline", f"{self.deadline_s}s", "--grace", f"{self.deadline_s + 1}s"]
        flags += ["--connections", "1", "--streams", str(STREAMS)]
        before = fetch_counts(self.server.admin)
        generated = run_generator(flags, cpus=[LOAD_CPU], on_line=lambda line: None)
        if generated.interrupted:
            raise KeyboardInterrupt
        after = fetch_counts(self.server.admin)
        idle = [dispatcher.idle for dispatcher in view(before, after).dispatchers]
        behind = any(sum(each.get(why, 0.0) for why in ("gather", "launch", "scatter")) > BEHIND for each in idle)
        busy_ns = _total(after, "busy_ns") - _total(before, "busy_ns")
        steps = _total(after, "steps") - _total(before, "steps")
        step_us = busy_ns / 1000 / max(1, steps)
        return Mixed(self._read(calls, kinds, first), step_us, behind or generated.results["verdict"] == "INVALID")

    def saturate(self, messages: Mapping[str, Sequence[pb.PredictRequest]], in_flight: int) -> dict[str, float]:
        """Rates by kind, where each kind always has ``in_flight`` calls open, on a connection of its own."""
        seconds = self.bench.seconds
        load = Load(1, in_flight, seconds, WARMUP_S, 2 * (WARMUP_S + seconds))
        payloads = [self.bench.write(many) for many in messages.values()]
        with ThreadPoolExecutor(len(messages)) as pool:
            runs = pool.map(lambda path: loadgen(self.server.address, PREDICT, path, load, LOAD_CPU), payloads)
            return {name: run["rate"] for name, run in zip(messages, runs, strict=True)}

    def _read(self, calls: Path, kinds: Sequence[Kind], first: NDArray[np.int64]) -> dict[str, Ends]:
        with calls.open() as file:
            rows = [(int(row["payload"]), float(row["response_us"]), row["outcome"]) for row in csv.DictReader(file)]
        if strange := {outcome for *_, outcome in rows} - _OF_LOAD:
            raise BenchError(f"calls ended with {', '.join(sorted(strange))}")
        payload = np.array([one[0] for one in rows], np.int64)
        ok = np.array([one[2] == "OK" for one in rows], bool)
        wait_us = np.where(ok, [one[1] for one in rows], self.deadline_s * 1e6)
        ends = {}
        for kind, begin, end in zip(kinds, first, first[1:], strict=False):
            mine = (payload >= begin) & (payload < end)
            ends[kind.name] = Ends(payload[mine] - begin, wait_us[mine], 100 * float(1 - ok[mine].mean()))
        return ends


def _turns(kind: Kind) -> NDArray[np.int64]:
    return np.arange(len(kind.due_s)) % len(kind.messages) if kind.message is None else kind.message


def _total(counts: Counts, key: Literal["busy_ns", "steps"]) -> int:
    return sum(dispatcher[key] for dispatcher in counts["dispatchers"])
