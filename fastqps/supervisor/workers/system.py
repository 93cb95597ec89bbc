"""The part of the operating system by which worker slots run their processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from fastqps import _core
from fastqps.supervisor.workers import progress
from fastqps.supervisor.workers.child import Child

Spawn = Callable[[Sequence[str], Sequence[int], Mapping[str, str], Callable[[str], None]], Child]


class System(NamedTuple):
    """Starts processes, and looks at them and at the clock. All delays and deadlines are the event loop's."""

    spawn: Spawn = Child
    now_ns: Callable[[], int] = _core.now_ns  # of CLOCK_MONOTONIC, as heartbeats are
    is_stopped: Callable[[int], bool] = progress.is_stopped


HOST = System()
