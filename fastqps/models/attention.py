"""Attention inside each item of a packed batch: the kernel of csrc/step/cpu_ops.h, spread over threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise

import torch

from fastqps import _core
from fastqps.models.step import Step, address

_TOKENS_PER_THREAD_MIN = 256  # below that, handing work to a thread costs more than it saves


def attend(
    qkv: torch.Tensor, step: Step, heads: int, window: int = 0, rotary: torch.Tensor | None = None
) -> torch.Tensor:
    """qkv [tokens, 3 · heads · size] → [tokens, heads · size]; every token sees its item's tokens.

    With ``window`` it sees only those at most ``window`` positions away. ``rotary``, float32 [positions, 2, size / 2],
    holds the cos and sin by which query and key are turned at each position.
    """
    tokens, width = qkv.shape[0], qkv.shape[1] // 3
    out = qkv.new_empty(tokens, width)
    run = partial(
        _core.attend,
        out.data_ptr(),
        qkv.data_ptr(),
        qkv.dtype == torch.bfloat16,
        heads,
        width // heads,
        positions=step.positions.data_ptr(),
        rotary=address(rotary),
        window=window,
    )
    starts, items = step.starts.data_ptr(), len(step.starts) - 1
    threads = min(torch.get_num_threads(), items, tokens // _TOKENS_PER_THREAD_MIN)
    if threads < 2:
        run(starts=starts, n_items=items)
        return out
    jobs = [pool(threads).submit(run, starts=starts + 4 * first, n_items=n) for first, n in _shares(step, threads)]
    for job in jobs:
        job.result()
    return out


def _shares(step: Step, threads: int) -> Iterator[tuple[int, int]]:
    """(first item, items) for each thread, with about as many tokens each."""
    marks = torch.arange(1, threads) * (len(step.ids) / threads)
    cuts = [0, *torch.searchsorted(step.starts, marks).tolist(), len(step.starts) - 1]
    for first, last in pairwise(cuts):
        if last > first:
            yield first, last - first


@cache
def pool(threads: int) -> ThreadPoolExecutor:
    """The threads that kernels are spread over, of which there is one set for each number."""
    return ThreadPoolExecutor(threads, thread_name_prefix="attend")
