"""The decoder's kernels of rows and cache slots against the CPU's own, over random steps with padding."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from kernel_calls import moved
from kernel_rows import DEVICE, by_torch_too, kernel_only, near
from kernel_slots import JUNK, Rows, Slots, empty_state, heads_of, ints
from nightly import nightly, nightly_but

from fastqps._core import ADMITTED_WORDS
from fastqps.kernels.embed_tokens import embed_tokens
from fastqps.kernels.last_rows import last_rows
from fastqps.kernels.layers import Attention
from fastqps.kernels.rope_kv import rope_kv
from fastqps.kernels.slot_attention import slot_attention
from fastqps.ops.cpu.decode_ops import CpuDecodeOps

pytestmark = pytest.mark.compute
computed_by = by_torch_too(__name__, "embed_tokens", "last_rows", "rope_kv", "slot_attention")

CPU = CpuDecodeOps(torch.float32)
NEAR = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
NO_ANGLES: dict[str, Any] = {"rotary": None}
# Heads, of keys and values, head_dim, prefix, norms, and options. The interpreter cannot multiply bfloat16.
SHAPES: tuple[tuple[int, int, int, int, bool, dict[str, Any]], ...] = (
    (9, 3, 64, 0, False, {}),
    (2, 2, 32, 0, False, {"window": 9}),
    (14, 2, 64, 21, False, {"window": 40, "cap": 2.0}),
    (8, 2, 128, 0, True, {"cap": 0.5}),
    (6, 2, 20, 70, True, {"window": 33}),
    (20, 1, 32, 3, False, NO_ANGLES),
)


def allocate_sevens(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel does not write is then known."""
    new_empty = torch.Tensor.new_empty
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda *args, **options: new_empty(*args, **options).fill_(7))


def attend(
    qkv: torch.Tensor, attention: Attention, cache: torch.Tensor, prefix: torch.Tensor, rows: Rows, last: bool
) -> torch.Tensor:
    """Both kernels on ``qkv`` [T, …], as a layer calls them."""
    where = rows.on_device("positions"), rows.on_device("kv_slots"), rows.counts()
    queries = rope_kv(qkv, cache, moved(attention, DEVICE), *where, prefix_len=prefix.shape[2])
    seen, options = (queries, cache, prefix, rows.on_device("starts"), *where), (attention.window, attention.cap)
    return slot_attention(*seen, last_rows=last, window=options[0] or None, cap=options[1] or None)


FEW_SHAPES = [(*shape, torch.float32) for shape in SHAPES[1:5:3]] + [(*SHAPES[-1], torch.float16)]
ALL_SHAPES = [
    (*shape, dtype)
    for dtype in NEAR
    for shape in SHAPES
    if DEVICE == "cuda" or dtype == torch.float32 or (dtype == torch.float16 and shape in (SHAPES[0], SHAPES[-1]))
]


@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim", "prefix_len", "norm", "more", "dtype"), nightly_but(FEW_SHAPES, ALL_SHAPES)
)
def test_attention_over_random_steps(
    heads: int,
    kv_heads: int,
    head_dim: int,
    prefix_len: int,
    norm: bool,
    more: dict[str, Any],
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
    computed_by: str,
) -> None:
    allocate_sevens(monkeypatch)
    torch.manual_seed(heads)
    slots = Slots(5, 90, prefix_len, random.Random(heads))
    layer = replace(heads_of(heads, kv_heads, head_dim, prefix_len + 90, norm), **more)
    cache = torch.full((2, 6, kv_heads, 90, head_dim), torch.nan)
    prefix = torch.randn(2, kv_heads, prefix_len, head_dim).to(dtype)
    device_cache, tolerance = cache.to(DEVICE, dtype), NEAR[dtype]
    for step in range(5):
        rows = slots.random_step(T=70, S=6)
        n, last = len(rows.positions), step % 3 == 2
        qkv = torch.full((rows.T, (heads + 2 * kv_heads) * head_dim), torch.nan, dtype=dtype)
        qkv[:n] = torch.randn(n, qkv.shape[1])
        wanted = CPU.attend(qkv[:n].float(), layer, cache, prefix.float(), rows.exact(), last)
        found = attend(qkv.to(DEVICE), layer, device_cache, prefix.to(DEVICE), rows, last)
        near(found[: len(wanted)].cpu(), wanted, tolerance)
        assert len(found) == (rows.S if last else rows.T)
        assert computed_by == "torch" or (found[len(wanted) :] == 7).all()
        assert torch.equal(device_cache.isnan().cpu(), cache.isnan())
        near(device_cache.nan_to_num().cpu(), cache.nan_to_num(), tolerance)


@pytest.mark.parametrize(
    ("bad", "prefix_len", "last"),
    [
        (torch.nan, 21, True),
        *nightly((torch.inf, 0, False), (torch.nan, 0, False), (torch.inf, 21, True)),
    ],
)
def test_attention_beside_what_is_not_finite(bad: float, prefix_len: int, last: bool) -> None:
    """What older sequences have left in a slot, and other runs of the step: the answers are the same to the bit."""
    at, layer = prefix_len, heads_of(9, 3, 64, prefix_len + 90, False)
    first = Rows([(0, at, 40), (1, at, 11), (2, at, 33)], T=96, S=4)
    rows, sound = Rows([(2, at, 20), (0, at, 7), (1, at, 3)], T=32, S=4), [*range(20), *range(27, 30)]
    qkv, old = torch.randn(32, 15 * 64), torch.randn(96, 15 * 64)
    prefix = torch.randn(2, 3, prefix_len, 64).to(DEVICE)
    found = []
    for left in (1.0, bad):
        cache = torch.full((2, 4, 3, 90, 64), left).to(DEVICE)
        older, now = old * left, qkv.clone()
        now[20:27] *= left
        attend(older.to(DEVICE), layer, cache, prefix, first, False)
        assert left == 1.0 or not cache[:, :3, :, :11].isfinite().any()
        found.append(attend(now.to(DEVICE), layer, cache, prefix, rows, last).cpu()[[0, 2] if last else sound])
    assert found[0].isfinite().all() and torch.equal(*found)


@kernel_only
def test_the_last_slots_of_a_large_cache() -> None:
    """Offsets beyond 2^31 numbers; the memory between is never touched."""
    slots, length, size = 8300, 2048, 64
    try:
        cache = torch.empty(2, slots, 2, length, size, dtype=torch.float16, device=DEVICE)
    except RuntimeError as error:
        pytest.skip(f"no room for 9 GB of addresses: {error}")
    layer, small = heads_of(2, 2, size, length, False), torch.zeros(2, 2, 2, length, size)
    rows, small_rows = (Rows([(at, 0, 3), (at + 1, 4, 1)], T=5, S=2) for at in (slots - 2, 0))
    cache[:, -1, :, :4], qkv, prefix = 0, torch.randn(5, 6 * size).half(), torch.zeros(2, 2, 0, size)
    wanted = CPU.attend(qkv[:4].float(), layer, small, prefix, small_rows.exact(), False)
    found = attend(qkv.to(DEVICE), layer, cache, prefix.half().to(DEVICE), rows, False)
    near(found[:4].cpu(), wanted, 4e-3)
    near(cache[:, -2:, :, :3].cpu(), small[:, :, :, :3], 2e-3)


def test_a_prefix_is_a_cache_of_one_slot() -> None:
    """``DecodeState.of_prefix``: the slots' stride is not that of several."""
    layer, prefix = heads_of(3, 1, 32, 40, False), torch.zeros(2, 1, 40, 32)
    device_prefix, rows, qkv = prefix.to(DEVICE), Rows([(0, 0, 40)], T=48, S=1), torch.randn(48, 5 * 32)
    nothing = prefix[:, :, :0]
    wanted = CPU.attend(qkv[:40], layer, prefix.unsqueeze(1), nothing, rows.exact(), True)
    found = attend(qkv.to(DEVICE), layer, device_prefix.unsqueeze(1), device_prefix[:, :, :0], rows, True)
    near(found.cpu(), wanted, 2e-5)
    near(device_prefix.cpu(), prefix)


def test_embedding_carries_over_and_admits(monkeypatch: pytest.MonkeyPatch, computed_by: str) -> None:
    allocate_sevens(monkeypatch)
    rows, ids = Rows([(3, 0, 2), (1, 5, 1), (0, 9, 1)], T=6, S=8), [4, 0, -1, 49]
    table, state = torch.randn(50, 40), empty_state(4)
    state.last_token[:] = torch.tensor([11, 22, 33, 44])
    records = torch.randint(-9, 9, (8, ADMITTED_WORDS), dtype=torch.int32)
    records[:, 0] = ints([3, 1], 8)
    params, history = (x.to(DEVICE, copy=True) for x in (state.params, state.history))
    stamps = torch.full((2,), -1, device=DEVICE)
    found = embed_tokens(
        table.to(DEVICE), ints(ids, 6, DEVICE), rows.on_device("kv_slots"), state.last_token.to(DEVICE),
        rows.counts(admitted=2), admitted=records.to(DEVICE), params=params, stamps=stamps,
        positions=rows.on_device("positions"), history=history,
    ).cpu()  # fmt: skip
    wanted = CPU.embed(table, rows.exact(ids=ints(ids, 4), admitted=records[:2]), state)
    assert torch.equal(wanted, table[[4, 0, 22, 49]])
    assert torch.equal(found[:4], wanted) and (computed_by == "torch" or (found[4:] == 7).all())
    assert torch.equal(params.cpu(), state.params) and state.params.any()
    assert torch.equal(history.cpu(), state.history)
    assert [state.history[at].tolist() for at in ((3, 0), (3, 1), (1, 5), (0, 9))] == [4, 0, 22, 49]
    clock = DEVICE == "cuda" and computed_by == "kernel"
    assert (stamps[0] > 0 and stamps[1] == 0) if clock else stamps.tolist() == [-1, -1]
    none, nobody = ints([0, 0, 0], 16, DEVICE), ints([], 6, DEVICE)
    kept = {"admitted": records.to(DEVICE), "params": params, "positions": nobody, "history": history}
    nobody = embed_tokens(table.to(DEVICE), nobody, nobody, state.last_token.to(DEVICE), none, **kept)
    assert computed_by == "torch" or (nobody == 7).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("placed", "scale"), [(True, 1.0), (False, 7.3), (True, 0.3)])
@pytest.mark.usefixtures("computed_by")
def test_words_are_scaled_and_placed(placed: bool, scale: float, dtype: torch.dtype) -> None:
    rows, ids, state = Rows([(3, 0, 2), (1, 5, 1), (0, 9, 1)], T=6, S=8), [4, 0, 17, 49], empty_state(4)
    table = torch.randn(50, 40).to(dtype)
    places = torch.randn(10, 40).to(dtype) if placed else None
    params, history, admitted = (x.to(DEVICE) for x in (state.params, state.history, ints([], ADMITTED_WORDS)[None]))
    found = embed_tokens(
        table.to(DEVICE), ints(ids, 6, DEVICE), rows.on_device("kv_slots"), state.last_token.to(DEVICE), rows.counts(),
        admitted=admitted, params=params, positions=rows.on_device("positions"), history=history,
        places=None if places is None else places.to(DEVICE), scale=scale,
    )[:4].cpu()  # fmt: skip
    exact = table[ids].float() * scale + (0 if places is None else places[[0, 1, 5, 9]].float())
    wanted = CPU.embed(table, rows.exact(ids=ints(ids, 4)), state, places, scale)
    near(found, wanted, NEAR[dtype])
    near(wanted, exact, NEAR[dtype])


def test_last_rows() -> None:
    x, rows = torch.randn(9, 24), Rows([(0, 0, 4), (1, 3, 1), (2, 0, 2)], T=9, S=5)
    found = last_rows(x.to(DEVICE), rows.on_device("starts"), rows.counts())
    assert torch.equal(found[:3].cpu(), x[[3, 4, 6]]) and found.shape == (5, 24)
    assert JUNK in rows.on_device("starts")
