"""The kinds of steps. Each is one row here, a stepper in C++, buffers, and a runner on each device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fastqps._core import TASKS, DecodeStepper, EncodeStepper, Segment, Stepper, WakeFds
from fastqps.models.card import ModelCard


class MakeStepper(Protocol):
    def __call__(
        self,
        segment: Segment,
        wake_fds: WakeFds,
        me: int,
        *,
        epoch: int,
        route: int,
        max_items: int,
        max_tokens: int,
        delay_ns: int,
    ) -> Stepper:
        """The stepper of dispatcher ``me``, for steps of ``max_items`` items and ``max_tokens`` tokens."""


@dataclass(frozen=True)
class StepKind:
    """How the steps of a task are packed and answered. Devices have a table of runners by kind."""

    name: str
    make_stepper: MakeStepper


ENCODE = StepKind("encode", EncodeStepper)  # a step answers all of its items
DECODE = StepKind("decode", DecodeStepper)  # a step makes one token of each of its items
_KINDS: Mapping[str, StepKind] = {kind.name: kind for kind in (ENCODE, DECODE)}


def kind_of_task(task: str) -> StepKind:
    """The kind of the steps that answer ``task``."""
    return _KINDS[TASKS[task].steps]


def step_kind(card: ModelCard) -> StepKind:
    """The kind of the model's steps."""
    return kind_of_task(card.task)
