"""Runners turn the packed inputs of one step into outputs, over static buffers. Every device has its own."""

from __future__ import annotations

from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from fastqps.models.card import ModelCard
from fastqps.runners.buffers import StepBuffers
from fastqps.runners.decode_buffers import DecodeBuffers

__all__ = ["AsyncRunner", "DecodeBuffers", "Runner", "StepBuffers"]

B_co = TypeVar("B_co", covariant=True)  # StepBuffers of an encoder, DecodeBuffers of a decoder


class Runner(Protocol[B_co]):
    """Static buffers, and a function over them. One runner holds one step; it is not thread-safe.

    The size of a step is three numbers, the same for every kind: its items, its tokens, and how many of the items no
    earlier step has seen (of an encoder all). A decoder's items are runs, and its tokens are rows.
    """

    card: ModelCard
    instant: bool  # `run` takes no time worth a thread of its own

    def buffers(self) -> B_co:
        """The same buffers at every call."""

    def run(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        """Computes the step in the buffers and fills their outputs."""

    def for_another_step(self) -> Self:
        """A runner of the same lane with its own buffers, so that one step can be filled while another runs."""

    def for_another_lane(self) -> Self:
        """A runner whose steps run at the same time, over the same weights; a decoder's has its own sequences."""

    def warm_up(self) -> None:
        """Runs what has to have run once before the first request; ``ModelError`` if that shows a broken model."""


@runtime_checkable
class AsyncRunner(Runner[B_co], Protocol):
    """A runner of a device that works by itself: its steps are launched, and waited for.

    Before its first launch there is nothing to wait for.
    """

    def make_stream(self) -> Any:
        """A stream: its steps run in order, and those of different streams may overlap."""

    def use(self, stream: Any) -> None:
        """Has this runner's steps run in ``stream``."""

    def launch(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        """Starts what ``run`` would compute, and returns at once."""

    def due_s(self) -> float:
        """0 once the step has ended; else the seconds after which to look again."""

    def wait(self) -> None:
        """Returns when the step has ended; raises what it raised."""

    def settle(self) -> bool:
        """Serving begins: a step starts at once from now on. Returns whether ``refine`` may have work later."""

    def can_refine(self) -> bool:
        """Whether ``refine`` has work now."""

    def refine(self) -> None:
        """Prepares what makes steps like the latest ones faster. It takes longer than a step, and none is in flight."""
