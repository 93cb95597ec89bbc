"""One run: the engine is made, connected, started, watched, and asked for its result. Ctrl-C keeps what there is."""

from __future__ import annotations

import argparse
import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadgen.errors import LoadgenError, UsageError
from loadgen.options import headers, tls_options
from loadgen.plan import Plan
from loadgen.timeline import Second, Timeline, step_ns

if TYPE_CHECKING:
    from loadgen._native import Engine, Result

_WATCH_S = 0.1
_NICE = 10
_STOP_GRACE_S = 1.0  # for open calls, after Ctrl-C
_END_S = 60.0  # an engine that has not ended so long after it should have never will
_KEPT_SAMPLES = 1_000
_SAME_NAMES = ("connections", "streams", "threads", "call")  # of options, and of the engine's arguments


@dataclass(frozen=True)
class Run:
    """The result of a run. ``interrupted``: by Ctrl-C. ``started_unix_s``: its start."""

    plan: Plan
    result: Result
    timeline: Timeline
    interrupted: bool
    started_unix_s: float


def measure(
    engine: Engine,
    plan: Plan,
    o: argparse.Namespace,
    watch: Callable[[list[Second]], None],
    started: Callable[[int], None] = lambda at_ns: None,
) -> Run:
    """Runs ``plan``. ``started`` hears when it began (CLOCK_MONOTONIC); ``watch`` is called several times a second,
    with the seconds that have become complete.

    Raises ``LoadgenError`` if there is no server at the target.
    """
    try:
        engine.connect(o.connect_timeout / 1e9)
    except ConnectionError as error:
        reason = str(error).removeprefix(f"{o.target[0]}:{o.target[1]}: ")
        raise LoadgenError(f"cannot connect to {target_words(o.target)}: {reason}") from None
    started_s = time.time()
    timeline = Timeline(
        plan.measure_from_ns, plan.measure_until_ns, step_ns(plan.measure_until_ns - plan.measure_from_ns)
    )
    _start(engine, plan)
    # Nice values are a thread's own on Linux: where we share a CPU with the engine's threads, they come first.
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
    started(time.monotonic_ns())
    interrupted = False
    try:
        _follow(engine, timeline, watch, plan.measure_until_ns / 1e9 + o.grace / 1e9 + _END_S)
    except KeyboardInterrupt:
        interrupted = True
        engine.stop(min(_STOP_GRACE_S, o.grace / 1e9))
        _follow(engine, timeline, watch, _STOP_GRACE_S + _END_S, cut=True)
    except BaseException:
        engine.stop(0.0)
        raise
    return Run(plan, engine.result(), timeline, interrupted, started_s)


def target_words(target: tuple[str, int]) -> str:
    """HOST:PORT, an IPv6 address in brackets."""
    return f"[{target[0]}]:{target[1]}" if ":" in target[0] else f"{target[0]}:{target[1]}"


def _start(engine: Engine, plan: Plan) -> None:
    from_ns, until_ns = plan.measure_from_ns, plan.measure_until_ns
    if plan.closed:
        engine.start_closed(plan.closed, until_ns, plan.order, plan.deadline_ns, measure_from_ns=from_ns)
    else:
        times = (plan.times_ns, plan.order, plan.deadline_ns)
        engine.start(*times, measure_from_ns=from_ns, measure_until_ns=until_ns)


def _follow(
    engine: Engine,
    timeline: Timeline,
    watch: Callable[[list[Second]], None],
    limit_s: float,
    cut: bool = False,
) -> None:
    """Waits until the run has ended; cuts it off when nothing can come of it."""
    give_up_s = time.monotonic() + limit_s
    while True:
        ended = engine.wait(_WATCH_S)
        seconds = timeline.take(engine.poll(), ended, cut)
        watch(seconds)
        if ended:
            return
        if seconds and all(set(second.status) == {"UNIMPLEMENTED"} for second in timeline.seconds):
            engine.stop(0.0)  # no later call will fare better
            cut = True
        if time.monotonic() > give_up_s:
            raise LoadgenError("the engine did not come to its end")


def engine_for(plan: Plan, o: argparse.Namespace) -> Engine:
    """The native engine for a plan. Raises ``LoadgenError`` if it is not built, ``UsageError`` for what it refuses."""
    try:
        from loadgen._native import Engine
    except ImportError as error:
        raise LoadgenError(f"the native engine is not built, run `make build` ({error.__cause__ or error})") from None
    host, port = o.target
    try:
        return Engine(
            host,
            port,
            o.method,
            headers(o),
            plan.payloads,
            grace_ns=o.grace,
            expected=plan.expected,
            samples_max=_KEPT_SAMPLES if o.samples else 0,
            record_calls=bool(o.calls),
            interval_ns=step_ns(plan.measure_until_ns - plan.measure_from_ns),
            **{name: getattr(o, name) for name in _SAME_NAMES},
            **tls_options(o),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None


def close(engine: Engine) -> None:
    """Ends the engine's threads, at a second Ctrl-C too."""
    with contextlib.suppress(RuntimeError):
        engine.stop(0.0)
        engine.wait(_STOP_GRACE_S)
