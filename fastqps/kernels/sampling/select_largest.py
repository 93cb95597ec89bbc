"""Where the k largest of a program's numbers stand, by a search for the least of them; nothing is sorted."""

from __future__ import annotations

import triton
import triton.language as tl


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
    """Writes the ``place`` of the ``k`` largest of ``order`` to ``to`` [k], of equals the first ones, for all threads.

    ``order``, k or more and fewer than 2^15, stand in the order of ``place``, and so does what is written.
    """
    least = _least_of_largest(order, k)
    above, equal = order > least, order == least
    counts = tl.cumsum((above.to(tl.int32) << 16) | equal.to(tl.int32), axis=0)  # both at once
    missing = k - tl.sum(above.to(tl.int32), axis=0)
    equals = counts & 0xFFFF
    at = (counts >> 16) + tl.minimum(equals, missing) - 1
    tl.store(to + at, place, mask=above | (equal & (equals <= missing)))
    tl.debug_barrier()
