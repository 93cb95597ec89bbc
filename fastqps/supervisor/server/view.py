"""The state of a running server, as its admin pages, metrics and load reports read it; and its limits, which change."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from fastqps._core import BusyUnion, LoadWindow, RouteView
from fastqps.config.edge import REMOTE
from fastqps.process.served_models import OUTCOMES, Limits, ModelLimits, Readiness, ServedVersion
from fastqps.supervisor.credentials.files import is_loopback
from fastqps.supervisor.credentials.watch import CredentialWatch
from fastqps.supervisor.generation import Generation
from fastqps.supervisor.log import Log
from fastqps.supervisor.plan import Plan
from fastqps.supervisor.reload.reloads import Reloads
from fastqps.supervisor.shared import Shared
from fastqps.supervisor.workers.dispatcher_slot import DispatcherSlot
from fastqps.supervisor.workers.worker_slot import WorkerSlot
from fastqps.supervisor.workers.workers import Workers
from fastqps.telemetry.tracing import Tracing

_PHASES = {"lame duck": "a lame duck: it serves, and will drain soon"}


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


class View:
    """Implements ``fastqps.admin.Served``. Read-only, except ``reloads`` and ``limits``."""

    def __init__(
        self,
        server: Plan,
        shared: Shared,
        workers: Workers,
        credentials: CredentialWatch,
        reloads: Reloads,
        limits: RuntimeLimits,
        tracing: Tracing | None,
    ) -> None:
        self.segment = shared.segment
        self.models: Sequence[str] = [card.name for card in server.cards]
        self.device = ", ".join(device.description for device in server.devices)
        self.devices: Sequence[str] = [device.label for device in server.devices]
        self.busy = BusyUnion(shared.segment)
        self.window = LoadWindow(shared.segment, self.busy)
        self.capacity = server.capacity
        budget_ns = server.config.queue_budget_ns
        self.queue_budget_s = None if budget_ns is None else budget_ns * 1e-9
        self.batch_delay_s = server.config.max_batch_delay_ns * 1e-9
        self.target_saturation = server.config.target_saturation
        self.credentials = credentials
        self.reloads = reloads
        self.limits = limits
        self.processes, self.restarts, self.canaries = workers.processes, workers.restarts, workers.canaries
        self.model_of, self.device_of = server.model_of, server.device_of
        self._server = server
        self._shared = shared
        self._workers = workers
        self._tracing = tracing

    # ---- whether it serves

    def readiness(self) -> Readiness:
        """The readiness, for /readyz and /livez."""
        return readiness(self.segment.phase, self._workers.doors, self._workers.of_serving(), self.models)

    @property
    def ready(self) -> bool:
        """Whether load balancers should send requests here."""
        return not self.readiness().reasons

    # ---- its processes

    def kernel_fallbacks(self) -> Mapping[str, int]:
        """How often torch's operation replaced each kernel; empty if no device has kernels."""
        on_gpu = any(device.gpu for device in self._server.devices)
        return self._shared.kernels.fallbacks() if on_gpu else {}

    def filled(self) -> dict[int, bool]:
        """The dispatchers that must serve, and whether each does. Other indices are reserved for a model's next
        generation, which may warm up or end for any time without being down."""
        filled = self._workers.filled()
        return {worker.index: worker.ready for worker in filled if not (worker.on_trial or worker.retired)}

    def doors(self) -> list[bool]:
        """Whether each front door serves."""
        return [worker.ready for worker in self._workers.doors]

    # ---- its models

    def route_of(self, model: int) -> int:
        """The route that answers for a model."""
        return self._workers.serving[model].route

    def versions(self) -> list[ServedVersion]:
        """The served version of each model."""
        serving = self._workers.serving
        return [ServedVersion(each.card.name, each.card.version, each.number) for each in serving]

    def reload_counts(self) -> dict[tuple[str, str], int]:
        """The number of reloads by model and outcome."""
        counts = self.reloads.reloader.counts
        return {(name, outcome): counts[name, outcome] for name in self.models for outcome in OUTCOMES}

    def reload_failed(self) -> dict[str, bool]:
        """For each model: whether its last reload failed."""
        return {name: self.reloads.reloader.outcomes.get(name) == "failed" for name in self.models}

    # ---- access

    def admits(self, authorization: str) -> bool:
        """Whether this authorization header is accepted."""
        return self.credentials.now.admits(authorization)

    def on_loopback(self) -> bool:
        """Whether only this machine can reach the admin port."""
        return is_loopback(self._server.config.admin_host)

    # ---- tracing

    def trace_spans(self) -> dict[str, int]:
        """The number of spans by outcome; empty if no call is traced."""
        return self._tracing.spans() if self._tracing else {}


def readiness(
    phase: str, doors: Sequence[WorkerSlot], dispatchers: Sequence[DispatcherSlot], models: Sequence[str]
) -> Readiness:
    """A server is ready while it serves and each role (front doors; the dispatchers of each model) has a ready process.

    One process that restarts does not make the server unready: the others take its work. (All replicas would drop out
    of a load balancer for a fault that no client sees.)
    """
    roles: list[tuple[str, list[WorkerSlot]]] = [("front door", [*doors])]
    for i, model in enumerate(models):
        roles.append((f"dispatcher of {model}", [worker for worker in dispatchers if worker.model == i]))
    missing, hopeless = [], []
    for role, processes in roles:
        if not any(process.ready for process in processes):
            missing.append(f"no {role} is ready")
        if all(process.given_up for process in processes):
            hopeless.append(f"every {role} stays down")
    workers = [*doors, *dispatchers]
    degraded = [f"{s.title} {_state(s)}" for s in workers if not s.ready]
    return Readiness(
        reasons=(*([] if phase == "serving" else [f"the server is {_PHASES.get(phase, phase)}"]), *missing),
        degraded=tuple(degraded),
        hopeless=tuple(hopeless),
        answers=phase in ("serving", "lame duck") and not missing,
    )


def _state(process: WorkerSlot) -> str:
    return f"stays down: {process.given_up}" if process.given_up else "is not ready"
