"""Runners turn the packed inputs of one step into outputs, over static buffers. Every device has its own."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from fastqps.models.card import ModelCard
from fastqps.runners.buffers import StepBuffers
from fastqps.runners.decode_buffers import DecodeBuffers

__all__ = ["AsyncRunner", "DecodeBuffers", "DecodeRunner", "Runner", "StepBuffers", "StepRunner"]


class StepRunner(Protocol):
    """What a lane needs of either kind of runner. One runner holds one step; it is not thread-safe."""

    card: ModelCard
    instant: bool  # `run` takes no time worth a thread of its own
    prepare_us: float  # CPU time that preparing a step in Python takes on the host of a modelled device; else 0

    def buffers(self) -> Any: ...
    def run(self, n_items: int, n_tokens: int, third: int, /) -> None: ...
    def twin(self) -> Any: ...
    def sibling(self) -> Any: ...
    def warm_up(self) -> None: ...


@runtime_checkable
class AsyncRunner(StepRunner, Protocol):
    """A runner of a device that works by itself: its steps are launched, and waited for.

    Before its first launch there is nothing to wait for.
    """

    def make_stream(self) -> Any:
        """What steps run in one behind the other; those of different streams may overlap."""

    def use(self, stream: Any) -> None:
        """Has this runner's steps run in ``stream``."""

    def launch(self, n_items: int, n_tokens: int, third: int, /) -> None:
        """Starts what ``run`` would compute, and returns at once."""

    def due_s(self) -> float:
        """0 once the step has ended; else the seconds after which to look again."""

    def wait(self) -> None:
        """Returns when the step has ended; raises what it raised."""


class Runner(Protocol):
    """An encoder: static buffers and a function over them."""

    card: ModelCard
    instant: bool
    prepare_us: float

    def buffers(self) -> StepBuffers:
        """The same buffers at every call."""

    def run(self, n_items: int, n_tokens: int, max_len: int, /) -> None:
        """Computes ``output[:n_items]`` of the ``n_tokens`` packed tokens; the longest item has ``max_len`` of them."""

    def twin(self) -> Runner:
        """A runner with its own buffers over the same weights, so that one step can be filled while another runs."""

    def sibling(self) -> Runner:
        """The same for another lane, whose steps run at the same time."""

    def warm_up(self) -> None:
        """Runs what has to have run once before the first request; ``ModelError`` if that shows a broken model."""


class DecodeRunner(Protocol):
    """A decoder: static buffers, and a function over them and over what its sequences left in the device."""

    card: ModelCard
    instant: bool
    prepare_us: float

    def buffers(self) -> DecodeBuffers:
        """The same buffers at every call."""

    def run(self, n_runs: int, n_tokens: int, n_admitted: int, /) -> None:
        """Computes the step in the buffers: ``n_tokens`` rows in ``n_runs`` runs, ``n_admitted`` of them new."""

    def twin(self) -> DecodeRunner:
        """A runner with its own buffers over the same weights and sequences."""

    def sibling(self) -> DecodeRunner:
        """A runner for another lane, whose steps run at the same time: with its own sequences over the same weights."""

    def warm_up(self) -> None:
        """Runs what has to have run once before the first request; ``ModelError`` if that shows a broken model."""
