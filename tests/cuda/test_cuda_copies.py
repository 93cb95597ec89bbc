"""Bytes that a step copies, counted by the fake CUDA runtime: about what it holds, whatever the lane has room for."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache

import fake_cuda
import numpy as np
import pytest

from fastqps._core import (
    ADMITTED_WORDS,
    HEADER_WORDS,
    STAMP_WORDS,
    CudaApi,
    CudaLane,
    CudaStep,
    DecodeLayout,
    EncodeLayout,
)
from fastqps.devices.cuda.buckets import Shape, closest_shape, covering_shapes, encoder_buckets

TOKENS, ITEMS = 16_384, 1024  # of the lanes
WIDTH = 384
_KEPT: list[object] = []  # blocks and graphs of lanes, which stay as long as this process


def add_graphs(lane: CudaLane, shapes: Sequence[Shape]) -> CudaStep:
    """A step of a lane whose graphs do nothing."""
    library, callback_type = ctypes.CDLL(fake_cuda.library()), ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    library.fakeGraphCreate.restype = ctypes.c_void_p
    library.fakeGraphCreate.argtypes = [callback_type, ctypes.c_void_p, ctypes.c_void_p]
    nothing = callback_type(lambda _: None)
    graph = library.fakeGraphCreate(nothing, None, None)
    _KEPT.append(nothing)
    for shape in shapes:
        lane.add_graph(graph, max_tokens=shape.tokens, max_items=shape.items)
    return CudaStep(lane)


def blocks(staging_words: int, output_words: int) -> dict[str, int]:
    arrays = np.zeros(staging_words, np.int32), np.zeros(STAMP_WORDS + output_words, np.int32)
    _KEPT.extend(arrays)
    return {"staging": arrays[0].ctypes.data, "output": arrays[1].ctypes.data}


@cache
def decoder(max_runs: int) -> CudaStep:
    """Of a lane for prompts of up to 128 tokens, with the graphs of its start and those that fit the steps."""
    api, at = CudaApi(fake_cuda.library()), DecodeLayout(TOKENS, max_runs)
    memory = blocks(at.words, at.out_words)
    lane = CudaLane.decoder(api, stream=api.make_stream(), max_tokens=TOKENS, max_runs=max_runs, **memory)
    fitting = [closest_shape(rows, runs, TOKENS, max_runs) for runs, rows, _ in STEPS if runs <= max_runs]
    return add_graphs(lane, [*covering_shapes(TOKENS, max_runs, 128), *fitting])


@cache
def encoder(token_types: bool) -> CudaStep:
    api, at = CudaApi(fake_cuda.library()), EncodeLayout(TOKENS, ITEMS, WIDTH, token_types)
    sizes = {"max_tokens": TOKENS, "max_items": ITEMS, "width": WIDTH, "token_types": token_types}
    memory = blocks(at.device_words, at.out_words)
    lane = CudaLane.encoder(api, stream=api.make_stream(), **sizes, **memory)
    return add_graphs(lane, [Shape(n, min(n, ITEMS)) for n in encoder_buckets(TOKENS, WIDTH, 132)])


def copied(step: CudaStep, *size: int) -> tuple[int, int]:
    """Bytes to the device and back, of one copy each."""
    knobs = fake_cuda.Knobs()
    knobs.mark()
    step.launch(*size)
    step.wait()
    assert knobs.count("cudaMemcpyAsync") == 2 and not knobs.count("pageable copies")
    return knobs.count("bytes to the device"), knobs.count("bytes to the host")


STEPS = [  # runs, rows, new sequences
    (16, 16, 0),  # a small step: none is a prompt
    (17, 66, 1),  # the same with one prompt
    (130, 424, 6),
    (256, 501, 5),  # 50 tokens in, 50 out
    (512, 1012, 10),
    (1010, 1990, 20),
    (1024, 1024, 0),
    (1024, 16_384, 1024),  # a full step: all are prompts
    (256, 16_384, 256),
]


@pytest.mark.parametrize(
    ("max_runs", "runs", "rows", "new"), [(most, *step) for most in (1024, 256) for step in STEPS if step[0] <= most]
)
def test_a_decoders_step_copies_about_what_it_holds(max_runs: int, runs: int, rows: int, new: int) -> None:
    held = 4 * (HEADER_WORDS + 3 * rows + 2 * runs + 1 + ADMITTED_WORDS * new), 4 * (STAMP_WORDS + 3 * runs)
    found = copied(decoder(max_runs), runs, rows, new)
    print(f"{runs} of {max_runs} runs, {rows} rows, {new} new: {found} bytes copied, {held} held")
    few_runs = 4 * (STAMP_WORDS + 3 * 64)  # below, run counts are far apart
    assert held[0] <= found[0] <= 1.5 * held[0] + 4 * HEADER_WORDS
    assert held[1] <= found[1] <= max(1.5 * held[1], few_runs)


@pytest.mark.parametrize("token_types", [False, True])
@pytest.mark.parametrize(("items", "tokens"), [(1, 2), (4, 60), (8, 2048), (352, 5632), (700, 9000), (1024, 16_384)])
def test_an_encoders_step_copies_about_what_it_holds(token_types: bool, items: int, tokens: int) -> None:
    held = 4 * (HEADER_WORDS + tokens * (1 + token_types) + items + 1), 4 * (STAMP_WORDS + items * WIDTH)
    found = copied(encoder(token_types), items, tokens, -(-tokens // items))
    print(f"{items} items, {tokens} tokens, types {token_types}: {found} bytes copied, {held} held")
    smallest = 4 * 64 * (1 + token_types)  # of the smallest graph
    assert held[0] <= found[0] <= max(1.3 * held[0], held[0] + smallest)
    assert found[1] == held[1]
