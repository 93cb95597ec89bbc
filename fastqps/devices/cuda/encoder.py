"""An encoder on a GPU: packed tokens, one graph for each token budget."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch

from fastqps._core import HEADER_WORDS, CudaLane, encode_layout
from fastqps.devices.cuda.backend import Body
from fastqps.devices.cuda.buckets import Shape, encoder_buckets
from fastqps.devices.cuda.lane import GraphLane
from fastqps.devices.cuda.loaded import Loaded
from fastqps.devices.cuda.steps import GraphSteps
from fastqps.models.packed import PackedModel
from fastqps.models.step import Step
from fastqps.runners.buffers import StepBuffers
from fastqps.runners.first_steps import first_steps


class EncoderLane(GraphLane):
    """Steps of up to ``max_tokens`` tokens in ``max_items`` items."""

    def __init__(self, loaded: Loaded[PackedModel], max_items: int, max_tokens: int) -> None:
        card = loaded.card
        self._at = encode_layout(max_tokens, max_items, card.dimensions)
        super().__init__(loaded.backend, card, self._at["device_words"], self._at["out_words"])
        self._model, self._max_items, self._max_tokens = loaded.model, max_items, max_tokens
        self._rows = self.output.view(torch.float32).view(max_items, card.dimensions)
        self.native = CudaLane.encoder(
            loaded.backend.api,
            max_tokens=max_tokens,
            max_items=max_items,
            width=card.dimensions,
            token_types=card.second_segment_type != 0,
            **self.addresses,
        )

    @cached_property
    def covering(self) -> Sequence[Shape]:
        budgets = encoder_buckets(self._max_tokens, self._model.hidden, self.backend.multiprocessors)
        return [Shape(tokens, min(tokens, self._max_items)) for tokens in reversed(budgets)]

    def body(self, shape: Shape) -> Body:
        def section(name: str, words: int) -> torch.Tensor:
            return self.staging[self._at[name] :][:words]

        step = Step(
            ids=section("input_ids", shape.tokens),
            positions=section("input_ids", shape.tokens)[:0],  # the device counts them itself
            types=section("token_type_ids", shape.tokens),
            starts=section("cu_seqlens", shape.items + 1),
            counts=self.staging[:HEADER_WORDS],
            output=self._rows[: shape.items],
            stamps=self.stamps,
        )

        model = self._model  # not self: what a graph keeps must not keep its lane

        def run() -> None:
            with torch.inference_mode():
                model(step)

        return run


class CudaEncoder(GraphSteps[EncoderLane]):
    """``AsyncRunner`` of an encoder."""

    def __init__(self, loaded: Loaded[PackedModel], max_items: int, max_tokens: int) -> None:
        super().__init__(loaded.card, loaded.backend)
        self._loaded, self._max_items, self._max_tokens = loaded, max_items, max_tokens
        self._buffers: StepBuffers | None = None

    def make_stream(self) -> EncoderLane:
        with self._loaded.starting(self._max_tokens):
            return EncoderLane(self._loaded, self._max_items, self._max_tokens)

    def use(self, stream: EncoderLane) -> None:
        super().use(stream)
        step = self.step
        sizes = self._max_items, self._max_tokens, self.card.dimensions
        self._buffers = StepBuffers.over(step.staging, step.output, step.stamps, *sizes)

    def buffers(self) -> StepBuffers:
        """Views of the pinned blocks of its step."""
        assert self.lane and self._buffers
        return self._buffers

    def twin(self) -> CudaEncoder:
        return CudaEncoder(self._loaded, self._max_items, self._max_tokens)

    def sibling(self) -> CudaEncoder:
        return self.twin()

    def warm_up(self) -> None:
        """Captures what its lane lacks of graphs, and runs a step of one short item and a full one.

        ``ModelError`` where the answers are no numbers, ``ConfigError`` where the memory is too small for the steps.
        """
        lane, buffers = self.lane, self.buffers()
        with self._loaded.starting(self._max_tokens):
            lane.capture_all()
            first_steps(self.card, buffers, self.run)
        self._warm = True

    def run_eagerly(self, n_items: int, n_tokens: int, max_len: int) -> None:
        """``run`` without a graph: the same kernels over the same rows, launched one by one. For tests."""
        self.step.staging[:3] = n_tokens, n_items, max_len
        self._compute(n_items, n_tokens)
