"""The state of a running server, as its admin pages, metrics and load reports read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fastqps._core import BusyUnion, LoadWindow
from fastqps.process.readiness import Readiness, readiness
from fastqps.process.served_models import OUTCOMES, ServedVersion
from fastqps.supervisor.credentials.watch import CredentialWatch
from fastqps.supervisor.exposure import is_loopback
from fastqps.supervisor.listener import internal_target
from fastqps.supervisor.plan import Plan
from fastqps.supervisor.reload.reloads import Reloads
from fastqps.supervisor.server.limits import RuntimeLimits
from fastqps.supervisor.shared import Shared
from fastqps.supervisor.workers.workers import Workers
from fastqps.telemetry.metrics.source import Canaries
from fastqps.telemetry.tracing import Tracing


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

    def processes(self) -> Iterator[tuple[str, int]]:
        """The (role, pid) of all processes of the server."""
        return self._workers.processes()

    def restarts(self) -> dict[str, int]:
        """How often processes were started again, by role."""
        return self._workers.restarts()

    def kernel_fallbacks(self) -> Mapping[str, int]:
        """How often torch's operation replaced each kernel; empty if no device has kernels."""
        on_gpu = any(device.gpu for device in self._server.devices)
        return self._shared.kernels.fallbacks() if on_gpu else {}

    def canaries(self) -> list[Canaries]:
        """The canary results of the running dispatchers."""
        return self._workers.canaries()

    def filled(self) -> dict[int, bool]:
        """The dispatchers that must serve, and whether each does. Other indices are reserved for a model's next
        generation, which may warm up or end for any time without being down."""
        filled = self._workers.filled()
        return {worker.index: worker.ready for worker in filled if not (worker.on_trial or worker.retired)}

    def doors(self) -> list[bool]:
        """Whether each front door serves."""
        return [worker.ready for worker in self._workers.doors]

    def model_of(self, dispatcher: int) -> int:
        """The model that a dispatcher serves."""
        return self._server.model_of(dispatcher)

    def device_of(self, dispatcher: int) -> int:
        """The device that a dispatcher runs on, by its index."""
        return self._server.device_of(dispatcher)

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
        return {(name, outcome): self.reloads.counts[name, outcome] for name in self.models for outcome in OUTCOMES}

    def reload_failed(self) -> dict[str, bool]:
        """For each model: whether its last reload failed."""
        return {name: self.reloads.outcomes.get(name) == "failed" for name in self.models}

    # ---- access

    def own_target(self) -> str:
        """The address at which the front doors answer the server's own calls."""
        return internal_target(self._shared.internal)

    def admits(self, authorization: str) -> bool:
        """Whether this authorization header is accepted."""
        return self.credentials.now.admits(authorization)

    def on_loopback(self) -> bool:
        """Whether only this machine can reach the admin port."""
        return is_loopback(self._server.config.admin_host)

    def open_to_others(self) -> bool:
        """Whether other machines can reach the admin port, and no token is needed."""
        return not self.credentials.now.tokens and not self.on_loopback()

    # ---- tracing

    def trace_spans(self) -> dict[str, int]:
        """The number of spans by outcome; empty if no call is traced."""
        return self._tracing.spans() if self._tracing else {}
