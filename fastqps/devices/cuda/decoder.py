"""A decoder on a GPU: packed rows of prompts and running sequences, one graph for each size of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import torch

from fastqps._core import ADMITTED_WORDS, HEADER_TARGETS, HEADER_WORDS, CudaLane, CudaStep, DecodeLayout
from fastqps.architectures.llama import Llama
from fastqps.devices.cuda.backend import Body
from fastqps.devices.cuda.buckets import Shape, closest_shape, covering_shapes
from fastqps.devices.cuda.lane import GraphLane
from fastqps.devices.cuda.loaded import Loaded
from fastqps.devices.cuda.memory import check_cache, kv_bytes
from fastqps.devices.cuda.steps import GraphSteps
from fastqps.ops.decode_step import DecodeState, DecodeStep, Targets
from fastqps.runners.decode_buffers import DecodeBuffers, target_rows, top_rows
from fastqps.runners.first_steps import Run, first_rows


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
        memory = _slot_memory(self.state)
        self.native = CudaLane.decoder(
            loaded.backend.api, max_tokens=max_tokens, max_runs=slots, **self.addresses, **memory
        )

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
    """``AsyncRunner`` of a decoder. Its sequences are its lane's, of which each can have a run in a step."""

    def make_lane(self) -> DecoderLane:
        return DecoderLane(self._loaded, self._max_items, self._max_tokens)

    def make_buffers(self, step: CudaStep) -> DecodeBuffers:
        buffers = DecodeBuffers.over(
            step.staging, step.output, self._max_items, self._max_tokens, biases=self.lane.biases.numpy()
        )
        return replace(buffers, stamps=step.stamps)

    def run_first_steps(self, run: Run) -> None:
        first_rows(self.card, self.buffers(), self.lane.state.prefix_len, run)
