"""The process that holds one model's weights on one GPU, for the model's dispatchers there."""

from __future__ import annotations

import asyncio
import os
import signal

from fastqps.dispatcher.weight_holder import END
from fastqps.process.children import HolderSettings, write_settings
from fastqps.supervisor.child import Child, command, ended, environment
from fastqps.supervisor.generation import Generation
from fastqps.supervisor.log import Log
from fastqps.supervisor.plan import Plan
from fastqps.supervisor.shared import Shared
from fastqps.terminal import leveled

END_MAX_S = 2.0
REAP_MAX_S = 5.0


class Holder:
    """``fd``: an in-memory file, in which the process tells the dispatchers where the weights are."""

    def __init__(
        self, number: int, generation: Generation, device: int, server: Plan, shared: Shared, log: Log
    ) -> None:
        self.route = generation.route
        self.fd = os.memfd_create("fastqps weights", os.MFD_CLOEXEC)
        self.title = f"weights of {generation.card.name} ({server.devices[device].label})"
        self._number = number
        self._device = server.devices[device]
        self._config = server.config
        self._shared = shared
        self._log = log
        self._child: Child | None = None
        self._last_line = ""

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self.pid is not None

    @property
    def pid(self) -> int | None:
        """The pid of its process, while it runs."""
        return self._child.pid if self._child and not self._child.exited.done() else None

    @property
    def exit_code(self) -> int | None:
        """The exit code of its process, if that has ended unexpectedly."""
        return self._child.exited.result() if self._child and self._child.exited.done() else None

    @property
    def reason(self) -> str:
        """Why its process has ended."""
        assert self.exit_code is not None
        said = f": {self._last_line}" if self._last_line else ""
        return f"{self.title} {ended(self.exit_code)}{said}"

    def start(self, sees: dict[str, str]) -> None:
        """Starts its process, which takes as long as loading the model. ``sees``: the environment of its GPU.

        No process may still map an earlier one's weights. Raises ``OSError`` if the system refuses a process.
        """
        os.ftruncate(self.fd, 0)
        self._last_line = ""
        text = write_settings(self._settings())
        fds = (*self._shared.inherited, self.fd)
        self._child = Child(command(HolderSettings.module, text), fds, environment() | sees, self._on_line)
        self._log.info(f"started {self.title} (pid {self._child.pid})")

    async def stop(self) -> None:
        """Ends it, once no process maps the weights. Waits at most END_MAX_S and REAP_MAX_S: a driver may hold it for
        ever."""
        child, self._child = self._child, None
        if child is None:
            return
        child.signal(END)
        try:
            await asyncio.wait([child.exited], timeout=END_MAX_S)
        finally:  # even if no caller waits any more
            child.signal(signal.SIGKILL)
        await asyncio.wait([child.exited], timeout=REAP_MAX_S)
        if not child.exited.done():
            self._log.warning(f"{self.title} (pid {child.pid}) cannot be ended: the driver holds it")

    def close(self) -> None:
        """Closes the file, at the server's end. A second call does nothing."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def _settings(self) -> HolderSettings:
        return HolderSettings(
            **self._shared.settings(self._number, self.title, os.getpid(), ()),
            route=self.route,
            device=self._device.spec_alone,
            dtype=self._config.dtype,
            quantization=self._config.quantization,
            weights_fd=self.fd,
        )

    def _on_line(self, line: str) -> None:
        self._last_line = leveled(line)[1].strip() or self._last_line
        self._log.output(self.title, line)
