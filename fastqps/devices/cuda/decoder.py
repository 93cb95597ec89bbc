"""A decoder on a GPU: packed rows of prompts and running sequences, one graph for each size of steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch

from fastqps._core import ADMITTED_WORDS, HEADER_MASKS, HEADER_TARGETS, HEADER_WORDS, CudaLane, CudaStep, DecodeLayout
from fastqps.architectures.llama import Llama
from fastqps.devices.cuda.backend import Body, Graph
from fastqps.devices.cuda.buckets import Shape, closest_shape, covering_shapes
from fastqps.devices.cuda.demand import smallest
from fastqps.devices.cuda.lane import GraphLane
from fastqps.devices.cuda.loaded import Loaded
from fastqps.devices.cuda.memory import check_cache, kv_bytes
from fastqps.devices.cuda.steps import GraphSteps
from fastqps.devices.cuda.watch import DEBUG
from fastqps.ops.decode_step import DecodeState, DecodeStep, Targets, TokenMasks
from fastqps.runners.decode_buffers import DecodeBuffers, mask_words, target_rows, top_rows
from fastqps.runners.first_steps import Run, first_rows

_PARTS_MAX = 64  # graphs of a lane that are there in parts, too
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


@dataclass
class _Held:
    """A launched step that waits for its masks, or for a held step before it."""

    buffers: DecodeBuffers
    begin: Callable[[], bool]  # gives the device what needs no masks; False: it cannot be parted
    start: Callable[[], None]
    end: Callable[[], None]  # of a step that has begun
    begun: bool | None = None  # None: not tried yet


def _slot_memory(state: DecodeState) -> dict[str, int]:
    """The arguments of ``CudaLane.decoder`` for what is copied from one cache slot to another."""
    layers, parts, slots, kv_heads, max_len, head_dim = state.cache.shape
    return {
        "cache": state.cache.data_ptr(),
        "planes": layers * parts,
        "slots": slots,
        "kv_heads": kv_heads,
        "max_len": max_len,
        "row_bytes": head_dim * state.cache.element_size(),
        "history": state.history.data_ptr(),
        "history_len": state.history.shape[1],
        "prefix_len": state.prefix_len,
    }


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
        self._parts: dict[Shape, tuple[Graph, Graph]] = {}
        self._to_part: Shape | None = None
        self._parts_fit = not DEBUG
        memory = _slot_memory(self.state)
        self.native = CudaLane.decoder(
            loaded.backend.api, max_tokens=max_tokens, max_runs=slots, **self.addresses, **memory
        )

    def start_held(self) -> None:
        """Starts the held steps whose masks are there, in their order, and begins the next one."""
        while self.held and self.held[0].buffers.masks_ready():
            step = self.held.popleft()
            step.end() if step.begun else step.start()
        if self.held and self.held[0].begun is None:
            self.held[0].begun = self.held[0].begin()

    def want_parts(self, n_tokens: int, n_items: int) -> None:
        """A step of this size could not begin without its masks."""
        if self._parts_fit and len(self._parts) < _PARTS_MAX:
            self._to_part = smallest(self.graphs, Shape(n_tokens, n_items))

    def settle(self) -> bool:
        super().settle()
        return self._parts_fit

    def can_refine(self) -> bool:
        return self._to_part is not None or super().can_refine()

    def refine(self) -> None:
        shape, self._to_part = self._to_part, None
        if shape is None:
            super().refine()
        else:
            self._parts_fit = self.try_capture(partial(self.part, shape))

    def part(self, shape: Shape) -> None:
        """Captures the graph of a size again, in two parts: what needs no masks, and the rest.

        Steps in flight are waited for.
        """
        if shape in self._parts or len(self._parts) == _PARTS_MAX:
            return
        self.wait()
        step, model, state = self._step(shape), self._model, self.state
        logits: list[torch.Tensor] = []  # between the two, in the memory that all graphs of the lane share

        def head() -> None:
            with torch.inference_mode():
                logits[:] = [model.logits(step, state)]

        def tail() -> None:
            with torch.inference_mode():
                model.sample(logits[0], step, state)

        self.backend.run(self.empty_staging, self.stream)
        capture = partial(self.backend.capture, stream=self.stream, pool=self.pool, stamps=self.stamps.data_ptr())
        self._parts[shape] = parts = capture(head), capture(tail)
        size = {"max_tokens": shape.tokens, "max_items": shape.items}
        self.native.add_parts(*(part.handle for part in parts), **size)
        logits.clear()

    @cached_property
    def covering(self) -> Sequence[Shape]:
        return covering_shapes(self._max_tokens, self._slots, self._card.max_input_tokens)

    def closest(self, n_tokens: int, n_items: int) -> Shape:
        return closest_shape(n_tokens, n_items, self._max_tokens, self._slots)

    def body(self, shape: Shape) -> Body:
        step, model, state = self._step(shape), self._model, self.state  # not self: a graph must not keep its lane

        def run() -> None:
            with torch.inference_mode():
                model(step, state)

        return run

    def _step(self, shape: Shape) -> DecodeStep:
        rows, runs = shape
        at = DecodeLayout(rows, runs)
        staging, output = self.staging, self.output
        return DecodeStep(
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


class CudaDecoder(GraphSteps[Decoder, DecoderLane, DecodeBuffers]):
    """``AsyncRunner`` of a decoder. Its sequences are its lane's, of which each can have a run in a step.

    A step whose masks are being computed is held, and so are those behind it: nothing on the device waits for the host.
    It begins behind the steps in flight, if its graph has two parts; the second one is launched when the masks are
    there. The calls of any runner of the lane do that.
    """

    def make_lane(self) -> DecoderLane:
        return DecoderLane(self._loaded, self._max_items, self._max_tokens)

    def make_buffers(self, step: CudaStep) -> DecodeBuffers:
        tables = {"biases": self.lane.biases.numpy(), "masks": self.lane.masks.numpy()}
        buffers = DecodeBuffers.over(step.staging, step.output, self._max_items, self._max_tokens, **tables)
        return replace(buffers, stamps=step.stamps)

    def launch(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        held, buffers = self.lane.held, self.buffers()
        size = n_items, n_tokens, n_new
        if held or not buffers.masks_ready():
            held.append(_Held(buffers, partial(self._begin, *size), partial(super().launch, *size), self.step.end))
            self.lane.start_held()
        else:
            super().launch(*size)

    def due_s(self) -> float:
        self.lane.start_held()
        return _LOOK_S if self._is_held() else super().due_s()

    def wait(self) -> None:
        while self._is_held():
            self.lane.held[0].buffers.await_masks()
            self.lane.start_held()
        super().wait()

    def _begin(self, n_items: int, n_tokens: int, n_new: int) -> bool:
        lane = self.lane
        if not lane.settled:
            lane.capture_for(n_tokens, n_items)
            lane.part(smallest(lane.graphs, Shape(n_tokens, n_items)))
        elif DEBUG:
            self._loaded.backend.watch()
        if not self.step.begin(n_items, n_tokens, n_new):
            lane.want_parts(n_tokens, n_items)
            return False
        lane.note(n_tokens, n_items, self.step)
        return True

    def _is_held(self) -> bool:
        return any(each.buffers is self._buffers for each in self.lane.held)

    def run_first_steps(self, run: Run) -> None:
        first_rows(self.card, self.buffers(), self.lane.state.prefix_len, run)
