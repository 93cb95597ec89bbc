"""Logits as integers of the same order, so that a number and its place can be compared as one."""

from __future__ import annotations

import triton
import triton.language as tl

NOTHING = tl.constexpr(-(1 << 31))  # below every number; what is not a number becomes this
LAST = tl.constexpr((1 << 31) - 1)  # at or above every number


@triton.jit
def ordered(x, valid):
    """float32 → int32; NOTHING for what is not a number and where not ``valid``. Zeros are equal, whatever their sign.

    Floats of one sign are ordered as their bits are, those below zero the other way round.
    """
    bits = tl.where(x == 0.0, 0.0, x).to(tl.int32, bitcast=True)
    return tl.where(valid & (x == x), bits ^ ((bits >> 31) & LAST), NOTHING)


@triton.jit
def number(order):
    """The float32 of an ``ordered`` one; -inf for NOTHING."""
    x = (order ^ ((order >> 31) & LAST)).to(tl.float32, bitcast=True)
    return tl.where(order == NOTHING, float("-inf"), x)


@triton.jit
def placed(order, place):
    """int64 of an ``ordered`` number and where it stands: of equal numbers, the first is the largest."""
    return (order.to(tl.int64) << 32) | (place ^ LAST).to(tl.int64)


@triton.jit
def order_of(both):
    """The ``ordered`` number of ``placed``."""
    return (both >> 32).to(tl.int32)


@triton.jit
def place_of(both):
    """Where it stands."""
    return (both & LAST).to(tl.int32) ^ LAST
