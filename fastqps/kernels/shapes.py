"""The configuration of each kernel by the shape of its work: block sizes, warps, stages. Rules, not tuning tables.

A block's size is a power of two; lanes beyond the width are masked and cost no memory traffic.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
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


@dataclass(frozen=True)
class SearchShape:
    """How a token finds its item: ``scan`` marks at once, each ``stride``-th of all."""

    scan: int
    stride: int


def search_shape(entries: int) -> SearchShape:
    """Up to 512 marks are looked at in one go; more take a second look."""
    scan = min(512, max(32, next_power_of_2(entries)))
    return SearchShape(scan, next_power_of_2(-(-entries // scan)))


@dataclass(frozen=True)
class AttentionShape:
    """One program: ``queries`` rows of one head against ``keys`` rows at a time."""

    queries: int
    keys: int
    block: int  # numbers of a head, a power of two; matrix products want 16 or more
    half_block: int  # of half a head, where rotary positions turn one half against the other
    warps: int
    stages: int
    precision: str  # of matrix products, where the inputs are float32


def attention_shape(size: int, dtype: torch.dtype, rotary: bool) -> AttentionShape:
    """Queries by 64, the least that four warps multiply together on sm_90.

    Keys by 128: with items of up to 32 tokens that is all that 64 rows see, so that most tiles take one turn. By 64
    where heads are wide. float32, which is for comparison, takes less of each, for registers' sake.
    """
    block, half_block = max(16, next_power_of_2(size)), max(16, next_power_of_2(size // 2))
    if dtype == torch.float32:
        return AttentionShape(32, 32, block, half_block, 4, 1, "ieee")
    return AttentionShape(64, 128 if size <= 64 else 64, block, half_block, 4, 2, "tf32")


@dataclass(frozen=True)
class TileShape:
    """One program: ``rows`` by ``columns`` numbers."""

    rows: int
    columns: int
    warps: int


def activation_shape() -> TileShape:
    """256 columns are one load of 16 bytes of bf16 for each lane of a warp, and divide most models' inner width."""
    return TileShape(8, 256, 4)


def pool_shape() -> TileShape:
    """128 columns are two whole cache lines of bf16; 32 rows are a usual item."""
    return TileShape(32, 128, 4)
