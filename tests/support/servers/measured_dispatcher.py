"""The usual dispatcher, whose measurement of the steps runs some and then finds the size TEST_KNEE, however busy the
machine is."""

import os

from fastqps.dispatcher import loop as dispatcher
from fastqps.dispatcher import step_size
from fastqps.process.children import DispatcherSettings
from fastqps.runners.knee import Knee
from fastqps.runners.timed_steps import TimedSteps


def find_knee(steps: TimedSteps, most: int, crowd_step_s: float) -> Knee:
    found = int(os.environ["TEST_KNEE"])
    rates = [(size, size * count / seconds) for size in (1, found, most) for seconds, count in [steps(size)]]
    return Knee(found, tuple(rates), True, 0.1)


def main(settings: DispatcherSettings) -> int:
    step_size.find_knee = find_knee  # type: ignore[assignment]
    return dispatcher.main(settings)
