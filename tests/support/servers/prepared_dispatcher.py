"""The usual dispatcher with ``--preparation python``, each of whose steps has to be the C++'s to the last byte.

It ends at the first one that is not. The steps' shapes go to the file PREPARED_STEPS, a line each.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from fastqps.dispatcher import loop as dispatcher
from fastqps.process.children import DispatcherSettings
from fastqps.runners import preparation
from fastqps.runners.decode_buffers import DecodeBuffers

NEVER_WRITTEN = 0x5A5A5A5A


def arrays(buffers: Any, shape: tuple[int, int, int]) -> list[tuple[Any, int]]:
    """The input arrays of a step, and how much of each is its own."""
    b, (n, tokens, n_new) = buffers, shape
    if isinstance(b, DecodeBuffers):
        rows = [(a, tokens) for a in (b.input_ids, b.positions, b.kv_slots)]
        return [*rows, (b.header, 5), (b.starts, n + 1), (b.made, n), (b.admitted, n_new)]
    return [*((a, tokens) for a in (b.input_ids, b.position_ids, b.token_type_ids)), (b.cu_seqlens, n + 1)]


class Compared(preparation.PythonPreparation):
    def __call__(self, step: int) -> None:
        runner, stepper = self._runners[step], self._stepper
        shape = stepper.shape(step)  # type: ignore[attr-defined]
        contents, before = stepper.contents(step), []
        for array, own in arrays(runner.buffers(), shape):
            before.append(array[:own].copy())
            array[:] = NEVER_WRITTEN
        found = preparation.write_step(runner, contents)
        same = found == shape
        for (array, own), native in zip(arrays(runner.buffers(), shape), before, strict=True):
            same &= np.array_equal(array[:own], native) and bool((array[own:] == NEVER_WRITTEN).all())
        if not same:
            print(f"step {shape} is another one in Python: {found}", file=sys.stderr, flush=True)
            os._exit(1)
        with Path(os.environ["PREPARED_STEPS"]).open("a") as file:
            print(*shape, file=file)
        stepper.prepared(step)


def main(settings: DispatcherSettings) -> int:
    preparation.PythonPreparation = Compared  # type: ignore[misc]
    return dispatcher.main(settings)
