"""Kernels of encoders against plain PyTorch, over packed items of uneven lengths and padding behind them."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import torch
from kernel_rows import DEVICE, by_torch_too, check_fp8, kernel_only, near, normal, rows_of_programs
from nightly import nightly
from packed_rows import Packed, attention, packed
from torch.nn import functional as F

from fastqps.kernels.bag_means import bag_means
from fastqps.kernels.embed_norm import Embedded, embed_norm
from fastqps.kernels.layers import Attention, Tables
from fastqps.kernels.pool import pool
from fastqps.kernels.shapes import AttentionShape, PoolShape, pool_shape, search_shape
from fastqps.kernels.stamps import end_step
from fastqps.kernels.tile_attention import tile_attention
from fastqps.kernels.torch_ops.attention import opening_of
from fastqps.ops.interface import reach_of

pytestmark = pytest.mark.compute
computed_by = by_torch_too(__name__, "bag_means", "embed_norm", "end_step", "pool", "tile_attention")

WIDTH = 48
LENGTHS = {
    "ragged": [5, 1, 30, 2, 33, 64, 7],
    "one": [17],
    "one token": [1],
    "none": [],
    "across tiles": [60, 10, 100, 90],
}


def embedded(step: Packed, **options: Any) -> Embedded:
    words, weight = normal(50, WIDTH), normal(WIDTH, seed=3)
    return embed_norm(step.ids, None, step.cu_seqlens, step.counts, Tables(words, weight=weight, eps=1e-5), **options)


@pytest.mark.parametrize("name", LENGTHS)
def test_rows_know_their_items(name: str) -> None:
    step = packed(LENGTHS[name])
    done, (starts, ends) = embedded(step, return_values=False), step.bounds()
    assert torch.equal(done.row_start, starts) and torch.equal(done.row_end, ends)


@pytest.mark.parametrize(("items", "room", "looks"), [(9, 512, 1), (9, 513, 2), *nightly((550, 551, 2)), (5, 4097, 2)])
def test_rows_know_their_items_among_many(items: int, room: int, looks: int) -> None:
    assert (search_shape(room).stride > 1) == (looks == 2)
    step = packed([1] * (items - 2) + [3, 4], spare_tokens=2, spare_items=room - items - 1)
    done = embedded(step, return_values=False)
    assert torch.equal(done.row_start, step.bounds()[0])


def places_in_items(step: Packed, padding: int) -> torch.Tensor:
    """int64 [tokens]: as transformers numbers RoBERTa's positions."""
    at: list[int] = []
    for start, end in step.spans():
        counted = padding
        for i in step.ids[start:end].tolist():
            counted += i != padding
            at.append(padding if i == padding else counted)
    return torch.tensor(at, dtype=torch.int64, device=DEVICE)


@pytest.mark.parametrize("name", ["ragged", "one token", "none"])
def test_embedding_with_positions_and_types(name: str) -> None:
    step = packed(LENGTHS[name])
    words, places, kinds = normal(50, WIDTH), normal(70, WIDTH, seed=1), normal(2, WIDTH, seed=2)
    weight, bias, total = normal(WIDTH, seed=3), normal(WIDTH, seed=4), sum(step.lengths)
    tables = Tables(words, places, kinds, weight, bias, 1e-12, 2)
    done = embed_norm(step.ids, step.types, step.cu_seqlens, step.counts, tables, return_fp8=True)
    x = words[step.ids[:total].long()] + places[places_in_items(step, 1)] + kinds[step.types[:total].long()]
    wanted = F.layer_norm(x, (WIDTH,), weight, bias, 1e-12)
    assert done.values is not None and done.fp8 is not None and done.scale is not None
    near(done.values[:total], wanted)
    if total:
        check_fp8(done.fp8[:total], done.scale[:total], wanted)


@pytest.mark.parametrize(("padding", "longest"), [(0, 30), (1, 300), (5, 30)])
def test_padding_in_a_text_is_not_counted(padding: int, longest: int) -> None:
    """Positions are those of RoBERTa in transformers, also in an item longer than the 256 ids of one load."""
    step = packed([1, 9, longest, 3])
    step.ids[: sum(step.lengths) : 3] = padding
    words, places, weight = normal(50, WIDTH), normal(320, WIDTH, seed=1), normal(WIDTH, seed=3)
    tables = Tables(words, places, weight=weight, eps=1e-12, position_offset=padding + 1)
    done, at = embed_norm(step.ids, None, step.cu_seqlens, step.counts, tables), places_in_items(step, padding)
    assert done.values is not None
    x = words[step.ids[: len(at)].long()] + places[at]
    near(done.values[: len(at)], F.layer_norm(x, (WIDTH,), weight, None, 1e-12))


def test_embedding_without_a_norm_is_the_rows() -> None:
    step, words = packed([3, 4]), normal(50, WIDTH)
    done = embed_norm(step.ids, None, step.cu_seqlens, step.counts, Tables(words), return_fp8=True)
    assert done.values is not None and done.fp8 is not None and done.scale is not None
    assert torch.equal(done.values[:7], words[step.ids[:7].long()])
    check_fp8(done.fp8[:7], done.scale[:7], words[step.ids[:7].long()])


def test_embedding_without_types_takes_the_first() -> None:
    step, words, kinds, weight = packed([3, 4]), normal(50, WIDTH), normal(2, WIDTH, seed=2), normal(WIDTH, seed=3)
    tables = Tables(words, None, kinds, weight, None, 1e-5)
    done = embed_norm(step.ids, None, step.cu_seqlens, step.counts, tables)
    assert done.values is not None
    x = words[step.ids[:7].long()] + kinds[0]
    near(done.values[:7], F.layer_norm(x, (WIDTH,), weight, None, 1e-5))


@kernel_only
@pytest.mark.parametrize("dtype", [torch.float32, *nightly(torch.float16)])
@pytest.mark.parametrize("room", [3, 600])
@pytest.mark.parametrize("lengths", [[5, 1, 9, 2, 13, 7], [1], [], [3, 0, 0, 1, 0, 30, 1, 1, 0]], ids=str)
def test_rows_of_one_program_are_as_those_of_several(
    lengths: list[int], room: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit: items begin and end inside programs, also several in one, and padding lies behind live rows."""
    step = packed(lengths, spare_tokens=4 + -sum(lengths) % 4, spare_items=room)
    total = sum(lengths)
    step.ids[:total:3] = 1
    words, places, kinds = (normal(n, WIDTH, seed=n).to(dtype) for n in (50, 110, 2))
    tables = Tables(words, places, kinds, normal(WIDTH), normal(WIDTH), 1e-5)
    where = step.ids, step.types, step.cu_seqlens, step.counts
    for offset in (0, 2):
        found = []
        for rows in (1, 2, 4):
            rows_of_programs(monkeypatch, "embed_norm", rows)
            done = embed_norm(*where, replace(tables, position_offset=offset), return_fp8=True)
            assert done.values is not None and done.fp8 is not None and done.scale is not None
            numbers = [done.values[:total], done.fp8[:total].view(torch.uint8), done.scale[:total]]
            found.append([*numbers, done.row_start, done.row_end])
        assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(other, found[0], strict=True))
    assert all(torch.equal(*pair) for pair in zip(found[0][3:], step.bounds(), strict=True))


def check_attention(
    step: Packed,
    heads: int,
    size: int,
    window: int = 0,
    rotary: bool = False,
    dtype: torch.dtype = torch.float32,
    shape: AttentionShape | None = None,
    biased: bool = False,
    relative: bool = False,
    kv_heads: int | None = None,
    causal: bool = False,
    normed: bool = False,
) -> None:
    total = sum(step.lengths)
    qkv = (normal(len(step.ids), (heads + 2 * (kv_heads or heads)) * size) * 2).to(dtype)
    qkv[total:] = torch.nan
    angles = normal(600, size // 2, seed=5)
    table = torch.stack((angles.cos(), angles.sin()), 1) if rotary else None
    bias = normal(heads, 2 * reach_of(max(step.lengths)) + 1, seed=6) * 3 if biased else None
    reach = reach_of(max(step.lengths))
    vectors = (normal(2, heads, size, 2 * reach + 16, seed=7) / 2).to(dtype) if relative else None
    norms = (normal(size, seed=7) + 1, normal(size, seed=8) + 1, 1e-5) if normed else None
    how = Attention(
        heads, kv_heads or heads, table, *(norms or ()), window=window, causal=causal, bias=bias, relative=vectors
    )
    tiled: dict[str, Any] = {"shape": shape} if shape else {}
    done = tile_attention(qkv, *step.bounds(), how, **tiled)
    assert done.dtype == dtype
    tolerance = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}[dtype]
    wide = None if vectors is None else vectors.float()
    wanted = attention(qkv.float(), step, heads, window, table, bias, wide, kv_heads, causal, norms)
    near(done[:total], wanted, tolerance)


HALF, ROTARY = {"dtype": torch.float16}, {"rotary": True}
SHARED = {
    "kv_heads": 2,
    "causal": True,
    "normed": True,
    **ROTARY,
}  # as of decoders, with norms
ONE_KEY = {"kv_heads": 1, "causal": True, "window": 5, **ROTARY}
THREE, SIX, WINDOWED, RUNS = [3, 40, 22], [5, 1, 30, 64, 100, 27], [5, 90, 1, 70], [5, 90, 1, 7]
# Lengths, heads, size of each, options.
ATTENTION: list[tuple[list[int], int, int, dict[str, Any]]] = [
    *((lengths, 2, 32, {}) for lengths in LENGTHS.values() if lengths),
    *((THREE, 1, size, options) for size in (4, 24, 64, 128) for options in ({}, ROTARY)),
    *((THREE, 3, 16, {"biased": True, **dtype}) for dtype in ({}, HALF)),
    *((THREE, 2, 24, {"relative": True, **dtype}) for dtype in ({}, HALF)),
    *((WINDOWED, 1, 32, {"window": 3}), (WINDOWED, 1, 32, {"window": 40, **ROTARY})),
    *((RUNS, 4, 16, SHARED | dtype) for dtype in ({}, HALF)),
    *((RUNS, 3, 24, ONE_KEY | dtype) for dtype in ({}, HALF)),
    (SIX, 2, 64, ROTARY | HALF),
]
ATTENTION_AT_NIGHT: list[tuple[list[int], int, int, dict[str, Any]]] = [
    *(([1, 130, 5], 3, 16, {"biased": True, **dtype}) for dtype in ({}, HALF)),
    *((lengths, 2, size, {"relative": True}) for lengths, size in (([1, 130, 5], 16), ([7, 90], 64))),
    (WINDOWED, 1, 32, {"window": 64, **ROTARY}),
    *((RUNS, 2, 32, SHARED | {"causal": False, "window": 40, **dtype}) for dtype in ({}, HALF)),
    *((RUNS, 2, 256, SHARED | {"causal": False, "kv_heads": 1, **dtype}) for dtype in ({}, HALF)),
    *((SIX, 2, size, options | HALF) for size, options in ((32, {}), (64, {}), (128, ROTARY))),
]
if DEVICE != "cpu":  # the interpreter multiplies no bfloat16; the shapes of programs are those of float16
    ATTENTION += [(SIX, 2, 64, ROTARY | {"dtype": torch.bfloat16})]


@pytest.mark.parametrize(("lengths", "heads", "size", "options"), [*ATTENTION, *nightly(*ATTENTION_AT_NIGHT)])
def test_attention(lengths: list[int], heads: int, size: int, options: dict[str, Any]) -> None:
    check_attention(packed(lengths), heads, size, **options)


@pytest.mark.parametrize("rotary", [True, False])
@pytest.mark.parametrize(
    ("kv_heads", "size", "window", "dtype"), [(2, 16, 0, torch.float32), (1, 24, 9, torch.float16)]
)
def test_attention_behind_an_opening(kv_heads: int, size: int, window: int, dtype: torch.dtype, rotary: bool) -> None:
    """Each item has as much of it in front as the place of its first row says: the same as in full."""
    heads, fronts, lengths = 4, [21, 0, 1, 10, 21], [5, 70, 1, 33, 20]
    width, whole = (heads + 2 * kv_heads) * size, [sum(both) for both in zip(fronts, lengths, strict=True)]
    angles = normal(128, size // 2, seed=5)
    table = torch.stack((angles.cos(), angles.sin()), 1) if rotary else None
    how = Attention(heads, kv_heads, table, window=window, causal=True)
    common, own, step = normal(21, width, seed=1).to(dtype), normal(sum(lengths), width).to(dtype), packed(lengths)
    parts = zip(fronts, own.split(lengths), strict=True)
    full = torch.cat([part for front, rows in parts for part in (common[:front], rows)])
    wanted = attention(full.float(), packed(whole), heads, window, table, None, None, kv_heads, True)
    spare = len(step.ids) - len(own)
    places = [torch.arange(front, front + n) for front, n in zip(fronts, lengths, strict=True)]
    positions = F.pad(torch.cat(places), (0, spare), value=1 << 30).int().to(DEVICE)
    rows = F.pad(own, (0, 0, 0, spare), value=torch.nan)
    how = replace(how, opening=opening_of(common, how))
    done = tile_attention(rows, *step.bounds(), how, positions=positions)
    tails = [each[front:] for front, each in zip(fronts, wanted.split(whole), strict=True)]
    near(done[: len(own)], torch.cat(tails), 1e-5 if dtype == torch.float32 else 1e-2)


def test_attention_of_padding_alone_is_no_fault() -> None:
    tile_attention(normal(9, 96), *packed([]).bounds(), Attention(1, 1))


@kernel_only
def test_attention_refuses_what_cannot_be() -> None:
    table = torch.ones(3, 2, 4)
    with pytest.raises(ValueError, match="3 heads cannot share 2"):
        Attention(3, 2)
    with pytest.raises(ValueError, match="rotary positions alone"):
        Attention(1, 1, None, table[0, 0], table[0, 0])
    for other in ({"rotary": table}, {"bias": table}):
        with pytest.raises(ValueError, match="exclude rotary positions and biases"):
            Attention(1, 1, relative=table, **other)
    with pytest.raises(ValueError, match=r"rotary \[4, 2, 3\] is not contiguous"):
        Attention(1, 1, table.transpose(0, 2))


@kernel_only
def test_attention_of_long_items() -> None:
    check_attention(packed([512, 3]), heads=1, size=32, shape=AttentionShape(64, 128, 32, 16, 4, 1))


NOT_FINITE = [torch.inf, torch.nan]


@pytest.mark.parametrize("bad", NOT_FINITE)
@pytest.mark.parametrize(
    ("size", "window", "rotary", "dtype"),
    [(32, 0, False, torch.float32), (64, 3, True, torch.float32), (64, 0, False, torch.float16)],
)
def test_attention_keeps_what_is_not_finite_in_its_item(
    bad: float, size: int, window: int, rotary: bool, dtype: torch.dtype
) -> None:
    """Items that share tiles with others full of infinity or NaN answer as beside finite ones, to the bit."""
    step = packed([5, 1, 30, 7, 40, 2])
    angles = normal(600, size // 2, seed=5)
    table = torch.stack((angles.cos(), angles.sin()), 1) if rotary else None

    def attend(qkv: torch.Tensor) -> torch.Tensor:
        return tile_attention(qkv.to(dtype), *step.bounds(), Attention(1, 1, table, window=window))

    qkv = normal(len(step.ids), 3 * size) * 2
    beside_finite = attend(qkv)
    spans = step.spans()
    for number in (0, 3, 4):
        qkv[slice(*spans[number])] = bad
    found = attend(qkv)
    for number, span in enumerate(spans):
        if number in (0, 3, 4):
            assert not found[slice(*span)].isfinite().any()
        else:
            assert torch.equal(found[slice(*span)], beside_finite[slice(*span)]), number


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_attention_over_a_value_that_is_not_finite(bad: float) -> None:
    """Its own item's rows are not finite in that column, as in torch; nothing else changes."""
    step = packed([5, 30, 7])
    qkv = normal(len(step.ids), 6 * 32)
    before = tile_attention(qkv, *step.bounds(), Attention(2, 2))[:42]
    qkv[20, 4 * 32 + 3] = bad
    found = tile_attention(qkv, *step.bounds(), Attention(2, 2))[:42]
    wanted = attention(qkv, step, 2, 0, None)
    assert not wanted[5:35, 3].isfinite().any()
    assert torch.equal(found.isfinite(), wanted.isfinite())
    assert torch.equal(found[wanted.isfinite()], before[wanted.isfinite()])


@pytest.mark.parametrize("mode", ["cls", "lasttoken", "mean", "max"])
@pytest.mark.parametrize("name", ["ragged", "one token", "none"])
def test_pooling(mode: Any, name: str) -> None:
    step = packed(LENGTHS[name])
    hidden = normal(len(step.ids), 200)
    hidden[sum(step.lengths) :] = torch.nan
    items = len(step.lengths)
    out = torch.full((items + 3, 200), 7.0, device=DEVICE)
    assert pool(hidden, step.cu_seqlens, step.counts, mode, out=out) is out
    for row, (start, end) in zip(out, step.spans(), strict=False):
        item = hidden[start:end]
        near(row, {"cls": item[0], "lasttoken": item[-1], "mean": item.mean(0), "max": item.amax(0)}[mode])
    assert (out[items:] == 7).all()  # no row of padding is written


def test_pooling_passes_over_padding_at_the_end() -> None:
    step, hidden = packed([4, 3, 1, 2]), normal(19, 200)
    step.ids[:10] = torch.tensor([7, 0, 5, 0, 0, 0, 0, 0, 9, 9], device=DEVICE)
    found = pool(hidden, step.cu_seqlens, step.counts, "lasttoken", ids=step.ids, skipped=0)
    assert torch.equal(found[:4], hidden[[2, 4, 7, 9]])


@pytest.mark.parametrize("mode", ["cls", "lasttoken", "mean", "max"])
@pytest.mark.parametrize("bad", NOT_FINITE)
def test_pooling_beside_what_is_not_finite(mode: Any, bad: float) -> None:
    step, hidden = packed([5, 30, 7]), normal(51, 200)
    before = pool(hidden, step.cu_seqlens, step.counts, mode)
    hidden[5:35] = bad
    after = pool(hidden, step.cu_seqlens, step.counts, mode)
    assert torch.equal(after[[0, 2]], before[[0, 2]]) and not after[1].isfinite().any()


@kernel_only
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("mode", ["cls", "lasttoken", "mean", "max"])
def test_pooling_of_more_items_than_programs(mode: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of a program's items it is changes nothing; rows of padding stay as they are."""
    step = packed(LENGTHS["ragged"])
    hidden = normal(len(step.ids), 200).to(dtype)
    hidden[sum(step.lengths) :] = torch.nan
    args, skipping = (hidden, step.cu_seqlens, step.counts, mode), {"ids": step.ids, "skipped": int(step.ids[5])}
    before = pool(*args, out=torch.full((10, 200), 7.0, device=DEVICE), **skipping)
    assert (before[7:] == 7).all()
    for programs in (1, 3, 6):
        monkeypatch.setattr("fastqps.kernels.pool.pool_shape", lambda *_, n=programs: PoolShape(32, 128, 4, n))
        assert torch.equal(pool(*args, out=torch.full((10, 200), 7.0, device=DEVICE), **skipping), before)


def test_pooling_starts_no_more_programs_than_a_gpu_has_room_for() -> None:
    assert [pool_shape(384, n).items for n in (1, 64, 1024, 5000)] == [1, 64, 341, 341]
    assert pool_shape(1 << 20, 9).items == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8])
@pytest.mark.parametrize(("mapped", "weighted"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("name", ["ragged", "none"])
def test_means_of_bags(name: str, dtype: torch.dtype, mapped: bool, weighted: bool) -> None:
    step, rows, n_ids, skipped = packed(LENGTHS[name]), 37, 50, 3
    table = (40 * normal(rows, 200)).to(dtype)
    mapping = torch.arange(n_ids, dtype=torch.int32, device=DEVICE) * 7 % rows if mapped else None
    weights = normal(n_ids).abs() if weighted else None
    n_ids = n_ids if mapped or weighted else rows
    if weighted and not mapped:
        n_ids, weights = rows, normal(rows).abs()
    ids = torch.arange(len(step.ids), dtype=torch.int32, device=DEVICE) * 13 % (n_ids + 4)
    ids[::5] = skipped
    ids[sum(step.lengths) :] = 1 << 30  # of an older step: no index may come from it
    items = len(step.lengths)
    out = torch.full((items + 3, 200), 7.0, device=DEVICE)
    assert bag_means(table, mapping, weights, ids, step.cu_seqlens, step.counts, n_ids, skipped, out=out) is out
    for row, (start, end) in zip(out, step.spans(), strict=False):
        wanted = torch.zeros(200, device=DEVICE)
        named = [i for i in ids[start:end].tolist() if i < n_ids and i != skipped]
        for i in named:
            wanted += table[i if mapping is None else int(mapping[i])].float() * (1 if weights is None else weights[i])
        near(row, wanted / max(1, len(named)))
    assert (out[items:] == 7).all()  # no row of padding is written


@kernel_only
def test_stamps_are_of_the_device_alone() -> None:
    stamps = torch.zeros(2, dtype=torch.int64, device=DEVICE)
    step = packed([4, 5])
    embedded(step, stamps=stamps)
    pool(normal(18, 32), step.cu_seqlens, step.counts, "mean", stamps=stamps)
    end_step(stamps)
    start, end = stamps.tolist()
    assert (0 < start < end) if DEVICE == "cuda" else (start, end) == (0, 0)


@kernel_only
@pytest.mark.skipif(DEVICE != "cpu", reason="a GPU has its own clock")
@pytest.mark.parametrize("name", ["ragged", "one token", "none"])
def test_the_end_of_a_step_is_read_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many programs its last kernel has, and whether there is work for them or not."""
    step, stamps, ticks = packed(LENGTHS[name]), torch.tensor([5, 0]), count(77)
    monkeypatch.setattr("fastqps.kernels.stamps.device_clock_ns", lambda: next(ticks))
    monkeypatch.setattr("fastqps.kernels.pool.stamped", lambda given: given)
    pool(normal(len(step.ids), 200), step.cu_seqlens, step.counts, "mean", stamps=stamps)
    assert stamps.tolist() == [5, 77] and next(ticks) == 78
