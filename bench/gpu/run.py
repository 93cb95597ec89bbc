"""The context of a step of the suite: where it computes, how long it may take, and where its figures go."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bench.gpu.models.checkpoints import CACHE, checkpoint
from bench.gpu.models.shapes import SHAPES, Shape
from bench.gpu.results import Results
from bench.gpu.sampler import Clocks, GpuSampler
from bench.gpu.targets import TARGETS
from bench.row import Row
from fastqps.host.gpus import FAKE_LIBRARY

T = TypeVar("T")
Interval = tuple[float, float]
TOGETHER_S = 0.5  # figures that are this near to each other are of one measurement


@dataclass
class Run:
    """``dry``: on the CPU at tiny shapes, to prove the code. ``ends_s``: when it has to end, of CLOCK_MONOTONIC."""

    step: str
    results: Results
    dry: bool
    repetitions: int
    seconds: float  # of each point
    ends_s: float
    cache: Path = CACHE
    gpu: GpuSampler = field(default_factory=GpuSampler)
    _clocks: dict[str, Clocks] = field(default_factory=dict)  # by figure
    _since_s: float = field(default_factory=time.monotonic)
    _failed: dict[str, Exception] = field(default_factory=dict)

    @property
    def device(self) -> str:
        """For ``--device``. In a dry run the tests' own CUDA, where they give it."""
        return "cpu" if self.dry and not os.environ.get(FAKE_LIBRARY) else "cuda:0"

    @property
    def dtype(self) -> str:
        """bf16, which is compared; in a dry run what every CPU has."""
        return "float32" if self.dry else "bfloat16"

    @property
    def argument(self) -> str:
        """What stands behind the colon of the step's name."""
        return self.step.partition(":")[2]

    @property
    def left_s(self) -> float:
        """Until it has to end."""
        return self.ends_s - time.monotonic()

    def enough(self, seconds: float, what: str) -> bool:
        """Whether so much time is left; if not, ``what`` is named as left out."""
        if self.left_s > seconds:
            return True
        self.leave_out(f"{what}: {max(0.0, self.left_s):.0f} s left of about {seconds:.0f} s needed")
        return False

    def rounds(self, seconds: float) -> Iterator[int]:
        """Up to ``repetitions`` rounds of about so many seconds: the first always, others while time is left."""
        for number in range(self.repetitions):
            if number and self.left_s < seconds:
                return
            yield number

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
        """What ``work`` gives. None: it failed, which is kept for ``finish``; what does not need it goes on."""
        try:
            return work()
        except Exception as error:  # whatever it is, it is told
            traceback.print_exc()
            self._failed[name] = error
            return None

    def finish(self) -> None:
        """Raises if an attempt failed, with all of their errors."""
        if self._failed:
            said = "; ".join(f"{name}: {type(error).__name__}: {error}" for name, error in self._failed.items())
            raise RuntimeError(said) from next(iter(self._failed.values()))

    def target(self, key: str, measured: float, bound_by: str, interval: Interval | None = None) -> None:
        """A figure that something is asked of."""
        t = TARGETS[key]
        accept, goal = t.marks(str(self.results.read()["environment"].get("gpu", "")))
        row = Row(t.name, measured, t.unit, accept, goal, t.at_most, note=bound_by, interval=interval)
        self._row(row, key)

    def figure(
        self, name: str, measured: float, unit: str, note: str = "", interval: Interval | None = None
    ) -> None:  # fmt: skip
        """A figure that is reported."""
        self._row(Row(name, measured, unit, note=note, interval=interval))

    def raw(self, name: str, value: Any) -> None:
        """What figures were made of."""
        self.results.raw(self.step, name, value)

    def say(self, text: str) -> None:
        """For whoever watches."""
        print(f"   {text}", flush=True)

    def _row(self, row: Row, target: str = "") -> None:
        """With the GPU's clock and power since the figure before it, or together with that one, if just written."""
        now_s = time.monotonic()
        if now_s - self._since_s >= TOGETHER_S or not self._clocks:
            self._clocks[row.name], self._since_s = self.gpu.between(self._since_s, now_s), now_s
        else:
            self._clocks[row.name] = next(reversed(self._clocks.values()))
        self.results.row(self.step, row, target)
        self.results.raw(self.step, "gpu", self._clocks)
