"""The pods of a deployment: each takes its time to start, and some have to wait for a node."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Start:
    """``pull_s``: from being scheduled to a running container; ``warm_s``: from there to ready, with metrics of 0."""

    pull_s: float = 10.0
    warm_s: float = 20.0


@dataclass(frozen=True)
class Nodes:
    """Where pods find room: in ``spare`` places beside those that are taken at the beginning, and on new nodes, which
    take ``start_s`` to start. Places that stay free for ``idle_s`` are given up, except the spare ones."""

    spare: float = math.inf
    start_s: float = 150.0
    idle_s: float = 600.0
    places_max: float = math.inf


@dataclass
class Cohort:
    """Pods that were started together."""

    count: int
    running_s: float  # inf: they wait for room that nobody will make
    ready_s: float


class Cluster:
    """``pods`` are ready at ``now_s``."""

    def __init__(self, pods: int, start: Start, nodes: Nodes, now_s: float) -> None:
        self.cohorts = [Cohort(pods, -math.inf, -math.inf)]
        self.replicas = pods
        self._start, self._nodes = start, nodes
        self._places: float = pods + nodes.spare
        self._free_since_s = now_s
        self._next_s = math.inf  # when the next pods become ready
        self._ready = pods

    def ready(self, now_s: float) -> int:
        """The number of pods that answer requests."""
        if now_s >= self._next_s:
            self._count(now_s)
        return self._ready

    def scale(self, now_s: float, replicas: int) -> None:
        """So many from now on: the newest go first."""
        by = replicas - self.replicas
        self.replicas = replicas
        if by > 0:
            self._add(now_s, by)
        while by < 0:
            last = self.cohorts[-1]
            gone = min(last.count, -by)
            last.count -= gone
            by += gone
            if not last.count and len(self.cohorts) > 1:
                self.cohorts.pop()
        self._let_nodes_go(now_s)
        self._count(now_s)

    def _add(self, now_s: float, pods: int) -> None:
        nodes = self._nodes
        at_once = int(min(pods, max(0.0, self._places - (self.replicas - pods))))
        later = int(min(pods - at_once, nodes.places_max - self._places)) if pods > at_once else 0
        self._places += later
        for count, scheduled_s in (
            (at_once, now_s),
            (later, now_s + nodes.start_s),
            (pods - at_once - later, math.inf),
        ):
            if count > 0:
                running_s = scheduled_s + self._start.pull_s
                self.cohorts.append(Cohort(count, running_s, running_s + self._start.warm_s))

    def _let_nodes_go(self, now_s: float) -> None:
        kept = self.replicas + (self._nodes.spare if math.isfinite(self._nodes.spare) else 0)
        if self._places <= kept:
            self._free_since_s = now_s
        elif now_s - self._free_since_s >= self._nodes.idle_s and math.isfinite(self._places):
            self._places = kept

    def _count(self, now_s: float) -> None:
        self._ready = sum(cohort.count for cohort in self.cohorts if cohort.ready_s <= now_s)
        self._next_s = min((cohort.ready_s for cohort in self.cohorts if cohort.ready_s > now_s), default=math.inf)
        # The old ones are alike in all that anybody asks for.
        old = [cohort for cohort in self.cohorts if cohort.ready_s <= now_s - OLD_S]
        if len(old) > 1:
            total = sum(cohort.count for cohort in old)
            young = [cohort for cohort in self.cohorts if cohort.ready_s > now_s - OLD_S]
            self.cohorts = [Cohort(total, old[-1].running_s, old[-1].ready_s), *young]


OLD_S = 900.0  # longer than any window over a metric, and than a pod's CPU is not trusted
