"""Turns a run into its results: the verdict, and the JSON that holds everything. docs/loadgen.md defines each key."""

from __future__ import annotations

import argparse
import os
import platform
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadgen.histogram import Histogram
from loadgen.run import Run, target_words
from loadgen.verdict import LATENESS_LEAST_NS, Measured, Verdict, judge

if TYPE_CHECKING:
    from loadgen._native import Histogram as Recorded

SCHEMA_VERSION = 1
NEVER_ANSWERED = {"NOT_SENT", "EXPIRED_UNSENT", "UNFINISHED"}
_DELAYED_MOST = 0.01  # of the time of the generator's threads
CLOSED_NOTE = "closed loop: not for SLOs"
_TIMES = {
    "response_time_us": "response",
    "service_time_us": "service",
    "lateness_us": "lateness",
    "own_lateness_us": "own_lateness",
    "failed_time_us": "response_failed",
}
MAIN = ("response", "service")
_THREAD = ("cpu_s", "wall_s", "slept_s", "run_delay_s")
_STREAM_TIMES = {"first_message_us": "first_message", "message_gap_us": "message_gap"}


def verdict_of(run: Run) -> Verdict:
    """Judges a run by what the engine says of it."""
    result, timeline = run.result, run.timeline
    if run.interrupted and result.due == 0:
        return Verdict("INVALID", ["interrupted before anything was measured"])
    threads = [thread for thread in result.threads if thread.wall_s > 0]
    delayed = [thread.run_delay_s / thread.wall_s for thread in threads]
    awake = [1 - thread.slept_s / thread.wall_s for thread in threads]
    wanted = [thread.cpu_s / thread.wall_s + late for thread, late in zip(threads, delayed, strict=True)]
    verdict = judge(
        Measured(
            closed=bool(run.plan.closed),
            due=result.due,
            sent=result.sent_in_window,
            p99_ns=Histogram.of(result.response).percentile_ns(99),
            own_lateness_p99_ns=Histogram.of(result.own_lateness).percentile_ns(99),
            own_share=_own_share(run),
            open_calls=timeline.open_calls,
            p50_ns=timeline.p50_ns,
            busy=[max(pair) for pair in zip(awake, wanted, strict=True)],
            delayed=delayed,
            abandoned=0 if result.stopped else result.outcomes.get("UNFINISHED", 0),
        )
    )
    if result.due and not result.outcomes.get("OK") and not _never_came_to_it(run, verdict):
        return Verdict("INVALID", [f"no call was answered OK: {status_words(result.outcomes)}", *verdict.reasons], True)
    return verdict


def _never_came_to_it(run: Run, verdict: Verdict) -> bool:
    """The generator fell so far behind that most measured calls were not even sent, while earlier ones were answered:
    its own limit, no failure of the server."""
    outcomes = run.result.outcomes
    unsent = sum(outcomes.get(name, 0) for name in ("NOT_SENT", "EXPIRED_UNSENT"))
    earlier = run.result.outcomes_all.get("OK", 0)
    return verdict.word == "INVALID" and unsent > run.result.due / 2 and earlier > 0


def _own_share(run: Run) -> float:
    """The part of all lateness that the generator caused."""
    result = run.result
    if result.lateness.sum_ns:
        return result.own_lateness.sum_ns / result.lateness.sum_ns
    # No measured call was sent at all: whose doing that was shows in those of the warm-up.
    return float(max((second.own_lateness_max_ns for second in run.timeline.seconds), default=0) > LATENESS_LEAST_NS)


def status_words(outcomes: dict[str, int]) -> str:
    """``OK 10,000 · RESOURCE_EXHAUSTED 12``, the most frequent first."""
    return " · ".join(f"{name} {n:,}" for name, n in sorted(outcomes.items(), key=lambda pair: -pair[1])) or "none"


def document(run: Run, verdict: Verdict, o: argparse.Namespace, command: Sequence[str]) -> dict[str, Any]:
    """The results as JSON."""
    result = run.result
    window_s = max(0, result.measure_until_ns - result.measure_from_ns) / 1e9
    closed = bool(run.plan.closed)
    times = {name: summary(getattr(result, key), closed) for name, key in _TIMES.items()}
    if o.call == "server-stream":
        times |= {name: summary(getattr(result, key), closed) for name, key in _STREAM_TIMES.items()}
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": verdict.word,
        "reasons": verdict.reasons,
        "notes": notes(run),
        "interrupted": run.interrupted,
        "loop": "closed" if closed else "open",
        "target": target_words(o.target),
        "method": o.method,
        "call": o.call,
        "load": run.plan.load,
        "duration_s": round(window_s, 6),
        "offered_rate": None if closed else _rate(result.due, window_s),
        "achieved_rate": _rate(result.sent_in_window, window_s),
        "rate": _rate(result.ok_in_window, window_s),
        "calls": {"due": result.due, "sent": result.sent, "ok": result.outcomes.get("OK", 0)},
        "status": dict(result.outcomes),
        "status_with_warmup": dict(result.outcomes_all),
        **times,
        "spectrum": {name: Histogram.of(getattr(result, name)).spectrum_us() for name in MAIN},
        "timeline": [second.as_json() for second in run.timeline.measured()],
        "connections": _connections(run),
        "cpu": _cpu(run),
        "waiting_max": result.waiting_max,
        "in_flight_max": result.in_flight_max,
        "messages": result.messages,
        "empty_answers": result.empty_answers,
        "verified": {"checked": result.checked, "wrong": result.wrong} if o.expect else None,
        "environment": _environment(),
        "seeds": dict.fromkeys(("arrivals", "texts"), o.seed),
        "command": ["python", "-m", "loadgen", *command],
        "started": datetime.fromtimestamp(run.started_unix_s, UTC).isoformat(timespec="milliseconds"),
    }


def summary(histogram: Recorded, closed: bool) -> dict[str, Any]:
    """The summary of one kind of time. For a closed loop it states what the times do not show."""
    return Histogram.of(histogram).summary_us() | ({"note": CLOSED_NOTE} if closed else {})


def notes(run: Run) -> list[str]:
    """Notes for readers of the figures, which do not invalidate them."""
    result, notes = run.result, []
    timed = (result.lateness, result.own_lateness, result.response)
    late_ns, own_ns, response_ns = (Histogram.of(times).percentile_ns(99) for times in timed)
    waited_ns = late_ns - own_ns
    if not run.plan.closed and waited_ns > max(1_000_000, response_ns // 10):
        notes.append(
            f"calls waited {waited_ns / 1e6:.1f} ms (p99) for the server before they could be sent (no free stream, no "
            "window): that is latency. If the server is not at its limit: more --connections or --streams"
        )
    threads = result.threads
    delayed = sum(thread.run_delay_s for thread in threads) / max(1e-9, sum(thread.wall_s for thread in threads))
    if delayed > _DELAYED_MOST:
        notes.append(f"other programs had the generator's CPU for {delayed:.0%} of the time; give it one (taskset)")
    lost = sum(connection.connects - 1 for connection in result.connections)
    if lost > 0:
        notes.append(f"connections were made again {lost} times")
    return notes


def _rate(count: int, seconds: float) -> float:
    return round(count / seconds, 3) if seconds > 0 else 0.0


def _connections(run: Run) -> dict[str, Any]:
    sent = [connection.sent for connection in run.result.connections]
    losses: Counter[str] = Counter()
    for connection in run.result.connections:
        losses.update(connection.losses)
    return {
        "count": len(sent),
        "sent_min": min(sent),
        "sent_max": max(sent),
        "imbalance": round(max(sent) * len(sent) / sum(sent), 4) if sum(sent) else None,  # largest over mean
        "reconnects": sum(connection.connects - 1 for connection in run.result.connections),
        "losses": dict(losses),
    }


def _cpu(run: Run) -> dict[str, Any]:
    threads = run.result.threads
    wall_s = sum(thread.wall_s for thread in threads)
    return {
        "seconds": round(sum(thread.cpu_s for thread in threads), 6),
        "fraction": round(sum(thread.cpu_s for thread in threads) / wall_s, 4) if wall_s else 0.0,  # of each thread
        "busy_fraction": round(1 - sum(thread.slept_s for thread in threads) / wall_s, 4) if wall_s else 0.0,
        "run_delay_s": round(sum(thread.run_delay_s for thread in threads), 6),
        "threads": [{name: getattr(thread, name) for name in _THREAD} for thread in threads],
    }


def _environment() -> dict[str, Any]:
    """The machine of the generator, and its software."""
    from loadgen import _native  # not for a run that fails before

    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "cpu": model[1] if model else platform.machine(),
        "allowed_cpus": sorted(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "nghttp2": _native.NGHTTP2,
    }
