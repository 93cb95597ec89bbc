"""Several kinds of calls at one time over one connection, as behind a proxy, and what became of each kind.

All calls are due at times that are fixed before the run, and times count from there. A call that is refused or late
counts as one that takes its whole deadline: what is never answered must not make a percentile look better.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.load import LONG, PREDICT
from bench.runner import LOAD_CPU, Bench
from fastqps.bench.measure.generator import run_generator
from fastqps.bench.measure.workload import write_messages
from fastqps.bench.results.result import BenchError
from fastqps.v1 import predict_pb2 as pb

WARMUP_S = 1.0
STREAMS = 1024  # as many as a front door allows on a connection

Times = NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    """Calls whose answers are looked at together. ``due_s``: their times. ``message``: which of ``messages`` each call
    carries; without, they take turns."""

    name: str
    messages: Sequence[pb.PredictRequest]
    due_s: Times
    message: NDArray[np.int64] | None = None


@dataclass
class Ends:
    """How the measured calls of a kind ended: int64[n] ``message``, float64[n] ``wait_us``, the deadline of those that
    were not answered."""

    outcomes: Counter[str] = field(default_factory=Counter)
    message: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    wait_us: Times = field(default_factory=lambda: np.empty(0))

    def __add__(self, other: Ends) -> Ends:
        """Both runs together."""
        return Ends(
            self.outcomes + other.outcomes,
            np.concatenate([self.message, other.message]),
            np.concatenate([self.wait_us, other.wait_us]),
        )

    @property
    def count(self) -> int:
        """All calls that were due."""
        return self.outcomes.total()

    @property
    def refused(self) -> int:
        """RESOURCE_EXHAUSTED, for whatever reason."""
        return self.outcomes["RESOURCE_EXHAUSTED"]

    @property
    def late(self) -> int:
        """Neither answered nor refused."""
        return self.count - self.outcomes["OK"] - self.refused


@dataclass(frozen=True)
class Mixed:
    """One run: the ends by kind, and loadgen's own summary."""

    ends: dict[str, Ends]
    run: dict[str, Any]


def poisson(rate: float, seconds: float, seed: int) -> Times:
    """Independent calls, from the start of the warm-up to the end."""
    rng = np.random.default_rng(seed)
    until_s = WARMUP_S + seconds
    return np.sort(rng.uniform(0, until_s, rng.poisson(rate * until_s)))


def run(address: str, kinds: Sequence[Kind], folder: Path, deadline_s: float) -> Mixed:
    """One run over one connection. Raises ``BenchError`` if a call ended in another way than those expected of load."""
    first = np.cumsum([0, *(len(kind.messages) for kind in kinds)])
    payloads = write_messages(folder / "mixed", (message for kind in kinds for message in kind.messages))
    trace, calls = folder / "trace.csv", folder / "calls.csv"
    due_s = np.concatenate([kind.due_s for kind in kinds])
    which = np.concatenate([start + _turns(kind) for start, kind in zip(first, kinds, strict=False)])
    order = np.argsort(due_s, kind="stable")
    rows = zip((due_s[order] * 1e6).tolist(), which[order].tolist(), strict=True)
    trace.write_text("t_us,payload\n" + "".join(f"{t_us:.3f},{payload}\n" for t_us, payload in rows))
    # A trace begins with its first call.
    flags = ["--trace", str(trace), "--warmup", f"{max(0.0, WARMUP_S - due_s.min()):.6f}s", "--calls", str(calls)]
    summary = _generate(address, payloads, [*flags, "--streams", str(STREAMS)], deadline_s)
    del summary["load"]["trace"]  # it is gone when the results are read
    ends = _read(calls, kinds, first, deadline_s)
    return Mixed(ends, summary | {"by_kind": {name: dict(end.outcomes) for name, end in ends.items()}})


def saturate(
    address: str, messages: Mapping[str, Sequence[pb.PredictRequest]], bench: Bench, in_flight: int
) -> dict[str, dict[str, Any]]:
    """loadgen's summaries by kind, where each kind always has ``in_flight`` calls open, on a connection of its own."""
    with ThreadPoolExecutor(len(messages)) as pool:
        runs = {}
        for name, many in messages.items():
            payloads = bench.write(many)
            flags = ["--closed", str(in_flight), "--duration", f"{bench.seconds}s", "--warmup", f"{WARMUP_S}s"]
            runs[name] = pool.submit(_generate, address, payloads, flags, 2 * (WARMUP_S + bench.seconds))
        return {name: found.result() for name, found in runs.items()}


def _generate(address: str, payloads: Path, flags: Sequence[str], deadline_s: float) -> dict[str, Any]:
    usual = ["--target", address, "--method", PREDICT, "--payload", str(payloads), "--delimited", "--connections", "1"]
    usual += ["--deadline", f"{deadline_s}s", "--grace", f"{deadline_s + 1}s"]
    found = run_generator([*usual, *flags], cpus=[LOAD_CPU], on_line=lambda line: None)
    if found.interrupted:
        raise KeyboardInterrupt
    return {key: value for key, value in found.found.items() if key not in LONG}


def _turns(kind: Kind) -> NDArray[np.int64]:
    return np.arange(len(kind.due_s)) % len(kind.messages) if kind.message is None else kind.message


_OF_LOAD = {"OK", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "TIMEOUT", "EXPIRED_UNSENT"}


def _read(calls: Path, kinds: Sequence[Kind], first: NDArray[np.int64], deadline_s: float) -> dict[str, Ends]:
    with calls.open() as file:
        found = [(int(row["payload"]), float(row["response_us"]), row["outcome"]) for row in csv.DictReader(file)]
    if strange := {outcome for *_, outcome in found} - _OF_LOAD:
        raise BenchError(f"calls ended with {', '.join(sorted(strange))}")
    payload = np.array([one[0] for one in found], np.int64)
    ok = np.array([one[2] == "OK" for one in found], bool)
    wait_us = np.where(ok, [one[1] for one in found], deadline_s * 1e6)
    names = np.array([one[2] for one in found])
    ends = {}
    for kind, begin, end in zip(kinds, first, first[1:], strict=False):
        mine = (payload >= begin) & (payload < end)
        ends[kind.name] = Ends(Counter(names[mine].tolist()), payload[mine] - begin, wait_us[mine])
    return ends
