"""A lane on the fake CUDA runtime whose steps anybody can check."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial

import fake_cuda
import numpy as np
from numpy.typing import NDArray

from fastqps._core import STAMP_WORDS, CudaApi, CudaLane, EncodeLayout

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class SumLane:
    """A lane of an encoder that answers each item with the sum of its ids, in two graphs."""

    tokens, items, width = 64, 8, 4

    def __init__(self, api: CudaApi) -> None:
        self.at = EncodeLayout(self.tokens, self.items, self.width)
        self._staging = np.zeros(self.at.device_words, np.int32)
        self._kept: list[object] = []
        self._output = np.zeros(STAMP_WORDS + self.at.out_words, np.int32)
        self.lane = CudaLane.encoder(
            api,
            stream=api.make_stream(),
            staging=self._staging.ctypes.data,
            output=self._output.ctypes.data,
            max_tokens=self.tokens,
            max_items=self.items,
            width=self.width,
            token_types=False,
        )
        for tokens in (16, self.tokens // 2):
            graph = self._make_graph(partial(self._run, tokens))
            self.lane.add_graph(graph, max_tokens=tokens, max_items=self.items)

    def pack(self, staging: NDArray[np.int32], items: list[list[int]]) -> tuple[int, int, int]:
        """Fills a staging block; returns what a step's ``launch`` takes."""
        lengths = [len(ids) for ids in items]
        starts = np.cumsum([0, *lengths])
        staging[self.at.cu_seqlens :][: len(starts)] = starts
        staging[self.at.input_ids :][: starts[-1]] = np.concatenate(items)
        return len(items), int(starts[-1]), max(lengths)

    def rows(self, output: NDArray[np.int32]) -> NDArray[np.float32]:
        return output.view(np.float32).reshape(self.items, self.width)

    def _run(self, tokens: int) -> None:
        at = EncodeLayout(tokens, self.items, self.width, token_types=False)
        rows = self.rows(self._output[STAMP_WORDS:])
        starts, ids = (self._staging[begin:] for begin in (at.cu_seqlens, at.input_ids))
        for item in range(self._staging[1]):
            rows[item] = ids[starts[item] : starts[item + 1]].sum()

    def _make_graph(self, function: Callable[[], None]) -> int:
        """A graph that calls ``function`` in its stream's thread, between the two stamps."""
        fake = ctypes.CDLL(fake_cuda.library())
        fake.fakeGraphCreate.restype = ctypes.c_void_p
        fake.fakeGraphCreate.argtypes = [_Callback, ctypes.c_void_p, ctypes.c_void_p]
        callback = _Callback(lambda _: function())
        self._kept.append(callback)
        graph = fake.fakeGraphCreate(callback, None, self._output.ctypes.data)
        assert isinstance(graph, int)
        return graph
