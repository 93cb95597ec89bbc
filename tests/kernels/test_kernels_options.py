"""Options that change logits on the device against the CPU's: random sequences, rules and logits of several types."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from kernel_rows import DEVICE, by_torch_too
from kernel_slots import Rows, empty_state, ints, on_tests_device

from fastqps._core import ADMITTED_WORDS, LOGIT_BIAS_MAX, sequence_params
from fastqps.kernels.layers import LogitChanges
from fastqps.kernels.sampling.logit_options import logit_options
from fastqps.models.files.generation_keys import LogitOptions
from fastqps.ops.cpu.decode_ops import CpuDecodeOps
from fastqps.ops.decode_step import DecodeState, DecodeStep, LogitRules, TokenMasks
from fastqps.runners.decode_buffers import mask_words

pytestmark = [
    pytest.mark.compute,
    pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered"),  # numpy's, interpreting
]
computed_by = by_torch_too(__name__, "logit_options")
ROUNDS = int(os.environ.get("FASTQPS_OPTION_SCENARIOS", "6"))
CPU = CpuDecodeOps(torch.float32)
POSITIONS = 600  # more than a program reads at once


def random_rules(rng: random.Random, vocab: int) -> LogitOptions | None:
    """A checkpoint's; often none."""

    def some(most: int) -> tuple[int, ...]:
        return tuple(rng.sample(range(vocab), rng.randint(0, min(vocab, most))))

    if rng.random() < 0.4:
        return None
    words = {tuple(rng.choice(range(3)) for _ in range(rng.randint(1, 4))) for _ in range(rng.choice([0, 5]))}
    words |= {(rng.randrange(3), token) for token in some(700)}
    return LogitOptions(
        suppress_tokens=some(9),
        begin_suppress_tokens=some(vocab),
        bad_words_ids=tuple(words),
        forced_eos_token_id=some(3),
    )


def random_run(rng: random.Random, slot: int, vocab: int, state: DecodeState) -> tuple[int, int]:
    """Gives the sequence in ``slot`` its tokens and options; → its length, and the tokens that it has made."""
    length, different = rng.choice([1, 2, 5, 40, POSITIONS]), rng.choice([1, 3, vocab])
    tokens = [rng.randrange(min(different, vocab)) for _ in range(length)]
    state.history[slot, :length] = ints(tokens, length)
    made = min(length, rng.choice([0, 1, 5, 300]))
    options = {
        "repetition_penalty": rng.choice([1.0, 1.3, 0.6]),
        "no_repeat_ngram_size": rng.choice([0, 0, 1, 2, 3, 64]),
        "min_tokens": rng.choice([0, 2, 6]),
        "suppress_token_ids": rng.sample(range(vocab), rng.randint(0, min(vocab, 8))),
        "presence_penalty": rng.choice([0.0, 0.0, 1.1, -2.0]),
        "frequency_penalty": rng.choice([0.0, 0.0, 0.3, -0.7]),
    }
    biased = rng.random() < 0.5
    if biased:
        ids = rng.sample(range(vocab), min(vocab, rng.choice([1, 5, LOGIT_BIAS_MAX])))
        values = ints([word for id in ids for word in (id, 0)], 2 * len(ids))
        values[1::2] = torch.tensor([rng.choice([-100.0, -1.5, 0.0, 0.7, 100.0]) for _ in ids]).view(torch.int32)
        state.biases[slot, 0], state.biases[slot, 1 : 1 + len(values)] = len(ids), values
    own = options if rng.random() < 0.7 else {}
    masked = rng.random() < 0.4 and len(state.eos_ids) > 0
    params = sequence_params(slot, max_tokens=rng.choice([1, 2, 6, 99]), biased=biased, masked=masked, **own)
    state.params[slot] = ints(params, ADMITTED_WORDS)
    return length, made


def random_masks(rng: random.Random, runs: int, vocab: int) -> torch.Tensor:
    """int32 [runs, words]: of each run many tokens, few, or none."""
    rows = []
    for _ in range(runs):
        share = rng.choice([0.9, 0.02, 0.0])
        bits = [rng.random() < share for _ in range(32 * mask_words(vocab))]
        rows.append(np.packbits(bits, bitorder="little").view(np.int32))
    return torch.from_numpy(np.stack(rows))


def cpu_logits(logits: torch.Tensor, step: DecodeStep, state: DecodeState, masks: torch.Tensor) -> torch.Tensor:
    """The reference, with masks that are there."""
    ready = torch.full((1,), 2, dtype=torch.int32)
    return CPU.change_logits(logits.clone(), replace(step, masks=TokenMasks(masks, ready)), state)


def changes_of(step: Rows, made: torch.Tensor, s: DecodeState, masks: torch.Tensor | None = None) -> LogitChanges:
    where = (step.on_device(name) for name in ("starts", "kv_slots", "positions"))
    tables = s.params, s.biases, s.history, s.eos_ids, s.rules.table, s.rules.ids, step.counts()
    return LogitChanges(*where, made, *tables, s.rules.n_forced, s.rules.longest, masks=masks)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_sequences(seed: int, computed_by: str) -> None:
    """In float32 the same bits; in 16 bits those of float32, rounded."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    vocab, runs = rng.choice([4, 90, 1100]), 6
    state = empty_state(runs + 1, n_eos=rng.randint(0, min(3, vocab)), positions=POSITIONS)
    state.history[:] = torch.randint(vocab, state.history.shape)
    state = replace(state, rules=LogitRules.of(random_rules(rng, vocab), tuple(state.eos_ids.tolist())))
    slots = rng.sample(range(runs), runs)
    found = [random_run(rng, slot, vocab, state) for slot in slots]
    step = Rows([(slot, max(0, n - 2), min(n, 2)) for slot, (n, _) in zip(slots, found, strict=True)], T=14, S=runs + 2)
    made, masks = [made for _, made in found], random_masks(rng, runs, vocab)
    rounds = DEVICE == "cuda" or computed_by == "torch"  # Triton's interpreter cuts bfloat16 off
    for dtype in (torch.float32, torch.float16, *([torch.bfloat16] if rounds else [])):
        padded = torch.full((runs + 2, vocab), torch.nan, dtype=dtype)
        padded[:runs] = 4 * torch.randn(runs, vocab)
        wanted = cpu_logits(padded[:runs].float(), step.exact(made=ints(made, runs)), state, masks)
        logits, s = padded.to(DEVICE), on_tests_device(state)
        logit_options(logits, changes_of(step, ints(made, runs + 2, DEVICE), s, masks.to(DEVICE)))
        assert torch.equal(logits[:runs].cpu(), wanted.to(dtype)), dtype
        assert logits[runs:].isnan().all(), "padding"


def test_a_row_of_biases_that_is_being_written_does_no_harm(computed_by: str) -> None:
    """A late row can find any words there: too many, ids beyond the vocabulary, and one id twice."""
    state, vocab = empty_state(2, n_eos=1), 20
    state.biases[0] = torch.tensor([1 << 30] + [-1, 0, vocab, 0, 1 << 30, 0] * 100, dtype=torch.int32)
    state.params[0] = ints(sequence_params(0, max_tokens=9, biased=True), ADMITTED_WORDS)
    step, before = Rows([(0, 0, 3)], T=6, S=3), torch.randn(3, vocab)
    s, logits = on_tests_device(state), before.to(DEVICE, copy=True)
    logit_options(logits, changes_of(step, ints([0], 3, DEVICE), s))
    assert torch.equal(logits.cpu(), before)
    assert torch.equal(CPU.change_logits(before[:1].clone(), step.exact(made=ints([0], 1)), state), before[:1])


def test_masks_of_a_large_vocabulary() -> None:
    """More words than are read at once. The second run may choose nothing and ends, the third has no mask."""
    rng, vocab, n_made = random.Random(1), 70_001, [0, 1, 1]
    state = empty_state(4, n_eos=2)
    state.eos_ids[:] = torch.tensor([vocab - 1, 3])
    for slot in range(3):
        state.params[slot] = ints(sequence_params(slot, max_tokens=9, masked=slot < 2), ADMITTED_WORDS)
    step = Rows([(0, 0, 3), (1, 2, 1), (2, 4, 1)], T=6, S=4)
    masks = torch.cat([random_masks(random.Random(4), 1, vocab), torch.zeros(3, mask_words(vocab), dtype=torch.int32)])
    masks[0, :2000] = rng.getrandbits(31)
    before = torch.randn(4, vocab)
    before[0, ::7] = torch.nan
    s, logits = on_tests_device(state), before.to(DEVICE, copy=True)
    logit_options(logits, changes_of(step, ints(n_made, 4, DEVICE), s, masks.to(DEVICE)))
    wanted = cpu_logits(before[:3], step.exact(made=ints(n_made, 3)), state, masks)
    torch.testing.assert_close(logits[:3].cpu(), wanted, rtol=0, atol=0, equal_nan=True)
    assert wanted[1].argmax() == vocab - 1 and 0 < wanted[0].isneginf().sum() < vocab
    assert torch.equal(logits[2:].cpu(), before[2:])


def test_without_options_nothing_is_written() -> None:
    """Infinities and what is not a number included."""
    state, vocab = empty_state(3, n_eos=2), 20
    step = Rows([(0, 0, 3), (2, 4, 1)], T=6, S=3)
    for slot in (0, 2):
        state.params[slot] = ints(sequence_params(slot, max_tokens=9), ADMITTED_WORDS)
    before = torch.full((3, vocab), -torch.inf)
    before[1, 3:] = torch.nan
    s, logits = on_tests_device(state), before.to(DEVICE, copy=True)
    logit_options(logits, changes_of(step, ints([0, 0], 3, DEVICE), s))
    assert torch.equal(logits.cpu().view(torch.int32), before.view(torch.int32))
