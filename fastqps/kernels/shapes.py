"""The configuration of each kernel by the shape of its work: block sizes, warps, stages. Rules, not tuning tables.

A block's size is a power of two; lanes beyond the width are masked and cost no memory traffic.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

_ROW_ELEMENTS_PER_WARP = 512  # 16 per lane: two 16-byte loads of bf16, in flight together
_ROW_WARPS_MAX = 16
_ROWS_TOGETHER = 4
ROWS_TOGETHER_FROM = 2048  # rows of a graph whose programs take several
_POOL_PROGRAMS_MAX = 1024


def next_power_of_2(n: int) -> int:
    """The least power of two that is not below ``n``, 1 or more."""
    return 1 << (n - 1).bit_length()


@dataclass(frozen=True)
class RowShape:
    """One program holds ``rows`` whole rows in registers, so that each is read once."""

    block: int  # columns, a power of two
    warps: int
    rows: int


def row_shape(width: int, rows: int = 1) -> RowShape:
    """For kernels that need a number about the whole row (mean, square, largest) before they write any of it.

    A row of up to 512 belongs to one warp: no barrier, no shared memory. Wider ones take a warp for each 512, up to 16.

    ``rows``: of the graph, for kernels that read more than the rows themselves, such as weights. 4 rows of up to 512,
    or 2 of up to 1,024, share those reads and have their own in flight together. Each row lies in the same lanes as it
    would alone, so its sums have the same order. Graphs of fewer than 2,048 rows give each program one: 4 rows would
    leave some schedulers of a large GPU (528 of an H200) without a program, and the others four times the work in turn.
    """
    block = max(32, next_power_of_2(width))
    warps = min(_ROW_WARPS_MAX, max(1, block // _ROW_ELEMENTS_PER_WARP))
    together = max(1, _ROWS_TOGETHER // warps)
    return RowShape(block, warps, together if rows >= ROWS_TOGETHER_FROM and rows % together == 0 else 1)


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
    registers: int | None = None  # for each thread, at most: more would keep other tiles out; None: no limit


def attention_shape(size: int, dtype: torch.dtype, rotary: bool = False, relative: bool = False) -> AttentionShape:
    """A tile of n rows sees n keys and what its first and last item have beyond it, masked: short tiles waste least.

    Heads of up to 32: 32 rows of two warps, 32 keys at a time. Their cost is the softmax, not the product, so that keys
    that a turn does not need cost most: on an H200 64 keys took 25 % longer at items of 32 tokens, and 10 % less at
    128. Wider heads: 64 rows, the least that four warps of sm_90 multiply together; above 64
    eight warps share a tile of fewer keys, for registers' sake, and above 128 the rows are fewer, too. So does float32,
    which is for comparison. Registers of four warps are limited so that four tiles share a multiprocessor, or three
    where queries and keys turn. Vectors by distance make three products of one, and what two of them give changes
    lanes: their tiles are small, for registers' sake.
    """
    block, half_block = max(16, next_power_of_2(size)), max(16, next_power_of_2(size // 2))
    if relative:
        rows = 16 if dtype == torch.float32 else 32
        return AttentionShape(rows, rows, block, half_block, 8, 1 if dtype == torch.float32 else 2)
    if dtype == torch.float32:
        return AttentionShape(16, 32 if size <= 64 else 16, block, half_block, 4, 1)
    if size > 128:
        return AttentionShape(32, 32, block, half_block, 8, 2)
    rows, keys, warps = (32, 32, 2) if size <= 32 else (64, 64, 4) if size <= 64 else (64, 32, 8)
    registers = None if warps != 4 else 168 if rotary else 128
    return AttentionShape(rows, keys, block, half_block, warps, 2, registers)


@dataclass(frozen=True)
class TileShape:
    """One program: ``rows`` by ``columns`` numbers."""

    rows: int
    columns: int
    warps: int


def activation_shape() -> TileShape:
    """256 columns are one load of 16 bytes of bf16 for each lane of a warp, and divide most models' inner width."""
    return TileShape(8, 256, 4)


@dataclass(frozen=True)
class PoolShape:
    """One program: ``rows`` by ``columns`` numbers at a time, of each ``items``-th item."""

    rows: int
    columns: int
    warps: int
    items: int


def pool_shape(width: int, items: int) -> PoolShape:
    """128 columns are two whole cache lines of bf16; 32 rows are a usual item.

    Up to 1,024 programs, which all fit an H200 at once: a step of few items, in a graph with room for many, starts no
    rounds of programs that have none. A program with several items reads one after another.
    """
    columns = 128
    return PoolShape(32, columns, 4, min(items, max(1, _POOL_PROGRAMS_MAX // -(-width // columns))))


def bag_shape() -> TileShape:
    """Rows lie anywhere in the table: 16 of them are in flight at once, each as two whole cache lines of float16."""
    return TileShape(16, 128, 4)


def rope_kv_shape(head_dim: int) -> TileShape:
    """Rows are heads, columns the numbers of a half, both halves of which a lane holds: eight of each in bf16."""
    columns = max(8, next_power_of_2(head_dim // 2))
    return TileShape(max(1, 1024 // columns), columns, 4)


@dataclass(frozen=True)
class SlotAttentionShape:
    """One program takes the query heads that share one of keys and values, of up to ``rows`` rows of one run."""

    rows: int
    queries: int  # rows · query heads, padded
    columns: int  # of a head, padded
    keys: int  # of each step of the loop
    warps: int
    stages: int


def slot_attention_shape(group: int, head_dim: int, dtype: torch.dtype, last_rows: bool) -> SlotAttentionShape:
    """Tiles of 16 queries, the least that a matrix product takes: what one row leaves is filled by the next of its run.

    16 keys at a time and one warp, for heads of up to 64: sequences are short, so that what a program does before its
    loop counts as much as the loop, and one warp does it once. On an H200 32 keys and two warps took 12 to 25 % longer,
    from 64 rows to 1,024. Wider heads have more registers to share. float32 is for comparison.
    """
    columns = max(16, next_power_of_2(head_dim))
    queries = max(16, next_power_of_2(group))
    rows = 1 if last_rows else queries // group
    if dtype == torch.float32:
        return SlotAttentionShape(rows, queries, columns, 32 if columns <= 64 else 16, 4, 1)
    if columns <= 64:
        return SlotAttentionShape(rows, queries, columns, 16, 1, 3)
    return SlotAttentionShape(rows, queries, columns, 32, 2 if columns <= 128 else 4, 2)


@dataclass(frozen=True)
class SampleShape:
    """Chunks are neighbouring logits of which the first pass keeps the largest, and sums where they are drawn from."""

    chunk: int  # logits
    chunks: int  # of a program of the first pass
    columns: int  # chunks of the whole vocabulary, padded
    warps: int  # of the first pass
    step: int  # chunks at a time, where the second adds them up
    merge_warps: int  # of the second
    merge_registers: int  # for each thread: more would keep other runs out


def sample_shape(vocab: int) -> SampleShape:
    """Chunks of 64: a draw from the 64 likeliest then has 64 · 64 logits to read again, about as many as chunks.

    A program of the first pass reads 8192 logits, four loads of 16 bytes for each lane of eight warps. The second needs
    few registers where it takes the largest logit and many where it draws; 80 are enough, and let three runs share a
    multiprocessor.
    """
    columns = max(64, next_power_of_2(-(-vocab // 64)))
    return SampleShape(64, 128, columns, 8, min(columns, 512), 8, 80)
