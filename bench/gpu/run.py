"""The context of a step of the suite: where it computes, how long it may take, and where its figures go."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bench.gpu.models.checkpoints import CACHE, checkpoint
from bench.gpu.models.shapes import SHAPES, Shape
from bench.gpu.plan import TARGETS
from bench.gpu.results import Results
from bench.gpu.sampler import GpuSampler
from bench.result_file import Row
from fastqps.host.gpus import FAKE_LIBRARY

T = TypeVar("T")
Interval = tuple[float, float]


@dataclass
class Run:
    """``dry``: on the CPU at tiny shapes, to prove the code. ``ends_s``: when it has to end, of CLOCK_MONOTONIC."""

    step: str
    results: Results
    dry: bool
    ends_s: float
    cache: Path = CACHE
    gpu: GpuSampler = field(default_factory=GpuSampler)
    _failed: dict[str, Exception] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The length of each point's measurement."""
        return 1.0 if self.dry else 2.5

    @property
    def device(self) -> str:
        """The value of ``--device``. In a dry run it is the tests' own CUDA, where they give it."""
        return "cpu" if self.dry and not os.environ.get(FAKE_LIBRARY) else "cuda:0"

    @property
    def dtype(self) -> str:
        """bf16, which is compared; in a dry run what every CPU has."""
        return "float32" if self.dry else "bfloat16"

    @property
    def argument(self) -> str:
        """The part of the step's name behind its colon."""
        return self.step.partition(":")[2]

    @property
    def left_s(self) -> float:
        """The seconds until the step has to end."""
        return self.ends_s - time.monotonic()

    def enough(self, seconds: float, what: str) -> bool:
        """Whether so much time is left; if not, ``what`` is named as left out."""
        if self.left_s > seconds:
            return True
        self.leave_out(f"{what}: {max(0.0, self.left_s):.0f} s left of about {seconds:.0f} s needed")
        return False

    def leave_out(self, what: str) -> None:
        """Names what is not measured."""
        self.say(f"left out: {what}")
        self.results.leave_out(self.step, what)

    def shape(self, name: str) -> Shape:
        """A true shape; in a dry run its tiny sibling."""
        return SHAPES[name].tiny() if self.dry else SHAPES[name]

    def checkpoint(self, name: str) -> Path:
        """The directory of a checkpoint of that shape."""
        return checkpoint(self.shape(name), self.cache)

    def attempt(self, name: str, work: Callable[[], T]) -> T | None:
        """The result of ``work``. None: it failed, and ``finish`` raises the error; other work goes on until then."""
        try:
            return work()
        except Exception as error:  # whatever it is, it is told
            traceback.print_exc()
            self._failed[name] = error
            return None

    def finish(self) -> None:
        """Raises if an attempt failed, with all of their errors."""
        if self._failed:
            errors = "; ".join(f"{name}: {type(error).__name__}: {error}" for name, error in self._failed.items())
            raise RuntimeError(errors) from next(iter(self._failed.values()))

    def target(self, key: str, measured: float, bound_by: str, interval: Interval | None = None) -> None:
        """A figure that something is asked of."""
        t = TARGETS[key]
        accept, goal = t.marks(str(self.results.read()["environment"].get("gpu", "")))
        row = Row(t.name, measured, t.unit, accept, goal, t.at_most, note=bound_by, interval=interval)
        self.results.row(self.step, row, key)

    def figure(self, name: str, measured: float, unit: str, note: str = "", interval: Interval | None = None) -> None:
        """A figure that is reported."""
        self.results.row(self.step, Row(name, measured, unit, note=note, interval=interval))

    def raw(self, name: str, value: Any) -> None:
        """Keeps the raw measurements behind figures."""
        self.results.raw(self.step, name, value)

    def say(self, text: str) -> None:
        """Prints a line for whoever watches."""
        print(f"   {text}", flush=True)
