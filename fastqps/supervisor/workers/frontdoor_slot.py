"""The worker slot of front door i."""

from __future__ import annotations

from fastqps._core import DoorState
from fastqps.config.tenants import tenant_header, tenant_weights
from fastqps.devices.dtypes import resolve_dtype
from fastqps.process.children import DoorSettings
from fastqps.supervisor.workers.worker_slot import WorkerSlot


class FrontDoorSlot(WorkerSlot):
    """The worker slot of a front door."""

    role = "frontdoor"

    @property
    def title(self) -> str:
        return f"frontdoor {self.index}"

    @property
    def line(self) -> DoorState:
        return self.shared.segment.door(self.index)

    @property
    def busy_since_ns(self) -> int:
        return self.line.turn_started_ns

    def announce(self, pid: int) -> None:
        self.shared.segment.start_door(self.index, pid)

    def settle(self) -> None:
        self.shared.segment.reap_door(self.index)

    def settings(self, listener_fd: int, parent_pid: int) -> DoorSettings:
        config = self.server.config
        dtype = resolve_dtype(config.device, config.dtype)
        return DoorSettings(
            **self._common(parent_pid, self.server.door_cpus[self.index]),
            listener_fd=listener_fd,
            http_fd=self.shared.http_fd,
            internal_fd=self.shared.internal.fileno(),
            credentials_fd=self.shared.credentials_fd,
            max_message_bytes=config.max_message_bytes,
            max_tokenize_bytes=config.max_tokenize_bytes,
            max_request_items=config.max_request_items,
            max_stream_inflight=config.max_stream_inflight,
            cors=config.cors,
            default_timeout_ns=config.default_timeout_ns,
            max_timeout_ns=config.max_timeout_ns,
            max_connection_age_ns=config.max_connection_age_ns,
            stream_idle_timeout_ns=config.stream_idle_timeout_ns,
            canary_interval_ns=config.canary_interval_ns,
            tenant_header=tenant_header(config),
            tenant_weights=tenant_weights(config),
            rerun=config.rerun,
            auto_truncate={"on": True, "off": False}.get(config.auto_truncate),
            load_reports=config.load_reports,
            trace_ratio=config.trace_ratio if config.otlp_endpoint else None,
            dtype=dtype,
            repeatable=self._repeatable(dtype),
        )

    def _repeatable(self, dtype: str) -> str:
        config = self.server.config
        if config.device == "cpu":
            return "all" if (dtype, config.quantization) == ("float32", "none") else "static"
        return "none"

    def fds(self, listener_fd: int) -> tuple[int, ...]:
        http = (self.shared.http_fd,) if self.shared.http_fd >= 0 else ()
        shared = (self.shared.internal.fileno(), self.shared.credentials_fd)
        return (*self.shared.inherited, listener_fd, *http, *shared)
