"""The state of dispatchers as canary requests show it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Canaries:
    """The canaries of one dispatcher, over all its incarnations. ``age_s``: since it last finished a step, of a client
    or a canary.

    None: no canaries are sent, so an idle dispatcher's age would raise a false alarm.
    """

    dispatcher: int
    answered: int
    missed: int
    age_s: float | None
