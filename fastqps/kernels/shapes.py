"""The configuration of each kernel by the shape of its work: block sizes, warps, stages. Rules, not tuning tables.

A block's size is a power of two; lanes beyond the width are masked and cost no memory traffic.
"""

from __future__ import annotations

from dataclasses import dataclass

from triton import next_power_of_2

_ROW_ELEMENTS_PER_WARP = 512  # 16 per lane: two 16-byte loads of bf16, in flight together
_ROW_WARPS_MAX = 16


@dataclass(frozen=True)
class RowShape:
    """One program holds one whole row in registers, so that it is read once."""

    block: int  # columns, a power of two
    warps: int


def row_shape(width: int) -> RowShape:
    """For kernels that need a number about the whole row (mean, square, largest) before they write any of it.

    A row of up to 512 belongs to one warp: no barrier, no shared memory. Wider ones take a warp for each 512, up to 16.
    """
    block = max(32, next_power_of_2(width))
    return RowShape(block, min(_ROW_WARPS_MAX, max(1, block // _ROW_ELEMENTS_PER_WARP)))
