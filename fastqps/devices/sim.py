"""A modelled device: steps take the time that a profile says, and the answers are those of the null device.

All dispatchers of a device meet on one word of the shared segment, so they contend for it as for a real one; the host's
work around the steps is real. Nothing is computed: a figure from here is about the host, never about a model.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fastqps._core import SimDevice, SimStream, now_ns, wait_until
from fastqps.devices import null
from fastqps.devices.place import Place
from fastqps.devices.profile import Profile, check_task
from fastqps.devices.profile_file import load_profile
from fastqps.models.card import ModelCard
from fastqps.runners.kinds import StepKind

_US = 1000.0
_EARLY_NS = 50_000  # a step is reported as done this long before its end, so that its waiter is in time


class SimRunner:
    """Steps of one set of buffers; a stream decides behind which others they run."""

    instant = False

    def __init__(self, answers: Any, profile: Profile, device: SimDevice) -> None:
        self.card: ModelCard = answers.card
        self.profile = profile
        self._answers = answers  # the null device's runner, and its buffers
        self._stamps = answers.buffers().stamps
        self._device = device
        self._stream = device.stream()
        self._end_ns = 0  # of the newest step

    def buffers(self) -> Any:
        return self._answers.buffers()

    def for_another_step(self) -> SimRunner:
        return SimRunner(self._answers.for_another_step(), self.profile, self._device)

    def for_another_lane(self) -> SimRunner:
        return SimRunner(self._answers.for_another_lane(), self.profile, self._device)

    def make_stream(self) -> SimStream:
        return self._device.stream()

    def use(self, stream: SimStream) -> None:
        self._stream = stream

    def launch(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        """Starts a step. The answers are written at once, but are read only after its end."""
        self._answers.run(n_items, n_tokens, n_new)
        start_ns, self._end_ns = self._stream.launch(n_tokens, n_items)
        self._stamps[:] = start_ns, self._end_ns

    def due_s(self) -> float:
        return max(0, self._end_ns - now_ns() - _EARLY_NS) / 1e9

    def wait(self) -> None:
        while not wait_until(self._end_ns):
            pass  # a signal came, and its handler has run

    def run(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        """One step, from launch to end."""
        self.launch(n_items, n_tokens, n_new)
        self.wait()

    def settle(self) -> bool:
        return False

    def can_refine(self) -> bool:
        return False

    def refine(self) -> None:
        """Steps of all sizes take what the profile says."""

    def warm_up(self) -> None:
        """A step of one token."""
        self.run(1, 1, 0)


def _make(kind: StepKind, card: ModelCard, max_items: int, max_tokens: int, place: Place) -> SimRunner:
    """A runner that needs neither weights nor torch. ``DeviceError`` and ``ConfigError`` about the profile."""
    profile, device = _open(card, place)
    return SimRunner(null.RUNNERS[kind](card, max_items, max_tokens, place), profile, device)


RUNNERS = {kind: partial(_make, kind) for kind in null.RUNNERS}


def _open(card: ModelCard, place: Place) -> tuple[Profile, SimDevice]:
    profile = load_profile(place.device.partition(":")[2])
    check_task(card, profile)
    device = SimDevice(
        fixed_ns=profile.latency_us * _US,
        overlap=profile.overlap,
        tokens=[(tokens, us * _US) for tokens, us in profile.token_points()],
        items=[(items, us * _US) for items, us in profile.item_points()],
        launch_ns=int(profile.launch_us * _US),
        segment=place.segment,
        index=place.index,
    )
    return profile, device
