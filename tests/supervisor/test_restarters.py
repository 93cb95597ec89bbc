"""Whoever keeps worker slots filled can also empty those that were never filled."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from fastqps.supervisor.workers.restarter import Restarters


class FakeWorker:
    """As after a reload that failed before its dispatchers were started."""

    child = None
    vacated = False

    def clear(self) -> None:
        self.vacated = True


def test_workers_that_were_never_filled() -> None:
    """Where no process could be started for a holder of weights, nobody is there to leave, and nothing breaks."""
    nothing = cast(Any, None)
    restarters = Restarters(-1, nothing, nothing, lambda: None)
    workers = [FakeWorker(), FakeWorker()]
    assert asyncio.run(restarters.empty(cast(Any, workers), 0.1)) == ""
    assert all(worker.vacated for worker in workers)
