"""Steps on a device, one behind the other. The dispatcher launches into a lane and waits for what it launched."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from fastqps.runners import AsyncRunner, StepRunner

# Tests only: a step that holds this token kills its dispatcher, before it runs or behind it.
KILL_TOKEN = int(os.environ.get("FASTQPS_TEST_KILL_TOKEN", "-1"))


R = TypeVar("R", bound=StepRunner)


class Lane(Protocol[R]):
    """``runners[step]`` owns the buffers of each step that can be in flight; they share one model."""

    runners: Sequence[R]

    def launch(self, step: int, n_items: int, n_tokens: int, third: int) -> None:
        """Starts a step behind those that run, by the three numbers that its runner's ``run`` takes.

        Its buffers belong to the device until ``wait`` returns; their stamps then say when it ran.
        """

    def warm_up(self) -> None:
        """Runs each runner's ``warm_up`` where its steps will run."""

    def done(self, step: int) -> bool:
        """Whether ``wait`` would return at once."""

    def wait(self, step: int, most_s: float | None = None) -> None:
        """Returns when the output rows are complete, or after ``most_s``; raises what the step raised."""

    def close(self) -> None:
        """Gives the device back. No step is in flight."""


class InlineLane(Generic[R]):
    """Runs a step where it is launched: for devices that take no time."""

    def __init__(self, runners: Sequence[R]) -> None:
        self.runners = runners

    def launch(self, step: int, n_items: int, n_tokens: int, third: int) -> None:
        _run(self.runners[step], n_items, n_tokens, third)

    def warm_up(self) -> None:
        for runner in self.runners:
            runner.warm_up()

    def done(self, step: int) -> bool:
        return True

    def wait(self, step: int, most_s: float | None = None) -> None:
        """Nothing is left to wait for."""

    def close(self) -> None:
        """Nothing was taken."""


class ThreadLane(Generic[R]):
    """Runs steps on one thread of its own, so that the next one is prepared meanwhile."""

    def __init__(self, runners: Sequence[R]) -> None:
        self.runners = runners
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lane")
        self._running: list[Future[None] | None] = [None] * len(runners)

    def launch(self, step: int, n_items: int, n_tokens: int, third: int) -> None:
        self._running[step] = self._thread.submit(_run, self.runners[step], n_items, n_tokens, third)

    def warm_up(self) -> None:
        for runner in self.runners:
            self._thread.submit(runner.warm_up).result()

    def done(self, step: int) -> bool:
        running = self._running[step]
        return running is None or running.done()

    def wait(self, step: int, most_s: float | None = None) -> None:
        running = self._running[step]
        if running is not None and most_s != 0:
            with contextlib.suppress(TimeoutError):
                running.result(most_s)

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

    def launch(self, step: int, n_items: int, n_tokens: int, third: int) -> None:
        _look_for_kill_token(self.runners[step], n_tokens)
        self._steps[step].launch(n_items, n_tokens, third)

    def warm_up(self) -> None:
        for runner in self.runners:
            runner.warm_up()

    def done(self, step: int) -> bool:
        return self._steps[step].done()

    def wait(self, step: int, most_s: float | None = None) -> None:
        if most_s != 0:
            self._steps[step].wait(most_s)

    def close(self) -> None:
        """Nothing was taken."""


def make_lane(runner: R, steps: int) -> Lane[R]:
    """A lane for ``steps`` steps in flight over one loaded model."""
    runners = [runner, *(runner.twin() for _ in range(steps - 1))]
    if isinstance(runner, AsyncRunner):
        return AsyncLane(runners)
    return InlineLane(runners) if runner.instant else ThreadLane(runners)


def _asynchronous(runner: StepRunner) -> AsyncRunner:
    assert isinstance(runner, AsyncRunner)
    return runner


def _run(runner: StepRunner, n_items: int, n_tokens: int, third: int) -> None:
    _look_for_kill_token(runner, n_tokens)
    stamps = runner.buffers().stamps
    stamps[0] = time.monotonic_ns()
    runner.run(n_items, n_tokens, third)
    stamps[1] = time.monotonic_ns()


def _look_for_kill_token(runner: StepRunner, n_tokens: int) -> None:
    if KILL_TOKEN >= 0 and KILL_TOKEN in runner.buffers().input_ids[:n_tokens]:
        os.kill(os.getpid(), signal.SIGKILL)
