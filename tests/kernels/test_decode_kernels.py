"""The decoder's CPU kernels as Python calls them, against torch."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from fastqps import _core

pytestmark = pytest.mark.compute

DTYPES = (torch.float32, torch.bfloat16)
THREADS = 2
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 3e-2}


def ints(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Layer:
    """One attention layer with a cache, by default of four slots and one for padding; and what torch gives."""

    def __init__(
        self, heads: int, kv_heads: int, size: int, dtype: torch.dtype, slots: int = 5, length: int = 96
    ) -> None:
        self.heads, self.kv_heads, self.size, self.dtype = heads, kv_heads, size, dtype
        self.cache = torch.zeros(2, slots, kv_heads, length, size, dtype=dtype)
        self.shared = torch.zeros(2, kv_heads, 0, size, dtype=dtype)
        angles = torch.outer(torch.arange(240.0), 1e4 ** (-torch.arange(0, size, 2) / size))
        self.rotary = torch.stack((angles.cos(), angles.sin()), dim=1).contiguous()
        self.prefix: list[torch.Tensor] = []
        self.slots: list[list[torch.Tensor]] = [[] for _ in range(slots)]

    def step(self, runs: list[tuple[int, int]], last_rows_only: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        """(slot, rows) of each run → what the kernel and torch make of random rows."""
        positions = [len(self.prefix) + len(self.slots[slot]) + i for slot, rows in runs for i in range(rows)]
        slots = [slot for slot, rows in runs for _ in range(rows)]
        starts = [0]
        for _, rows in runs:
            starts.append(starts[-1] + rows)
        qkv = torch.randn(len(slots), (self.heads + 2 * self.kv_heads) * self.size).to(self.dtype)
        out = torch.full((len(runs) if last_rows_only else len(slots), self.heads * self.size), torch.nan)
        out = out.to(self.dtype)
        at, where, which = ints(starts), ints(positions), ints(slots)

        _core.attend_slots(
            out.data_ptr(),
            qkv.data_ptr(),
            self.cache.data_ptr(),
            self.dtype == torch.bfloat16,
            self.heads,
            self.kv_heads,
            self.size,
            at.data_ptr(),
            len(runs),
            where.data_ptr(),
            which.data_ptr(),
            self.cache.shape[1],
            self.cache.shape[3],
            self.size**-0.5,
            prefix=self.shared.data_ptr(),
            prefix_len=len(self.prefix),
            rotary=self.rotary.data_ptr(),
            last_rows_only=last_rows_only,
            threads=THREADS,
        )
        want = torch.stack([self._row(row, *at) for row, *at in zip(qkv.float(), slots, positions, strict=True)])
        return out.float(), want[at[1:].long() - 1] if last_rows_only else want

    def _row(self, row: torch.Tensor, slot: int, position: int) -> torch.Tensor:
        cos, sin = (part.repeat(2) for part in self.rotary[position])
        q, k, v = row.view(-1, self.size).split([self.heads, self.kv_heads, self.kv_heads])
        q, k = (x * cos + rotate_half(x) * sin for x in (q, k))
        self.slots[slot].append(torch.stack((k.to(self.dtype).float(), v)))
        seen = torch.stack(self.prefix + self.slots[slot], dim=2)  # [2, kv_heads, rows, size]
        k, v = seen.repeat_interleave(self.heads // self.kv_heads, dim=1)
        return functional.scaled_dot_product_attention(q.unsqueeze(1), k, v).flatten()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "kv_heads", "size"), [(5, 5, 64), (6, 2, 32), (3, 1, 20)])
@pytest.mark.parametrize("prefix", [0, 21, 120])
def test_attention_over_slots(dtype: torch.dtype, heads: int, kv_heads: int, size: int, prefix: int) -> None:
    torch.manual_seed(1)
    layer = Layer(heads, kv_heads, size, dtype)
    if prefix:
        alone = Layer(heads, kv_heads, size, dtype, slots=1, length=prefix)
        torch.testing.assert_close(*alone.step([(0, prefix)]), rtol=0, atol=TOLERANCE[dtype])
        layer.prefix, layer.shared = alone.slots[0], alone.cache[:, 0].contiguous()
    steps = ([(0, 50), (2, 1), (1, 3)], [(2, 1), (1, 1), (0, 1)], [(0, 1), (3, 20), (2, 2)])
    for runs in steps:
        torch.testing.assert_close(*layer.step(runs), rtol=0, atol=TOLERANCE[dtype])
    torch.testing.assert_close(*layer.step(steps[2], last_rows_only=True), rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows(dtype: torch.dtype) -> None:
    bfloat16, near = dtype == torch.bfloat16, {"rtol": 2e-5 if dtype == torch.float32 else 8e-3, "atol": 1e-6}
    rows, weight = torch.randn(7, 640).to(dtype), torch.randn(640)
    out = torch.empty_like(rows)
    _core.rms_norm(out.data_ptr(), rows.data_ptr(), bfloat16, 7, weight.data_ptr(), 640, 1e-5, THREADS)
    torch.testing.assert_close(out.float(), functional.rms_norm(rows.float(), (640,), weight, 1e-5), **near)
    gated = torch.empty(7, 320, dtype=dtype)
    _core.gated_silu(gated.data_ptr(), rows.data_ptr(), bfloat16, 7, 320, THREADS)
    gate, up = rows.float().chunk(2, dim=1)
    torch.testing.assert_close(gated.float(), functional.silu(gate) * up, **near)
    ids, slots, last = ints([4, -1, 0]), ints([1, 2, 0]), ints([3, 3, 6])
    embedded = torch.empty(3, 640, dtype=dtype)
    _core.embed_tokens(
        embedded.data_ptr(), bfloat16, 3, ids.data_ptr(), slots.data_ptr(), last.data_ptr(), rows.data_ptr(), 7, 640
    )
    assert torch.equal(embedded, rows[[4, 6, 0]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_greedy_and_logprobs(dtype: torch.dtype) -> None:
    runs, vocab = 9, 1003
    logits = (4 * torch.randn(runs, vocab)).to(dtype)
    params = torch.zeros(runs, _core.ADMITTED_WORDS, dtype=torch.int32)
    admitted = torch.full((runs, _core.ADMITTED_WORDS), -1, dtype=torch.int32)
    admitted[:, 0] = torch.arange(runs)
    admitted[:, 1:8] = ints([0, 0, 0, 0, 0, 50, 2])  # greedy, 50 tokens, with logprobs
    _core.admit(params.data_ptr(), admitted.data_ptr(), runs)
    assert torch.equal(params, admitted)
    starts, slots, made = (torch.arange(n, dtype=torch.int32) for n in (runs + 1, runs, runs))
    made[3] = 49
    best = logits.float().argmax(dim=1)
    eos = ints([int(best[5])])
    tokens, finish, last = (torch.zeros(runs, dtype=torch.int32) for _ in range(3))
    logprobs = torch.zeros(runs)
    _core.sample(
        tokens.data_ptr(),
        logprobs.data_ptr(),
        finish.data_ptr(),
        last.data_ptr(),
        logits.data_ptr(),
        dtype == torch.bfloat16,
        runs,
        vocab,
        starts.data_ptr(),
        slots.data_ptr(),
        made.data_ptr(),
        params.data_ptr(),
        eos.data_ptr(),
        1,
        THREADS,
    )
    assert tokens.tolist() == last.tolist() == best.tolist()
    want = functional.log_softmax(logits.float(), dim=1)[torch.arange(runs), best]
    torch.testing.assert_close(logprobs, want, rtol=0, atol=2e-5)
    assert finish.tolist() == [1 if t == eos[0] else 2 if i == 3 else 0 for i, t in enumerate(best.tolist())]
