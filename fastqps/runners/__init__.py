"""A runner turns the packed inputs of one step into output rows. Every device has its own; the interface is one."""

from __future__ import annotations

from typing import Protocol

from fastqps.models.card import ModelCard
from fastqps.runners.buffers import StepBuffers

__all__ = ["Runner", "StepBuffers"]


class Runner(Protocol):
    """Static buffers and a function over them. One runner holds one step; it is not thread-safe."""

    card: ModelCard
    instant: bool  # `run` takes no time worth a thread of its own

    def buffers(self) -> StepBuffers:
        """The same buffers at every call."""

    def run(self, n_items: int, n_tokens: int, max_len: int) -> None:
        """Computes ``output[:n_items]`` of the ``n_tokens`` packed tokens; the longest item has ``max_len`` of them."""

    def twin(self) -> Runner:
        """A runner with its own buffers over the same weights, so that one step can be filled while another runs."""
