"""An encoder on a GPU: packed tokens, one graph for each token budget."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import torch

from fastqps._core import HEADER_WORDS, CudaLane, CudaStep, EncodeLayout
from fastqps.devices.cuda.backend import Body
from fastqps.devices.cuda.buckets import Shape, covering_buckets, encoder_buckets
from fastqps.devices.cuda.lane import GraphLane
from fastqps.devices.cuda.loaded import Loaded
from fastqps.devices.cuda.steps import GraphSteps
from fastqps.models.card import ModelCard
from fastqps.ops.step import Step
from fastqps.runners.buffers import StepBuffers
from fastqps.runners.first_steps import Run, first_steps


class StepModel(Protocol):
    """``Step`` → float32 [rows, card.dimensions], in its output; of transformers and static models alike."""

    hidden: int  # the width that its matrix products have, or its table

    def __call__(self, step: Step) -> torch.Tensor: ...


class EncoderLane(GraphLane):
    """Steps of up to ``max_tokens`` tokens in ``max_items`` items."""

    def __init__(self, loaded: Loaded[StepModel], max_items: int, max_tokens: int) -> None:
        card = loaded.card
        self._token_types = card.second_segment_type != 0
        self._by_token = card.traits.by_token
        self._positions = bool(card.opening_ids)
        largest = self._layout(card, max_tokens, max_items)
        super().__init__(loaded.backend, card, largest.device_words, largest.out_words)
        self._model, self._max_items, self._max_tokens = loaded.model, max_items, max_tokens
        self._no_types = self.staging.new_zeros(0 if self._token_types else max_tokens)
        self._rows = self.output.view(torch.float32).view(-1, card.dimensions)
        self.native = CudaLane.encoder(
            loaded.backend.api,
            max_tokens=max_tokens,
            max_items=max_items,
            width=card.dimensions,
            token_types=self._token_types,
            rows_by_token=self._by_token,
            positions=self._positions,
            **self.addresses,
        )

    @cached_property
    def _budgets(self) -> tuple[int, ...]:
        return encoder_buckets(self._max_tokens, self._model.hidden, self.backend.multiprocessors)

    @cached_property
    def covering(self) -> Sequence[Shape]:
        return [self._shape(tokens) for tokens in reversed(covering_buckets(self._budgets))]

    @cached_property
    def finer(self) -> Sequence[Shape]:
        return [self._shape(tokens) for tokens in reversed(self._budgets)]

    def closest(self, n_tokens: int, n_items: int) -> Shape:
        return self._shape(self._budgets[bisect_left(self._budgets[:-1], n_tokens)])

    def _shape(self, tokens: int) -> Shape:
        return Shape(tokens, min(tokens, self._max_items))

    def body(self, shape: Shape) -> Body:
        tokens, items = shape
        at = self._layout(self._card, tokens, items)
        staging = self.staging

        step = Step(
            ids=staging[at.input_ids :][:tokens],
            positions=staging[at.position_ids :][:tokens] if self._positions else staging[:0],
            types=staging[at.token_type_ids :][:tokens] if self._token_types else self._no_types[:tokens],
            starts=staging[at.cu_seqlens :][: items + 1],
            counts=staging[:HEADER_WORDS],
            output=self._rows[: tokens if self._by_token else items],
            stamps=self.stamps,
        )

        model = self._model  # not self: what a graph keeps must not keep its lane

        def run() -> None:
            with torch.inference_mode():
                model(step)

        return run

    def _layout(self, card: ModelCard, tokens: int, items: int) -> EncodeLayout:
        return EncodeLayout(tokens, items, card.dimensions, self._token_types, self._by_token, self._positions)


class CudaEncoder(GraphSteps[StepModel, EncoderLane, StepBuffers]):
    """``AsyncRunner`` of an encoder."""

    def make_lane(self) -> EncoderLane:
        return EncoderLane(self._loaded, self._max_items, self._max_tokens)

    def make_buffers(self, step: CudaStep) -> StepBuffers:
        sizes = self._max_items, self._max_tokens
        return StepBuffers.over(self.card, step.staging, step.output, step.stamps, *sizes)

    def run_first_steps(self, run: Run) -> None:
        first_steps(self.card, self.buffers(), run)
