"""The dispatcher's loop over a scripted stepper: the order in which it launches and answers steps. No clock decides.

Which step is gathered when: ``csrc/tests/step/test_step.cpp``. Rates: ``tests/e2e/devices/test_duty_cycle.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fastqps.dispatcher.loop import Dispatcher, load_lanes
from fastqps.models import load_card

pytestmark = pytest.mark.compute

STEPS = 4


class Script:
    """A stepper, and a lane whose device ends a step only when no further step can be launched."""

    def __init__(self, places: int) -> None:
        numbers = iter(range(places))
        buffers = SimpleNamespace(add_to=lambda stepper, lane: next(numbers))
        self.runners = [SimpleNamespace(buffers=lambda: buffers) for _ in range(places)]
        self.order: list[str] = []
        self.stop: Callable[[], None]
        self._free, self._running, self._ended = list(range(places)), list[int](), set[int]()
        self._left = STEPS

    def gather(self, due_s: float) -> int | None:
        if self._free and self._left:
            self._left -= 1
            return self._free.pop(0)
        if self._running:
            self._ended.add(self._running.pop(0))
        else:
            self.stop()
        return None

    rest = gather

    def launch(self, step: int, *shape: int) -> bool:
        if shape:  # of the lane, behind that of the stepper
            self._running.append(step)
            self.order.append(f"launch {step}")
        return True

    def shape(self, step: int) -> tuple[int, int, int]:
        return 1, 1, 1

    def settle(self) -> bool:
        return False

    def due_s(self, place: int) -> float:
        return 0.0 if place in self._ended else math.inf

    def wait(self, place: int) -> None:
        self._ended.remove(place)

    def scatter(self, step: int) -> bool:
        self._free.append(step)
        self.order.append(f"answer {step}")
        return True


@pytest.mark.parametrize(
    ("async_steps", "order"),
    [
        (True, "launch 0, launch 1, answer 0, launch 0, answer 1, launch 1, answer 0, answer 1"),
        (False, ", ".join(["launch 0, answer 0"] * STEPS)),
    ],
)
def test_a_step_is_launched_while_the_one_before_it_runs(async_steps: bool, order: str) -> None:
    names = {"quantization": "none", "kernels": "auto", "dtype": "auto", "device": "null"}
    sizes = {"max_batch_items": 8, "max_batch_tokens": 512, "threads": 1, "lanes": 1, "index": 0, "device_index": 0}
    fds = {"weights_fd": -1, "table_fd": -1, "kernels_fd": -1, "wake_dispatchers": [-1]}
    settings: Any = SimpleNamespace(async_steps=async_steps, **names, **sizes, **fds)
    [lane] = load_lanes(load_card("minilm"), settings, None)  # type: ignore[arg-type]
    script: Any = Script(len(lane.runners))
    dispatcher = Dispatcher(script, [script])
    script.stop = lambda: setattr(dispatcher, "stopping", True)
    dispatcher.serve()
    assert ", ".join(script.order) == order
