"""Drawing of tokens: the CPU's kernel against a GPU's operations draw by draw, and against probabilities."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
import torch
from generators import random_sampling
from padded import TorchDecodeOps
from transformers import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from fastqps._core import ADMITTED_WORDS, BIAS_WORDS, sequence_params
from fastqps.api.request import GenerateOptions
from fastqps.ops.cpu.decode_ops import CpuDecodeOps
from fastqps.ops.decode_step import DecodeStep, LogitRules

pytestmark = pytest.mark.compute


class State:
    """What ``sample`` reads and writes of a ``DecodeState``."""

    def __init__(self, slots: int, eos_ids: list[int]) -> None:
        self.params = torch.zeros(slots + 1, ADMITTED_WORDS, dtype=torch.int32)
        self.last_token = torch.zeros(slots + 1, dtype=torch.int32)
        self.eos_ids = torch.tensor(eos_ids, dtype=torch.int32)
        self.biases = torch.zeros(slots + 1, BIAS_WORDS, dtype=torch.int32)
        self.history = torch.zeros(slots + 1, 1, dtype=torch.int32)
        self.rules = LogitRules.of(None, ())


def ints(values: Any) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.int32)


def draw(
    ops: Any, logits: torch.Tensor, samplings: list[GenerateOptions], made: list[int], eos: list[int]
) -> dict[str, Any]:
    """Samples row i of ``logits`` with samplings[i] as the made[i]-th token of a sequence in cache slot n - 1 - i."""
    n = len(samplings)
    state, slots = State(n, eos), list(range(n))[::-1]
    admitted = ints([sequence_params(slot, **s) for slot, s in zip(slots, samplings, strict=True)])
    outputs = ints([-9] * n), torch.zeros(n), ints([-9] * n)
    runs = ints([0] * n), ints([0] * n), ints(slots), ints(range(n + 1)), ints(made)
    step = DecodeStep(*runs, *outputs, admitted, counts=ints([n, n, n]))
    ops.embed(logits[:1, :1], step, state)  # a table of one token: what the draws need is what else it does
    ops.sample(logits, step, state)
    assert state.last_token[:n].flip(0).tolist() == step.tokens.tolist()
    return {"tokens": step.tokens.tolist(), "logprobs": step.logprobs.tolist(), "finish": step.finish.tolist()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vocab", [1, 3, 50, 1000])
def test_devices_draw_the_same(vocab: int, dtype: torch.dtype) -> None:
    """Every option, equal logits included (all of a row, in bf16 many), with the finish and the log-probability."""
    rng = random.Random(vocab)
    torch.manual_seed(vocab)
    rows = 300
    samplings = [random_sampling(rng, vocab) for _ in range(rows)]
    logits = (torch.randn(rows, vocab) * 3).to(dtype)
    logits[::10] = 1.5
    made, eos = [rng.randint(0, 7) for _ in range(rows)], sorted(rng.sample(range(vocab), min(vocab, 3)))
    want, got = (draw(o, logits, samplings, made, eos) for o in (CpuDecodeOps(dtype), TorchDecodeOps(dtype)))
    other = [i for i in range(rows) if want["tokens"][i] != got["tokens"][i]]
    # fp32 sums decide differently where a uniform number falls on a border: about once in 10^5 draws
    assert len(other) <= 1, [(samplings[i], want["tokens"][i], got["tokens"][i]) for i in other]
    for i in set(range(rows)) - set(other):
        assert want["finish"][i] == got["finish"][i]
        assert got["logprobs"][i] == pytest.approx(want["logprobs"][i], abs=1e-4)


@pytest.mark.parametrize("vocab", [1, 33, 1000, 5001])
def test_bfloat16_logits_are_drawn_from_as_the_same_ones_in_float32(vocab: int) -> None:
    """To the bit: options of one request have all logits of its step in float32, and the others must not notice."""
    rng = random.Random(vocab)
    torch.manual_seed(vocab)
    samplings = [random_sampling(rng, vocab) for _ in range(300)]
    logits, made = (torch.randn(300, vocab) * 3).bfloat16(), [rng.randint(0, 7) for _ in range(300)]
    half = draw(CpuDecodeOps(torch.bfloat16), logits, samplings, made, [])
    assert half == draw(CpuDecodeOps(torch.float32), logits.float(), samplings, made, [])


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "kept"),
    [(1.0, 0, 1.0, 12), (0.5, 0, 1.0, 12), (2.0, 5, 1.0, 5), (1.0, 0, 0.8, None), (1.5, 6, 0.7, None)],
)
def test_draws_have_their_probabilities(temperature: float, top_k: int, top_p: float, kept: int | None) -> None:
    torch.manual_seed(1)
    row, draws = torch.randn(12) * 1.5, 20_000
    p = (row.double() / temperature).softmax(-1)
    order = p.argsort(descending=True)
    if top_k:
        p[order[top_k:]] = 0
        p /= p.sum()
    first = int((p[order].cumsum(-1) < top_p).sum()) + 1 if top_p < 1 else 12
    p[order[first:]] = 0
    p /= p.sum()
    assert kept is None or int((p > 0).sum()) == kept
    sampling = GenerateOptions(max_tokens=1 << 20, temperature=temperature, top_k=top_k, top_p=top_p, seed=123)
    got = draw(CpuDecodeOps(torch.float32), row.repeat(draws, 1), [sampling] * draws, list(range(draws)), [])
    seen = Counter(got["tokens"])
    assert set(seen) == set(torch.nonzero(p).flatten().tolist())
    chi_square = sum((seen[i] - draws * float(p[i])) ** 2 / (draws * float(p[i])) for i in seen)
    freedom = len(seen) - 1
    assert chi_square < freedom + 4 * (2 * freedom) ** 0.5, "four standard deviations above what chance gives"


@pytest.mark.parametrize(("vocab", "temperature", "top_p"), [(300, 2.0, 0.8), (300, 1.0, 0.95), (5000, 3.0, 0.5)])
def test_a_nucleus_is_that_of_transformers(vocab: int, temperature: float, top_p: float) -> None:
    """Wider than the candidates that are sorted: each of its tokens is drawn, no other, as often as is likely."""
    torch.manual_seed(5)
    row, draws = torch.randn(1, vocab), 40_000
    warped = TopPLogitsWarper(top_p)(torch.zeros(1, 1), TemperatureLogitsWarper(temperature)(torch.zeros(1, 1), row))
    p = warped[0].double().softmax(-1)
    kept = torch.nonzero(p).flatten().tolist()
    assert len(kept) > 64
    sampling = GenerateOptions(max_tokens=1 << 20, temperature=temperature, top_k=0, top_p=top_p, seed=7)
    got = draw(CpuDecodeOps(torch.float32), row.repeat(draws, 1), [sampling] * draws, list(range(draws)), [])
    seen = Counter(got["tokens"])
    assert set(seen) <= set(kept)
    chi_square = sum((seen[i] - draws * float(p[i])) ** 2 / (draws * float(p[i])) for i in kept)
    freedom = len(kept) - 1
    assert chi_square < freedom + 4 * (2 * freedom) ** 0.5, "four standard deviations above what chance gives"


@pytest.mark.parametrize(
    ("vocab", "temperature", "top_k", "top_p", "min_p", "typical_p"),
    [
        (12, 3.0, 0, 1.0, 0.0, 0.7),
        (300, 2.0, 0, 1.0, 0.0, 0.3),
        (300, 1.0, 40, 1.0, 0.0, 0.6),
        (300, 2.0, 0, 0.8, 0.0, 0.9),
        (300, 1.5, 50, 0.9, 0.02, 0.7),
        (300, 1.5, 0, 1.0, 0.05, 0.4),
    ],
)
def test_typical_tokens_are_those_of_transformers(
    vocab: int, temperature: float, top_k: int, top_p: float, min_p: float, typical_p: float
) -> None:
    """Behind its other warpers, in transformers' order: each token that is left is drawn as often as is likely."""
    torch.manual_seed(5)
    row, draws = torch.randn(1, vocab) * 1.5, 20_000
    warpers: list[Any] = [TemperatureLogitsWarper(temperature)]
    warpers += [TopKLogitsWarper(top_k)] if top_k else []
    warpers += [TopPLogitsWarper(top_p)] if top_p < 1 else []
    warpers += [MinPLogitsWarper(min_p)] if min_p else []
    warped = row
    for warper in warpers:
        warped = warper(torch.zeros(1, 1), warped)
    before = int((warped > -torch.inf).sum())
    p = TypicalLogitsWarper(typical_p)(torch.zeros(1, 1), warped)[0].double().softmax(-1)
    kept = torch.nonzero(p).flatten().tolist()
    assert 1 < len(kept) < before
    options = GenerateOptions(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, typical_p=typical_p)
    sampling = GenerateOptions(max_tokens=1 << 20, seed=7, **options)
    got = draw(CpuDecodeOps(torch.float32), row.repeat(draws, 1), [sampling] * draws, list(range(draws)), [])
    seen = Counter(got["tokens"])
    assert set(seen) <= set(kept)
    chi_square = sum((seen[i] - draws * float(p[i])) ** 2 / (draws * float(p[i])) for i in kept)
    freedom = len(kept) - 1
    assert chi_square < freedom + 4 * (2 * freedom) ** 0.5, "four standard deviations above what chance gives"


@pytest.mark.parametrize("vocab", [1, 7, 70, 500])
def test_logits_that_are_no_numbers(vocab: int) -> None:
    """All devices choose the same where logits are NaN or infinite, in whatever number."""
    rng = random.Random(vocab)
    torch.manual_seed(vocab)
    rows = 200
    samplings = [random_sampling(rng, vocab) for _ in range(rows)]
    logits = torch.randn(rows, vocab)
    for value, share in ((torch.nan, 0.3), (-torch.inf, 0.3), (torch.inf, 0.01)):
        logits[torch.rand(rows, vocab) < share] = value
    logits[0], logits[1], logits[2], logits[3] = torch.nan, -torch.inf, torch.inf, 0.0
    logits[3, ::2] = -0.0
    made = [rng.randint(0, 7) for _ in range(rows)]
    want, got = (draw(o(torch.float32), logits, samplings, made, []) for o in (CpuDecodeOps, TorchDecodeOps))
    assert got["tokens"] == want["tokens"] and got["finish"] == want["finish"]
    assert got["logprobs"] == pytest.approx(want["logprobs"], abs=1e-4, nan_ok=True)
