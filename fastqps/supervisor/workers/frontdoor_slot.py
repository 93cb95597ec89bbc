"""The worker slot of front door i."""

from __future__ import annotations

import json
from typing import Any

from fastqps._core import PRODUCTS_LEVEL, DoorState
from fastqps.config.settings import SETTINGS
from fastqps.config.tenants import tenant_header, tenant_weights
from fastqps.devices.names import resolve_dtype
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
            **self.shared.settings(self.index, self.title, parent_pid, self.server.door_cpus[self.index]),
            credentials_fd=self.shared.credentials_fd,
            admin=self.shared.admin,
            dtype=dtype,
            repeatable=self._repeatable(dtype),
            native=json.dumps(self._native(listener_fd)),
        )

    def _native(self, listener_fd: int) -> dict[str, Any]:
        """What csrc/contract/settings.h lists. The supervisor calls listen() on the listeners when it is ready."""
        config = self.server.config
        return {setting.field: getattr(config, setting.field) for setting in SETTINGS if setting.meaning.door} | {
            "listener_fd": listener_fd,
            "http_fd": self.shared.http_fd,  # plain HTTP; -1: none
            "aliases": tuple(self.server.aliases.items()),
            "tenant_header": tenant_header(config),
            "tenant_weights": tenant_weights(config),
            "compute_type": "gpu" if config.device.startswith("cuda") else config.device.partition(":")[0],
            "auto_truncate": {"on": True, "off": False}.get(config.auto_truncate),
            "trace_ratio": config.trace_ratio if config.otlp_endpoint else None,
        }

    def _repeatable(self, dtype: str) -> str:
        config = self.server.config
        if config.device == "cpu":
            own = dtype == "float32" or PRODUCTS_LEVEL != "baseline"  # see fastqps/ops/cpu/matrix.py
            return "all" if own and config.quantization != "fp8" else "static"
        return "none"

    def fds(self, listener_fd: int) -> tuple[int, ...]:
        http = (self.shared.http_fd,) if self.shared.http_fd >= 0 else ()
        return (*self.shared.inherited, listener_fd, *http, self.shared.credentials_fd)
