"""The k largest of a program's numbers, by a search for the least of them; nothing is sorted."""

from __future__ import annotations

import triton
import triton.language as tl

from fastqps.kernels.ordered import placed


@triton.jit
def _least_of_largest(order, k):
    """The largest number that at least ``k`` of ``order`` reach: halves its range, until just ``k`` do."""
    low = tl.min(order, axis=0).to(tl.int64)
    high = tl.max(order, axis=0).to(tl.int64) + 1  # fewer than k reach it
    reached = tl.full([], 1 << 30, tl.int32)
    while (high - low > 1) & (reached != k):
        middle = (low + high) >> 1
        n = tl.sum((order >= middle.to(tl.int32)).to(tl.int32), axis=0)
        reached = tl.where(n >= k, n, reached)
        low = tl.where(n >= k, middle, low)
        high = tl.where(n >= k, high, middle)
    return low.to(tl.int32)


@triton.jit
def select_largest(order, place, k, to):
    """Writes the ``placed`` of the ``k`` largest of ``order`` to ``to`` [k], of equals the first ones, for all threads.

    ``order`` are ``ordered`` numbers, k or more; they stand in the order of ``place``, and so does what is written.
    """
    least = _least_of_largest(order, k)
    above = (order > least).to(tl.int32)
    equal = (order == least).to(tl.int32)
    chosen = above | (equal & (tl.cumsum(equal, axis=0) <= k - tl.sum(above, axis=0)).to(tl.int32))
    tl.store(to + tl.cumsum(chosen, axis=0) - 1, placed(order, place), mask=chosen != 0)
    tl.debug_barrier()
