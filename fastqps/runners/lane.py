"""Lanes: steps on a device, one behind the other. The dispatcher launches steps into lanes, and polls for their end."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, Protocol, TypeVar

from fastqps.runners import AsyncRunner, Runner

# Tests only: a step that holds this token kills its dispatcher, before it runs or behind it.
KILL_TOKEN = int(os.environ.get("FASTQPS_TEST_KILL_TOKEN", "-1"))


R = TypeVar("R", bound=Runner[Any])


class Lane(Protocol[R]):
    """``runners[step]`` owns the buffers of each step that can be in flight; they share one model."""

    runners: Sequence[R]

    def launch(self, step: int, n_items: int, n_tokens: int, n_new: int) -> None:
        """Starts a step behind those that run, by the three numbers that its runner's ``run`` takes.

        Its buffers belong to the device until ``wait`` returns; their stamps then say when it ran.
        """

    def warm_up(self) -> None:
        """Runs each runner's ``warm_up`` where its steps will run."""

    def due_s(self, step: int) -> float:
        """0 once the step is done; else the seconds after which to look again, ``inf`` where ``wake_fd`` will tell."""

    def wait(self, step: int) -> None:
        """Returns when the output rows are complete; raises what the step raised."""

    def settle(self) -> bool:
        """Serving begins. Returns whether ``refine`` may have work later."""

    def can_refine(self) -> bool:
        """Whether ``refine`` has work now."""

    def refine(self) -> None:
        """Prepares what makes steps like the latest ones faster, as ``AsyncRunner``. No step is in flight."""

    def close(self) -> None:
        """Gives the device back. No step is in flight."""


class _Fixed:
    """A lane whose steps are as fast as they can be from the start."""

    def settle(self) -> bool:
        return False

    def can_refine(self) -> bool:
        return False

    def refine(self) -> None:
        """Nothing is left to prepare."""


class InlineLane(_Fixed, Generic[R]):
    """Runs a step where it is launched: for devices that take no time."""

    def __init__(self, runners: Sequence[R]) -> None:
        self.runners = runners

    def launch(self, step: int, n_items: int, n_tokens: int, n_new: int) -> None:
        _run(self.runners[step], n_items, n_tokens, n_new)

    def warm_up(self) -> None:
        for runner in self.runners:
            runner.warm_up()

    def due_s(self, step: int) -> float:
        return 0.0

    def wait(self, step: int) -> None:
        """Nothing is left to wait for."""

    def close(self) -> None:
        """Nothing was taken."""


class ThreadLane(_Fixed, Generic[R]):
    """Runs steps on one thread of its own, so that the next one is prepared meanwhile.

    ``wake_fd``: an eventfd that it writes to at the end of each step; -1: none.
    """

    def __init__(self, runners: Sequence[R], wake_fd: int = -1) -> None:
        self.runners = runners
        self._wake_fd = wake_fd
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lane")
        self._running: list[Future[None] | None] = [None] * len(runners)

    def launch(self, step: int, n_items: int, n_tokens: int, n_new: int) -> None:
        running = self._thread.submit(_run, self.runners[step], n_items, n_tokens, n_new)
        self._running[step] = running
        if self._wake_fd >= 0:
            running.add_done_callback(lambda _: os.eventfd_write(self._wake_fd, 1))

    def warm_up(self) -> None:
        for runner in self.runners:
            self._thread.submit(runner.warm_up).result()

    def due_s(self, step: int) -> float:
        running = self._running[step]
        return 0.0 if running is None or running.done() else math.inf

    def wait(self, step: int) -> None:
        if running := self._running[step]:
            running.result()

    def close(self) -> None:
        self._thread.shutdown()


class AsyncLane(Generic[R]):
    """Steps of a device that works by itself: they run in one stream, and no thread of ours waits beside them."""

    def __init__(self, runners: Sequence[R]) -> None:
        self.runners = runners
        self._steps = [_asynchronous(runner) for runner in runners]
        stream = self._steps[0].make_stream()
        for step in self._steps:
            step.use(stream)

    def launch(self, step: int, n_items: int, n_tokens: int, n_new: int) -> None:
        _look_for_kill_token(self.runners[step], n_tokens)
        self._steps[step].launch(n_items, n_tokens, n_new)

    def warm_up(self) -> None:
        for runner in self.runners:
            runner.warm_up()

    def due_s(self, step: int) -> float:
        return self._steps[step].due_s()

    def wait(self, step: int) -> None:
        self._steps[step].wait()

    def settle(self) -> bool:
        return self._steps[0].settle()  # of the stream, which they share

    def can_refine(self) -> bool:
        return self._steps[0].can_refine()

    def refine(self) -> None:
        self._steps[0].refine()

    def close(self) -> None:
        """Nothing was taken."""


def make_lane(runner: R, steps: int, wake_fd: int = -1) -> Lane[R]:
    """A lane for ``steps`` steps in flight over one loaded model. ``wake_fd`` as ``ThreadLane``."""
    runners = [runner, *(runner.for_another_step() for _ in range(steps - 1))]
    if isinstance(runner, AsyncRunner):
        return AsyncLane(runners)
    return InlineLane(runners) if runner.instant else ThreadLane(runners, wake_fd)


def make_lanes(runner: R, lanes: int, steps: int, wake_fd: int = -1) -> list[Lane[R]]:
    """Lanes that run side by side, over the same weights. The rest as ``make_lane``."""
    return [
        make_lane(each, steps, wake_fd) for each in (runner, *(runner.for_another_lane() for _ in range(lanes - 1)))
    ]


def _asynchronous(runner: Runner[Any]) -> AsyncRunner[Any]:
    assert isinstance(runner, AsyncRunner)
    return runner


def _run(runner: Runner[Any], n_items: int, n_tokens: int, n_new: int) -> None:
    _look_for_kill_token(runner, n_tokens)
    stamps = runner.buffers().stamps
    stamps[0] = time.monotonic_ns()
    runner.run(n_items, n_tokens, n_new)
    stamps[1] = time.monotonic_ns()


def _look_for_kill_token(runner: Runner[Any], n_tokens: int) -> None:
    if KILL_TOKEN >= 0 and KILL_TOKEN in runner.buffers().input_ids[:n_tokens]:
        os.kill(os.getpid(), signal.SIGKILL)
