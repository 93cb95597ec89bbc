"""The CPU kernels on several threads: bit by bit what one thread computes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fastqps import _core
from fastqps.ops.step import address

pytestmark = pytest.mark.compute

# Enough work for 3 threads, in numbers that 3 threads cannot share equally.
LENGTHS = [200, 1, 1, 1, 90, 33, 7, 64, 2, 300, 5]
STARTS = torch.tensor([0, *LENGTHS]).cumsum(0).to(torch.int32)
TOKENS, ITEMS, WIDTH = sum(LENGTHS), len(LENGTHS), 96
DTYPES = [torch.float32, torch.bfloat16]


def at(threads: int) -> _core.Program:
    return _core.Program.at_once(threads)


def check(compute: Callable[[torch.Tensor, int], None], out: torch.Tensor) -> None:
    """``compute(out, threads)`` writes all of ``out``, the same however many threads there are."""
    assert _core.has_openmp(), "nothing can be spread"
    results = [torch.full_like(out, torch.nan) for _ in range(3)]
    for threads, result in enumerate(results, 1):
        compute(result, threads)
    assert not results[0].isnan().any()
    for result in results[1:]:
        assert torch.equal(result, results[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows(dtype: torch.dtype) -> None:
    bfloat16, x, weight = dtype == torch.bfloat16, torch.randn(TOKENS, WIDTH).to(dtype), torch.randn(WIDTH)
    ids, table = torch.randint(50, (TOKENS,), dtype=torch.int32), torch.randn(50, WIDTH).to(dtype)
    rows = address(x), bfloat16, TOKENS, address(weight)
    check(lambda out, threads: at(threads).rms_norm(address(out), *rows, WIDTH, 1e-5), x)
    check(lambda out, threads: at(threads).normalize(address(out), *rows, 0, WIDTH, 1e-5), x)
    check(
        lambda out, threads: at(threads).gate(address(out), address(x), bfloat16, TOKENS, WIDTH // 2, "gelu"),
        torch.empty(TOKENS, WIDTH // 2, dtype=dtype),
    )
    indexes, tables = (address(ids),) * 3, (address(table), 50) * 3
    embedded = bfloat16, TOKENS, *indexes, *tables, address(weight), 0, WIDTH
    check(lambda out, threads: at(threads).embed(address(out), *embedded, 1e-5), x)
    check(
        lambda out, threads: at(threads).pool(
            address(out), False, address(x), bfloat16, WIDTH, address(STARTS), ITEMS, "mean"
        ),
        torch.empty(ITEMS, WIDTH),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention(dtype: torch.dtype) -> None:
    qkv = torch.randn(TOKENS, 3 * WIDTH).to(dtype)
    given = address(qkv), dtype == torch.bfloat16, 3, WIDTH // 3, address(STARTS), ITEMS
    check(lambda out, threads: at(threads).attend(address(out), *given), qkv[:, :WIDTH].contiguous())


@pytest.mark.parametrize("last_rows_only", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_over_slots(dtype: torch.dtype, last_rows_only: bool) -> None:
    qkv = torch.randn(TOKENS, 3 * WIDTH).to(dtype)
    counts = torch.tensor(LENGTHS)
    slots = torch.arange(ITEMS).repeat_interleave(counts).to(torch.int32)
    positions = torch.cat([torch.arange(n) for n in LENGTHS]).to(torch.int32)
    cache = torch.zeros(2, ITEMS + 1, 3, max(LENGTHS), WIDTH // 3, dtype=dtype)
    heads, runs = (3, 3, WIDTH // 3), (address(STARTS), ITEMS, address(positions), address(slots))

    def compute(out: torch.Tensor, threads: int) -> None:
        cache.zero_()
        given = address(qkv), address(cache), dtype == torch.bfloat16, *heads, *runs, ITEMS + 1, max(LENGTHS), 0.2
        at(threads).attend_slots(address(out), *given, last_rows_only=last_rows_only)

    check(compute, torch.empty(ITEMS if last_rows_only else TOKENS, WIDTH, dtype=dtype))


@pytest.mark.parametrize("table", ["rotary", "bias"])
def test_an_item_longer_than_its_tables_is_an_error(table: str) -> None:
    """Whoever packed the step is wrong; nothing is read behind a table."""
    qkv, out, starts = torch.randn(33, 96), torch.zeros(33, 32), torch.tensor([0, 33], dtype=torch.int32)
    positions, numbers = torch.arange(33, dtype=torch.int32), torch.zeros(2 * 32 + 1 if table == "bias" else 32 * 32)
    tables = (
        {"bias": address(numbers), "reach": 32} if table == "bias" else {"rotary": address(numbers), "n_rotary": 32}
    )
    with pytest.raises(IndexError, match="an item of 33 tokens; its tables are for 32"):
        at(1).attend(address(out), address(qkv), False, 1, 32, address(starts), 1, address(positions), **tables)


def records(temperature: float) -> torch.Tensor:
    """Sampling parameters of the sequences in slots 0 to ``ITEMS`` - 1, with logprobs and a repetition penalty."""
    options = {"max_tokens": 50, "temperature": temperature, "repetition_penalty": 1.5, "logprobs": True}
    return torch.tensor([_core.sequence_params(slot, **options) for slot in range(ITEMS)], dtype=torch.int32)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_choice_of_tokens(temperature: float) -> None:
    vocab, params = 6007, records(temperature)
    given, history = torch.randn(ITEMS, vocab), torch.randint(vocab, (ITEMS, 16), dtype=torch.int32)
    starts, slots = (torch.arange(n, dtype=torch.int32) for n in (ITEMS + 1, ITEMS))
    made, eos = torch.full((ITEMS,), 3, dtype=torch.int32), torch.tensor([7], dtype=torch.int32)
    positions, last = made + 9, torch.zeros(ITEMS, dtype=torch.int32)

    def compute(out: torch.Tensor, threads: int) -> None:
        logits, tokens, finish = given.clone(), *torch.zeros(2, ITEMS, dtype=torch.int32)
        at(threads).change_logits(
            out=address(logits),
            logits=address(logits),
            bfloat16=False,
            n_runs=ITEMS,
            vocab=vocab,
            starts=address(starts),
            kv_slots=address(slots),
            positions=address(positions),
            made=address(made),
            params=address(params),
            biases=0,
            history=address(history),
            history_len=history.shape[1],
            eos_ids=address(eos),
            n_eos=1,
            rules=0,
            rule_ids=0,
            n_rules=0,
            n_forced=0,
        )
        assert (logits != given).sum() >= ITEMS * 5
        chosen = address(tokens), address(out), address(finish), address(last)
        runs = address(starts), address(slots), address(made), address(params), address(eos), 1
        at(threads).sample(*chosen, address(logits), False, ITEMS, vocab, *runs)
        found.append(tokens.tolist())

    found: list[list[int]] = []
    check(compute, torch.empty(ITEMS))
    assert found[0] == found[1] == found[2] and len(set(found[0])) > 1
