"""A decoder on a GPU: packed rows of prompts and running sequences, one graph for each size of steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import NamedTuple

import torch

from fastqps._core import ADMITTED_WORDS, HEADER_MASKS, HEADER_TARGETS, HEADER_WORDS, CudaLane, CudaStep, DecodeLayout
from fastqps.architectures.llama import Llama
from fastqps.devices.cuda.backend import Body
from fastqps.devices.cuda.buckets import Shape, closest_shape, covering_shapes
from fastqps.devices.cuda.lane import GraphLane
from fastqps.devices.cuda.loaded import Loaded
from fastqps.devices.cuda.memory import check_cache, kv_bytes
from fastqps.devices.cuda.steps import GraphSteps
from fastqps.ops.decode_step import DecodeState, DecodeStep, Targets, TokenMasks
from fastqps.runners.decode_buffers import DecodeBuffers, mask_words, target_rows, top_rows
from fastqps.runners.first_steps import Run, first_rows

_LOOK_S = 20e-6  # between two looks for masks that are being computed: they take 10 us and more


class Decoder:
    """A loaded decoder, and states for its lanes, which share a prefix."""

    def __init__(self, llama: Llama, first: DecodeState) -> None:
        self.llama = llama
        self._pattern, self._unused = first, [first]

    @property
    def item_bytes(self) -> int:
        """The bytes of one number in the KV cache."""
        return self._pattern.cache.element_size()

    @property
    def has_state(self) -> bool:
        """Whether ``new_state`` allocates nothing."""
        return bool(self._unused)

    def new_state(self) -> DecodeState:
        """A state without sequences. It holds zeros, because a value that a kernel masks out must not be NaN."""
        state = self._unused.pop() if self._unused else self._pattern.another()
        with torch.inference_mode():
            state.cache.zero_()
        return state


class _Held(NamedTuple):
    """A launched step that waits for its masks, or for a held step before it."""

    buffers: DecodeBuffers
    start: Callable[[], None]


class DecoderLane(GraphLane):
    """Steps of up to ``max_tokens`` rows, and the state of up to ``slots`` sequences, each with a run in a step."""

    def __init__(self, loaded: Loaded[Decoder], slots: int, max_tokens: int) -> None:
        card = loaded.card
        largest = DecodeLayout(max_tokens, slots)
        super().__init__(loaded.backend, card, largest.words, largest.out_words)
        self._model, self._slots, self._max_tokens = loaded.model.llama, slots, max_tokens
        if not loaded.model.has_state:
            needed = kv_bytes(card, slots, loaded.model.item_bytes)
            check_cache(card, slots, needed, loaded.backend.memory()[0], loaded.backend.where)
        state = loaded.model.new_state()
        self.biases, seen = loaded.backend.host_words(*state.biases.shape)
        self.state = replace(state, biases=seen)
        # Of all steps: masks are computed only when no step in flight reads any (fastqps/structure/masks.py).
        self.masks, self._seen_masks = loaded.backend.host_words(slots, mask_words(card.vocab_size))
        self.held: deque[_Held] = deque()  # in the order of their launch
        self.native = CudaLane.decoder(loaded.backend.api, max_tokens=max_tokens, max_runs=slots, **self.addresses)

    def start_held(self) -> None:
        """Starts the held steps whose masks are there, in their order."""
        while self.held and self.held[0].buffers.masks_ready():
            self.held.popleft().start()

    @cached_property
    def covering(self) -> Sequence[Shape]:
        return covering_shapes(self._max_tokens, self._slots, self._card.max_input_tokens)

    def closest(self, n_tokens: int, n_items: int) -> Shape:
        return closest_shape(n_tokens, n_items, self._max_tokens, self._slots)

    def body(self, shape: Shape) -> Body:
        rows, runs = shape
        at = DecodeLayout(rows, runs)
        staging, output = self.staging, self.output

        step = DecodeStep(
            token_ids=staging[at.token_ids :][:rows],
            positions=staging[at.positions :][:rows],
            kv_slots=staging[at.kv_slots :][:rows],
            starts=staging[at.starts :][: runs + 1],
            made=staging[at.made :][:runs],
            tokens=output[at.out_tokens :][:runs],
            logprobs=output[at.out_logprobs :][:runs].view(torch.float32),
            finish=output[at.out_finish :][:runs],
            top=top_rows(output, at),
            masks=TokenMasks(self._seen_masks, staging[HEADER_MASKS:][:1]),
            targets=Targets(target_rows(staging, at), staging[HEADER_TARGETS:][:1]),
            admitted=staging[at.admitted :][: runs * ADMITTED_WORDS].view(runs, ADMITTED_WORDS),
            counts=staging[:HEADER_WORDS],
            stamps=self.stamps,
        )

        model, state = self._model, self.state  # not self: what a graph keeps must not keep its lane

        def run() -> None:
            with torch.inference_mode():
                model(step, state)

        return run


class CudaDecoder(GraphSteps[Decoder, DecoderLane, DecodeBuffers]):
    """``AsyncRunner`` of a decoder. Its sequences are its lane's, of which each can have a run in a step.

    A step whose masks are being computed is held, and so are those behind it: nothing on the device waits for the host.
    The calls of any runner of the lane start held steps.
    """

    def make_lane(self) -> DecoderLane:
        return DecoderLane(self._loaded, self._max_items, self._max_tokens)

    def make_buffers(self, step: CudaStep) -> DecodeBuffers:
        tables = {"biases": self.lane.biases.numpy(), "masks": self.lane.masks.numpy()}
        buffers = DecodeBuffers.over(step.staging, step.output, self._max_items, self._max_tokens, **tables)
        return replace(buffers, stamps=step.stamps)

    def launch(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        held, buffers = self.lane.held, self.buffers()
        if held or not buffers.masks_ready():
            held.append(_Held(buffers, partial(super().launch, n_items, n_tokens, n_new)))
        else:
            super().launch(n_items, n_tokens, n_new)

    def due_s(self) -> float:
        self.lane.start_held()
        return _LOOK_S if self._is_held() else super().due_s()

    def wait(self) -> None:
        while self._is_held():
            self.lane.held[0].buffers.await_masks()
            self.lane.start_held()
        super().wait()

    def _is_held(self) -> bool:
        return any(each.buffers is self._buffers for each in self.lane.held)

    def run_first_steps(self, run: Run) -> None:
        first_rows(self.card, self.buffers(), self.lane.state.prefix_len, run)
