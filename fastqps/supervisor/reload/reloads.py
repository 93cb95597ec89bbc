"""Accepts requests for reloads: SIGHUP reloads all models, the admin port one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from fastqps.process.served_models import Reloaded, ReloadRefused
from fastqps.supervisor.log import Log
from fastqps.supervisor.outcome import Outcome
from fastqps.supervisor.reload.reload import Reloader
from fastqps.supervisor.workers.failure_domain import Domain
from fastqps.supervisor.workers.worker_slot import WorkerSlot


class Reloads:
    """Runs one reload at a time. A SIGHUP during a reload is remembered once, because files may have changed since."""

    def __init__(
        self,
        reloader: Reloader,
        models: Sequence[str],
        domains: Mapping[WorkerSlot, Domain],
        outcome: Outcome,
        log: Log,
    ) -> None:
        self.last: Reloaded | None = None
        self.reloader = reloader
        self._models = models
        self._domains = domains
        self._outcome = outcome
        self._log = log
        self._task: asyncio.Task[Reloaded | None] | None = None
        self._again = False

    @property
    def doing(self) -> str:
        """The step at which a running reload is; "" if none runs."""
        return self.reloader.running

    def start(self, model: int, path: str) -> asyncio.Task[Reloaded | None]:
        """Begins to reload one model from ``path``; "" means from where it was read. May raise ``ReloadRefused``."""
        if self._running():
            raise ReloadRefused(f"another reload runs: {self.doing or 'it is about to begin'}")
        self._check_phase()
        return self._begin([(model, path)])

    def start_all(self) -> None:
        """Begins to reload all models, each from where it was read."""
        try:
            self._check_phase()
        except ReloadRefused as refused:
            self._log.warning(f"nothing is reloaded: {refused}")
            return
        if self._running():
            self._again = True
        else:
            self._begin([(model, "") for model in range(len(self._models))])

    def cancel(self) -> None:
        """Cancels a running reload, because the server ends."""
        if self._task:
            self._task.cancel()

    def _running(self) -> bool:
        return self._task is not None and not self._task.done()

    def _check_phase(self) -> None:
        if self._outcome.leaving.is_set():
            raise ReloadRefused("the server is about to end")
        if not self._domains or next(iter(self._domains)).phase != "serving":
            raise ReloadRefused("the server does not serve yet")

    def _begin(self, which: Sequence[tuple[int, str]]) -> asyncio.Task[Reloaded | None]:
        self._task = asyncio.create_task(self._run(which))
        self._outcome.watch(self._task)
        return self._task

    async def _run(self, which: Sequence[tuple[int, str]]) -> Reloaded | None:
        found: Reloaded | None = None
        for model, path in which:
            self.last = found = await self.reloader.reload(model, path, self._domains)
        if self._again:
            self._again = False
            asyncio.get_running_loop().call_soon(self.start_all)  # after this one
        return found
