"""Sampling on the device against the CPU's, token by token: every option, many seeds, several vocabularies."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
import transformers as tr
from kernel_rows import DEVICE, by_torch_too, near
from kernel_slots import Rows, empty_state, ints, on_tests_device
from nightly import nightly

from fastqps._core import HEADER_TARGETS, PARAM_WORDS, TARGET_WORDS, TOP_LOGPROBS_MAX, sequence_params
from fastqps.kernels.sampling.sample import sample
from fastqps.kernels.torch_ops.sample import sampled as torch_sampled
from fastqps.kernels.torch_ops.sample import uniform
from fastqps.ops.cpu.decode_ops import CpuDecodeOps
from fastqps.ops.decode_step import DecodeState, DecodeStep, Targets

EDGE = 2e-6  # of the whole: that near to an edge between two tokens, rounding may decide
pytestmark = [
    pytest.mark.compute,
    pytest.mark.filterwarnings("ignore:(invalid value|divide by zero) encountered"),  # numpy's, interpreting
]
computed_by = by_torch_too(__name__, "sample")
CPU = CpuDecodeOps(torch.float32)


def record(
    temperature: float = 0.0, top_p: float = 1.0, top_k: int = 0, min_p: float = 0.0, *, seed: int = 0, **options: Any
) -> list[int]:
    """A sequence's parameters, in slot 0."""
    asked = {"max_tokens": 100, "logprobs": True, "min_p": min_p, **options}
    return sequence_params(0, temperature=temperature, top_p=top_p, top_k=top_k, seed=seed % 2**64, **asked)


def sampled(
    logits: torch.Tensor, records: list[list[int]], made: list[int], n_eos: int = 0
) -> tuple[DecodeStep, DecodeStep, DecodeState, DecodeState]:
    """What the CPU and the device draw for one run of each record; the device's step is padded."""
    n = len(records)
    slots = [(5 * i + 3) % n for i in range(n)] if math.gcd(5, n) == 1 else list(range(n))
    rows = Rows([(slot, 0, 1 + i % 3) for i, slot in enumerate(slots)], T=3 * n + 2, S=n + 3)
    state = empty_state(n, n_eos)
    for slot, words in zip(slots, records, strict=True):
        state.params[slot] = torch.tensor([slot, *words[1:]], dtype=torch.int32)
    wanted = rows.exact(made=ints(made, n))
    on_device = on_tests_device(state)
    padded = torch.full((n + 3, logits.shape[1]), torch.nan, dtype=logits.dtype)
    padded[:n] = logits
    found = DecodeStep(
        *(rows.on_device(name) for name in ("positions", "positions", "kv_slots", "starts")),
        ints(made, n + 3, DEVICE),
        ints([], n + 3, DEVICE),
        torch.full((n + 3,), 7.0, device=DEVICE),
        ints([], n + 3, DEVICE),
        ints([], 0, DEVICE),
        top=torch.zeros(n + 3, 40, dtype=torch.int32, device=DEVICE),
    )
    CPU.sample(logits.float(), wanted, state)
    s = on_device
    sample(
        padded.to(DEVICE), found.starts, found.kv_slots, found.made, s.params, s.eos_ids, rows.counts(),
        tokens=found.tokens, logprobs=found.logprobs, finish=found.finish, last_token=s.last_token,
        top=found.top, stamps=torch.zeros(2, dtype=torch.int64, device=DEVICE),
    )  # fmt: skip
    junk = ints([], 3)
    assert torch.equal(found.tokens[n:].cpu(), junk) and torch.equal(found.finish[n:].cpu(), junk)
    assert (found.logprobs[n:] == 7).all()
    return wanted, found, state, on_device


def assert_same(
    logits: torch.Tensor, records: list[list[int]], made: list[int], n_eos: int = 0
) -> tuple[torch.Tensor, int]:
    """Fails unless both agree; → tokens, and how many differ because their random number lies at an edge."""
    wanted, found, state, on_device = sampled(logits, records, made, n_eos)
    same = found.tokens[: len(records)].cpu() == wanted.tokens
    for i in (~same).nonzero().flatten().tolist():
        assert edge(logits[i], records[i], made[i]) < EDGE, (i, records[i], wanted.tokens[i], found.tokens[i])
    assert torch.equal(found.finish[: len(records)].cpu()[same], wanted.finish[same])
    near(found.logprobs[: len(records)].cpu()[same], wanted.logprobs[same], 1e-5)
    assert_same_top(found, wanted, records)
    if same.all():
        assert torch.equal(on_device.last_token.cpu(), state.last_token)
    return wanted.tokens, int((~same).sum())


def assert_same_top(found: DecodeStep, wanted: DecodeStep, records: list[list[int]]) -> None:
    """Of runs that ask."""
    assert found.top is not None and wanted.top is not None
    for i, words in enumerate(records):
        n = words[PARAM_WORDS["top_logprobs"]]
        assert torch.equal(found.top[i, :n].cpu(), wanted.top[i, :n]), i
        logprobs = [top[i, 20 : 20 + n].cpu().view(torch.float32) for top in (found.top, wanted.top)]
        torch.testing.assert_close(*logprobs, rtol=0, atol=1e-5)


def edge(logits: torch.Tensor, words: list[int], made: int) -> float:
    """How far the random number is from the next edge between two tokens, or top_p from the next edge of the kept.

    Of a draw from the whole vocabulary, or from the top_p of it.
    """
    floats = torch.tensor(words, dtype=torch.int32).view(torch.float32)
    temperature, top_p, min_p = (float(floats[PARAM_WORDS[name]]) for name in ("temperature", "top_p", "min_p"))
    assert words[PARAM_WORDS["top_k"]] == 0, "a draw from the top_k likeliest may not differ"
    u = float(uniform(*(torch.tensor([word]) for word in (*words[PARAM_WORDS["seed"] :][:2], made))))
    edges = (logits.double() / temperature).softmax(-1)
    if top_p >= 1 and min_p == 0:
        return float((edges.cumsum(-1) - u).abs().min())
    edges = edges.sort(descending=True).values
    likely = int((edges >= min_p * edges[0]).sum())
    edges = edges.cumsum(-1)
    kept = edges[min(int((edges < top_p).sum()), likely - 1)]
    return float(min((edges / kept - u).abs().min(), (edges - top_p).abs().min()))


@pytest.mark.parametrize(
    ("vocab", "dtype"), [(5, torch.float32), (9001, torch.bfloat16), *nightly((300, torch.float16))]
)
def test_every_option_over_many_seeds(vocab: int, dtype: torch.dtype, computed_by: str) -> None:
    torch.manual_seed(vocab)
    options = list(product((0.0, 0.3, 1.5), (1.0, 0.9, 0.0), (0, 1, 5, 200), (0.0, 0.05)))
    # The interpreter takes 0.2 s a sequence: all combinations for one vocabulary.
    if DEVICE == "cpu" and computed_by == "kernel" and vocab != 300:
        options = options[::7]  # holds every value of every option
    records = [
        record(*o, seed=torch.randint(-(2**63), 2**63 - 1, ()).item(), top_logprobs=(0, 1, 20)[i % 3])
        for i, o in enumerate(options)
    ]
    made = torch.randint(0, 2**31 - 2, (len(records),)).tolist()
    _, edges = assert_same((4 * torch.randn(len(records), vocab)).to(dtype), records, made)
    assert edges <= 1


def test_flat_and_steep_draws_from_all() -> None:
    torch.manual_seed(1)
    steep = torch.logspace(-2, 2, 64)[:, None]
    _, edges = assert_same(steep * torch.randn(64, 1500), [record(1.0, seed=i) for i in range(64)], [3] * 64)
    assert edges <= 1


def odd_logits() -> torch.Tensor:
    """[8, 700]: flat and steep ones, equal ones, and some that are no numbers."""
    torch.manual_seed(2)
    logits = torch.logspace(-1, 1, 8)[:, None] * torch.randn(8, 700)
    logits[3] = 0.0
    logits[4] = torch.arange(700) % 3
    logits[5, ::2] = torch.nan
    logits[6] = -torch.inf
    logits[6, 3::7] = 1.0
    return logits


@pytest.mark.parametrize(
    ("top_p", "min_p"), [(0.9, 0.0), (1.0, 0.02), *nightly((0.3, 0.0), (0.99999, 0.0), (0.9, 0.02))]
)
def test_a_nucleus_wider_than_the_candidates(top_p: float, min_p: float) -> None:
    logits = odd_logits()
    records = [record(1.0, top_p, 0, min_p, seed=i) for i in range(8)]
    wanted, edges = assert_same(logits, records, [5] * 8)
    assert edges <= 1
    assert wanted[3] >= 64, "some token is none of the first 64"


@pytest.mark.parametrize(
    ("top_p", "top_k", "min_p"),
    [(1.0, 0, 0.0), (0.9, 0, 0.0), *nightly((1.0, 20, 0.0), (0.8, 0, 0.02), (0.9, 40, 0.1))],
)
def test_typical_tokens(top_p: float, top_k: int, min_p: float) -> None:
    logits = odd_logits()
    records = [record(1.0, top_p, top_k, min_p, seed=i, typical_p=(0.2, 0.6, 0.95)[i % 3]) for i in range(8)]
    wanted, found, _, _ = sampled(logits, records, [5] * 8)
    # Where a random number, or the share that has to be reached, lies at an edge, rounding decides.
    assert int((found.tokens[:8].cpu() != wanted.tokens).sum()) <= 1


def test_ties_go_to_the_first() -> None:
    logits = torch.zeros(6, 700)
    logits[0, [5, 200, 650]] = 1.0
    logits[1] = -0.0
    logits[1, 3::2] = 0.0
    logits[2, 100:] = -torch.inf
    logits[3] = torch.linspace(3, 1, 10).repeat_interleave(70)  # many equals in many chunks
    logits[4] = torch.arange(700) % 7
    records = [record(top_logprobs=20), record(), *[record(1.0, 0.8, 64, seed=i, top_logprobs=20) for i in range(4)]]
    tokens, _ = assert_same(logits, records, [0] * 6)
    assert tokens[:2].tolist() == [5, 0]


@pytest.mark.parametrize(
    "option",
    [
        *(record(), record(1.0), record(1.0, 0.9), record(0.7, 1.0, 3), record(1.0, 1.0, 0, 0.1)),
        *(record(1.0, typical_p=0.5), record(1.0, 0.9, 5, typical_p=0.5)),
    ],
)
def test_what_is_not_a_number_is_never_chosen(option: list[int]) -> None:
    nan, inf = torch.nan, torch.inf
    logits = torch.randn(7, 400)
    logits[0, ::2] = nan
    logits[1] = nan
    logits[2] = -inf
    logits[3, :399] = nan
    logits[4, 77] = inf
    logits[5] = -inf
    logits[5, 300:] = nan
    logits[6, :] = -inf
    logits[6, 250] = nan
    logits[6, 251] = -3.0
    option[PARAM_WORDS["top_logprobs"]] = 5
    wanted, found, _, _ = sampled(logits, [option] * 7, [9] * 7)
    finite = wanted.logprobs.isfinite().tolist()
    assert_same_top(found, wanted, [option if is_finite else record() for is_finite in finite])
    assert found.tokens[:7].tolist() == wanted.tokens.tolist()
    torch.testing.assert_close(found.logprobs[:7].cpu(), wanted.logprobs, equal_nan=True)


@pytest.mark.parametrize(
    ("temperature", "top_p", "top_k", "min_p", "typical_p"),
    [
        *((0.8, 1.0, 0, 0.0, 1.0), (1.3, 0.8, 0, 0.0, 1.0), (1.0, 1.0, 9, 0.0, 1.0)),
        *((1.5, 1.0, 0, 0.05, 1.0), (1.5, 0.8, 30, 0.03, 1.0)),
        *((2.0, 1.0, 0, 0.0, 0.4), (1.5, 0.9, 50, 0.01, 0.7), (1.0, 1.0, 40, 0.0, 0.6), (2.0, 0.8, 0, 0.0, 0.9)),
        *((2.0, 0.95, 0, 0.0, 1.0), (1.5, 1.0, 0, 0.05, 0.4)),
    ],
)
def test_draws_are_distributed_as_the_warpers_of_transformers_say(
    temperature: float, top_p: float, top_k: int, min_p: float, typical_p: float, computed_by: str
) -> None:
    """Of a vocabulary beyond the candidates: none that is removed, and the others as often as they are likely."""
    n, vocab = 20_000, 100
    logits = 2 * torch.randn(1, vocab, generator=torch.Generator().manual_seed(3))
    warpers = tr.LogitsProcessorList([tr.TemperatureLogitsWarper(temperature)])
    warpers += [tr.TopKLogitsWarper(top_k)] if top_k else []
    warpers += [tr.TopPLogitsWarper(top_p), tr.MinPLogitsWarper(min_p)]
    warpers += [tr.TypicalLogitsWarper(typical_p)] if typical_p < 1 else []
    likely = warpers(torch.zeros(1, 1, dtype=torch.long), logits.clone()).softmax(-1)[0].double()
    assert (likely == 0).any() == (top_p < 1 or top_k > 0 or min_p > 0 or typical_p < 1)
    words = record(temperature, top_p, top_k, min_p, typical_p=typical_p)
    params = torch.tensor([words], dtype=torch.int32).repeat(n, 1)
    params[:, PARAM_WORDS["seed"]] = torch.arange(n)
    rows, made = logits.expand(n, -1).contiguous(), ints([0] * n, n)
    if computed_by == "torch":
        tokens = torch_sampled(rows, params, made, ints([], 0))[0]
    else:
        state = replace(empty_state(n), params=params)
        step = Rows([(slot, 0, 1) for slot in range(n)], T=n, S=n).exact(made=made)
        CPU.sample(rows, step, state)
        tokens = step.tokens
    drawn = tokens.bincount(minlength=vocab).double()
    there = likely > 0
    assert not drawn[~there].any()
    wanted = n * likely[there]
    chi_squared = float(((drawn[there] - wanted) ** 2 / wanted).sum())
    free = int(there.sum()) - 1
    assert chi_squared < free + 6 * math.sqrt(2 * free) + 10, "6 standard deviations"


def test_stops_and_lengths() -> None:
    logits = torch.zeros(8, 130)
    best = [0, 1, 2, 3, 64, 129, 65, 5]
    logits[range(8), best] = 1.0
    records = [
        record(),  # eos
        record(ignore_eos=True, logprobs=False),
        record(ignore_eos=True, logprobs=False, stop_token_ids=(9, 2)),
        record(stop_token_ids=(9, 2)),
        record(max_tokens=5),
        record(max_tokens=6),
        record(max_tokens=2**31 - 1, stop_token_ids=(1, 2, 3, 4, 5, 6, 7, 65)),
        record(max_tokens=1),
    ]
    wanted, found, _, on_device = sampled(logits, records, [4, 4, 4, 4, 4, 4, 2**31 - 1, 0], n_eos=3)
    assert found.tokens[:8].tolist() == best == wanted.tokens.tolist()
    assert found.finish[:8].tolist() == [1, 0, 1, 0, 2, 0, 1, 2] == wanted.finish.tolist()
    assert found.logprobs[1:3].tolist() == [0, 0]
    assert sorted(on_device.last_token.tolist()) == sorted(best)


def answered(logits: torch.Tensor, records: list[list[int]], targets: torch.Tensor, on_cpu: bool) -> dict[str, Any]:
    """The outputs of a step of one run for each record, by the CPU or the device. The step is padded there."""
    n, size = len(records), len(targets)
    header = ints([n, n, *[0] * 14], 16)
    header[HEADER_TARGETS] = 1
    state = empty_state(n + 1, 1)
    state.params[:n] = torch.tensor([[i, *words[1:]] for i, words in enumerate(records)], dtype=torch.int32)
    state.last_token[:] = -5
    top = torch.zeros(size, 2 * TOP_LOGPROBS_MAX, dtype=torch.int32)
    outputs = {"tokens": ints([], size), "logprobs": torch.zeros(size), "finish": ints([], size), "top": top}
    slots, starts, made = ints(list(range(n)), size), ints(list(range(n + 1)), size + 1), ints([3] * n, size)
    if on_cpu:
        outputs = {name: output[:n] for name, output in outputs.items()}
        asked = Targets(targets[:n], header[HEADER_TARGETS:][:1])
        where = (slots[:n], slots[:n], slots[:n], starts[: n + 1], made[:n])
        CPU.sample(logits[:n], DecodeStep(*where, **outputs, admitted=ints([], 0), targets=asked), state)
    else:
        state = on_tests_device(state)
        outputs = {name: output.to(DEVICE) for name, output in outputs.items()}
        moved = [x.to(DEVICE) for x in (logits, starts, slots, made, state.params, state.eos_ids, header)]
        sample(*moved, **outputs, targets=targets.to(DEVICE), last_token=state.last_token)
    return {name: output.cpu() for name, output in (outputs | {"last": state.last_token}).items()}


def test_the_targets_of_a_script_get_their_log_probabilities() -> None:
    torch.manual_seed(7)
    counts, vocab = [0, 1, 3, 20, 1, 0], 700
    records = [record(1.0, seed=5, top_logprobs=4 if i == 4 else 0) for i in range(len(counts))]
    targets = torch.full((len(counts) + 3, TARGET_WORDS), -1, dtype=torch.int32)
    for row, count in zip(targets, counts, strict=False):
        row[0], row[1 : 1 + count] = count, torch.randperm(vocab)[:count]
    logits = 4 * torch.randn(len(targets), vocab)
    logits[2, targets[2, 2]] = -torch.inf
    targets[4, 1] = logits[4].argmax()
    wanted = logits.log_softmax(1)
    plain = sampled(logits[: len(counts)], records, [3] * len(counts))[1].tokens.tolist()
    for on_cpu in (True, False):
        got = answered(logits, records, targets, on_cpu)
        for i, count in enumerate(counts):
            ids = targets[i, 1 : 1 + count].tolist()
            token = ids[0] if ids else plain[i]
            assert (got["tokens"][i], got["finish"][i], got["last"][i]) == (token, 0, -5 if ids else token)
            near(got["logprobs"][i], wanted[i, token], 1e-5)
            if count > 1:
                assert got["top"][i, :count].tolist() == ids
                near(got["top"][i, TOP_LOGPROBS_MAX:][:count].view(torch.float32), wanted[i, ids], 1e-5)
        assert got["top"][4, :4].tolist() == wanted[4].topk(4).indices.tolist()
        own = got["top"][4, TOP_LOGPROBS_MAX:][:1].view(torch.float32)
        assert own == got["logprobs"][4], "clients compare the two"
