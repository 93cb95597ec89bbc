"""Everything that a run will do, as data made before it: which message, and when."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadgen import payloads, traces
from loadgen.errors import UsageError


@dataclass(frozen=True)
class Plan:
    """A run. ``closed``: calls in flight of a closed loop, 0 for an open one, whose calls are due at ``times_ns``.

    ``times_ns`` int64[n] from the start of the warm-up, ``order`` uint32[n] (closed loop: used again and again) the
    payload of each. ``deadline_ns`` of each call; 0: none. ``expected``: the right answer to each payload.
    Measured is what is due (closed: what ends) from ``measure_from_ns`` to ``measure_until_ns``.
    """

    payloads: list[bytes]
    times_ns: NDArray[np.int64]
    order: NDArray[np.uint32]
    deadline_ns: int
    measure_from_ns: int
    measure_until_ns: int
    closed: int
    expected: list[bytes] | None
    load: dict[str, Any]  # the same in words, for results


def make(o: argparse.Namespace) -> Plan:
    """The plan that checked options ask for; raises ``UsageError``."""
    asked: NDArray[np.int64] | None = None  # payloads that a trace names
    times_ns: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    if o.trace:
        trace = traces.read(o.trace).faster(o.speedup or 1.0)
        end_ns = int(trace.times_ns[-1]) + 1 if o.duration is None else o.warmup + o.duration
        trace = trace.until(end_ns)
        times_ns, asked = trace.times_ns, trace.payload
        if times_ns.size == 0 or times_ns[-1] < o.warmup:
            raise UsageError(f"the trace {o.trace} ends within the warm-up of {o.warmup / 1e9:g} s")
    else:
        end_ns = o.warmup + o.duration
        if not o.closed:
            times_ns = o.arrivals.schedule(o.rate, o.duration / 1e9, o.warmup / 1e9, o.seed)
    messages = _messages(o)
    return Plan(
        payloads=messages,
        times_ns=times_ns,
        order=_order(o, len(times_ns), len(messages), asked),
        deadline_ns=o.deadline,
        measure_from_ns=o.warmup,
        measure_until_ns=end_ns,
        closed=o.closed or 0,
        expected=_expected(o, messages),
        load=_described(o, messages, end_ns),
    )


def _messages(o: argparse.Namespace) -> list[bytes]:
    if o.empty_payload:
        return [b""]
    if o.text_field is not None:
        return payloads.from_texts(o.text_field, o.text_lengths, o.texts, o.seed)
    return payloads.from_files(o.payload, o.delimited)


def _order(o: argparse.Namespace, calls: int, messages: int, asked: NDArray[np.int64] | None) -> NDArray[np.uint32]:
    """The payload of each call, in turn; of a closed loop for one round, which it repeats."""
    order = np.arange(messages if o.closed else calls, dtype=np.uint32) % np.uint32(messages)
    if asked is None:
        return order
    if asked.max(initial=-1) >= messages:
        raise UsageError(f"the trace {o.trace} names payload {asked.max()}; there are {messages}, counted from 0")
    return np.where(asked < 0, order, asked).astype(np.uint32)


def _expected(o: argparse.Namespace, messages: list[bytes]) -> list[bytes] | None:
    if not o.expect:
        return None
    answers = payloads.from_files([o.expect], delimited=True)
    if len(answers) != len(messages):
        raise UsageError(f"--expect {o.expect} holds {len(answers)} answers for {len(messages)} payloads")
    return answers


def _described(o: argparse.Namespace, messages: list[bytes], end_ns: int) -> dict[str, Any]:
    load: dict[str, Any] = {"arrivals": o.arrivals.text, "rate": o.rate} if o.arrivals else {}
    if o.trace:
        load = {"arrivals": "trace", "trace": o.trace, "speedup": o.speedup or 1.0}
    if o.closed:
        load = {"in_flight": o.closed}
    sizes = [len(message) for message in messages]
    return load | {
        "duration_s": (end_ns - o.warmup) / 1e9,
        "warmup_s": o.warmup / 1e9,
        "deadline_s": o.deadline / 1e9,
        "connections": o.connections,
        "streams": o.streams,
        "threads": o.threads,
        "payloads": len(messages),
        "payload_bytes_mean": round(sum(sizes) / len(sizes), 1),
    }
