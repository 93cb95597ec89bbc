"""How many items a model's steps have with ``--max-batch-items auto``, and its sequences with ``--max-running auto``.

The first dispatcher of a model measures, or reads what is stored for models of its shape. The others take it from the
segment.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastqps._core import Segment
from fastqps.dispatcher import stored_steps
from fastqps.dispatcher.stored_steps import Choice, Circumstances
from fastqps.host.machine import now_utc
from fastqps.models.card import ModelCard
from fastqps.process.children import DispatcherSettings
from fastqps.process.startup import STARTUP
from fastqps.runners.first_steps import usual_tokens
from fastqps.runners.knee import GIVE_UP_S, Knee, find_knee, items_within
from fastqps.runners.lane import Lane
from fastqps.runners.timed_steps import TimedSteps
from fastqps.terminal import Level, say

_GENERATES = "max-running auto"
_ANSWERS = "max-batch-items auto"
_KNEE = "knee"  # where the size is set, and only bounded
# The flags without which nothing is measured.
_SKIPS = {
    _GENERATES: "--max-running N skips that",
    _ANSWERS: "--max-batch-items N skips that",
    _KNEE: "--max-step-time needs it",
}
# The longest time between two tokens of a sequence where more than CROWD run on a lane: an answer of 50 tokens takes
# a second.
TOKEN_S_MAX = 0.02


@dataclass(frozen=True)
class StepLimits:
    """The most items and tokens of a step; of a generator, the most sequences of a lane and the most rows. A longer
    item has a step of its own."""

    items: int
    tokens: int


def step_limits(
    card: ModelCard, settings: DispatcherSettings, segment: Segment, lanes: Sequence[Lane[Any]]
) -> StepLimits:
    """The limits of a dispatcher's steps, the same for all of a model. Nothing may run on the lanes yet."""
    if not settings.choose_items and not settings.max_step_time_ns:
        return StepLimits(settings.max_batch_items, settings.max_batch_tokens)
    if chosen := _chosen(segment, settings):
        return chosen
    with STARTUP.stage("choices"), stored_steps.measuring():
        chosen = _chosen(segment, settings) or _choose(card, settings, segment, lanes)
        cache_slots = chosen.items * settings.lanes if card.generates else 0
        segment.set_batch_limits(settings.route, items=chosen.items, tokens=chosen.tokens, cache_slots=cache_slots)
    return chosen


def _chosen(segment: Segment, settings: DispatcherSettings) -> StepLimits | None:
    """The limits that another dispatcher has chosen; None: none has yet."""
    route = segment.route(settings.route)
    return StepLimits(route.most_items, route.max_batch_tokens) if route.most_items else None


def _choose(card: ModelCard, settings: DispatcherSettings, segment: Segment, lanes: Sequence[Lane[Any]]) -> StepLimits:
    limits = StepLimits(settings.max_batch_items, settings.max_batch_tokens)
    if lanes[0].runners[0].instant:
        return limits  # a step of any size is short, and each costs the host time
    choice = _measured(card, settings, segment, lanes)
    if settings.choose_items:
        limits = dataclasses.replace(limits, items=choice.items)
    return _within_step_time(limits, choice.rates, card, settings) if settings.max_step_time_ns else limits


def _within_step_time(
    limits: StepLimits, rates: Sequence[tuple[int, float]], card: ModelCard, settings: DispatcherSettings
) -> StepLimits:
    """The largest limits up to ``limits`` that keep steps within ``--max-step-time``. All lanes share the device."""
    bound = f"max-step-time: {settings.max_step_time_ns / 1e6:g} ms"
    fit = items_within(settings.max_step_time_ns / 1e9 / settings.lanes, rates)
    if not fit:
        size, rate = rates[0]
        say(
            f"{bound}: a step of {size} takes {size / rate * settings.lanes * 1e3:.1f} ms, and none is shorter",
            Level.WARNING,
        )
        fit = 1
    items = min(limits.items, fit)
    if card.generates:  # a step must have room for a longest prompt beside the sequences that run
        say(f"{bound}: at most {items} sequences of {limits.items}")
        return StepLimits(items, limits.tokens)
    # Longer and shorter items take about the same time for a token.
    tokens = min(limits.tokens, fit * usual_tokens(card))
    say(f"{bound}: at most {items} items of {limits.items} and {tokens} tokens of {limits.tokens}")
    return StepLimits(items, tokens)


def _measured(card: ModelCard, settings: DispatcherSettings, segment: Segment, lanes: Sequence[Lane[Any]]) -> Choice:
    """The stored choice, or one that is measured now."""
    where = _circumstances(settings, segment)
    path = stored_steps.path_of(Path(card.path), where)
    name = _KNEE if not settings.choose_items else _GENERATES if card.generates else _ANSWERS
    if choice := stored_steps.find(path, where):
        say(f"{name}: {choice.items}, choice of {choice.measured} read from {path}")
        return choice
    say(f"{name}: measuring steps, for at most {GIVE_UP_S:g} s; {_SKIPS[name]}")
    # Others may run on the CPUs meanwhile, as the dispatchers that serve during a reload: CPU time is not theirs.
    alone = settings.device == "cpu" and settings.threads == 1
    steps = TimedSteps(card, lanes, time.process_time if alone else time.perf_counter)
    step_s_max = TOKEN_S_MAX / settings.lanes  # lanes take turns
    knee = find_knee(steps, steps.items_max, step_s_max if card.generates else math.inf)
    # A step that holds as many items of usual length as there is room for may hold more that are shorter.
    items = settings.max_batch_items if knee.items == steps.items_max else knee.items
    say(f"{name}: {items} of at most {settings.max_batch_items}, {_reason(knee, settings.lanes)}")
    choice = Choice(now_utc(), items, knee.rates)
    if knee.decided:
        stored_steps.store(path, where, choice)
    return choice


def _circumstances(settings: DispatcherSettings, segment: Segment) -> Circumstances:
    torch = sys.modules.get("torch")
    return Circumstances(
        device=settings.device_make,
        torch=str(torch.__version__) if torch else "",
        dtype=settings.dtype,
        quantization=settings.quantization,
        kernels=settings.kernels,
        threads=settings.threads,
        dispatchers=segment.route(settings.route).dispatchers.bit_count(),
        lanes=settings.lanes,
        async_steps=settings.async_steps,
        max_items=settings.max_batch_items,
        max_tokens=settings.max_batch_tokens,
    )


def _reason(knee: Knee, lanes: int) -> str:
    took = f"measured in {knee.seconds:.1f} s"
    if not knee.decided:
        took += "; uncertain, so the next start measures again"
    reason = f"{knee.rate:,.0f}/s of at best {knee.best:,.0f}/s ({took})"
    if knee.bounded:
        size, rate = knee.rates[-1]
        reason += f"; {size} would take {lanes * size / rate * 1e3:.1f} ms for a token, more than {TOKEN_S_MAX * 1e3:g}"
    return reason
