"""The speed of an autoscaler and its look-back time: ``spec.behavior`` of an HPA, and its defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PERIOD_S_MAX = 1800  # these three as the API's
WINDOW_S_MAX = 3600
POLICIES_MAX = 20
TOLERANCE = 0.1


@dataclass(frozen=True)
class Policy:
    """So many pods, or so many per cent of the pods that there were, within ``period_s``."""

    kind: Literal["Pods", "Percent"]
    value: int
    period_s: float

    def __post_init__(self) -> None:
        if self.value < 1 or not 0 < self.period_s <= PERIOD_S_MAX:
            raise ValueError(
                f"a policy of {self.value} per {self.period_s:g} s: at least 1, per {PERIOD_S_MAX} s at most"
            )


@dataclass(frozen=True)
class Rules:
    """The rules of one direction. ``select``: which of several policies counts. ``tolerance``: how far from its target
    a metric may be, as a share of it, before anything is done."""

    window_s: float
    policies: tuple[Policy, ...]
    select: Literal["Max", "Min", "Disabled"] = "Max"
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if not 0 <= self.window_s <= WINDOW_S_MAX:
            raise ValueError(f"a stabilization window of {self.window_s:g} s: 0 to {WINDOW_S_MAX}")
        if not 0 <= self.tolerance < 1:
            raise ValueError(f"a tolerance of {self.tolerance:g}: 0 to 1")
        if len(self.policies) > POLICIES_MAX or (not self.policies and self.select != "Disabled"):
            raise ValueError(f"{len(self.policies)} policies: 1 to {POLICIES_MAX}")

    @property
    def period_s_max(self) -> float:
        """The longest period of any policy: changes before that are forgotten."""
        return max((policy.period_s for policy in self.policies), default=0.0)


@dataclass(frozen=True)
class Behavior:
    """Both directions."""

    up: Rules
    down: Rules


# What counts for a direction of which an HPA says nothing.
DEFAULT_UP = Rules(0, (Policy("Pods", 4, 15), Policy("Percent", 100, 15)))
DEFAULT_DOWN = Rules(300, (Policy("Percent", 100, 15),))
DEFAULT = Behavior(DEFAULT_UP, DEFAULT_DOWN)
# Ours, as in k8s/: at once upwards, at most a tenth or two pods a minute downwards.
CAUTIOUS = Behavior(
    DEFAULT_UP,
    Rules(300, (Policy("Percent", 10, 60), Policy("Pods", 2, 60)), select="Min"),
)
