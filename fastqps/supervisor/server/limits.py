"""The limits of the served models, which change while they serve."""

from __future__ import annotations

import dataclasses

from fastqps._core import RouteView
from fastqps.config.edge import REMOTE
from fastqps.process.served_models import Limits, ModelLimits
from fastqps.supervisor.generation import Generation
from fastqps.supervisor.log import Log
from fastqps.supervisor.plan import Plan
from fastqps.supervisor.shared import Shared
from fastqps.supervisor.workers.workers import Workers


class RuntimeLimits:
    """Reads and writes the limits in the routes of the serving generations. The next generation of a model starts with
    the settings of the server."""

    def __init__(self, server: Plan, shared: Shared, workers: Workers, log: Log) -> None:
        self._config = server.config
        self._shared = shared
        self._workers = workers
        self._log = log

    def all(self) -> list[ModelLimits]:
        """The limits of all models, by index; none of an edge, which has no steps."""
        if self._config.device == REMOTE:
            return []
        return [self._of(generation) for generation in self._workers.serving]

    def change(self, model: int, now: Limits) -> ModelLimits:
        """Has a model's dispatchers obey these limits from their next step on. They are within ``most``."""
        generation = self._workers.serving[model]
        items = now.items if now.running is None else now.running
        assert items
        self._shared.segment.set_limits(generation.route, items=items, lanes=now.lanes, async_steps=now.async_steps)
        self._shared.wake_everybody()
        text = ", ".join(f"{key} {value}" for key, value in dataclasses.asdict(now).items() if value is not None)
        self._log.info(f"limits of {generation.name}: {text}")
        return self._of(generation)

    def _of(self, generation: Generation) -> ModelLimits:
        route: RouteView = self._shared.segment.route(generation.route)
        lanes, async_steps = generation.room.lanes, self._config.async_steps
        generates = generation.card.generates
        now = _limits(generates, route.max_batch_items, route.lanes or lanes, async_steps and route.async_steps)
        return ModelLimits(generation.card.name, now, _limits(generates, route.most_items, lanes, async_steps))


def _limits(generates: bool, items: int, lanes: int, async_steps: bool) -> Limits:
    chosen = items or None  # 0: the model's dispatchers have not chosen it yet
    return Limits(chosen if generates else None, None if generates else chosen, lanes, async_steps)
