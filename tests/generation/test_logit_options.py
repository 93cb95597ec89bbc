"""Options of generation_config.json that change logits: the tokens of transformers, alone and in company."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as tr
from decoders import VOCAB, write_decoder
from nightly import nightly, nightly_but
from padded import PaddedDecoder, TorchDecodeOps

from fastqps._core import sequence_params
from fastqps.api.request import GenerateOptions
from fastqps.engine.generator import Generator
from fastqps.models import ModelCard, ModelError, load_card
from fastqps.models.files.generation_keys import LogitOptions
from fastqps.ops.cpu.decode_ops import CpuDecodeOps
from fastqps.ops.decode_step import DecodeState, DecodeStep
from fastqps.runners.decoder import DecoderRunner

pytestmark = [pytest.mark.compute, pytest.mark.usefixtures("one_thread")]

FLOAT32 = torch.float32
MAX_INPUT, MAX_OUTPUT = 24, 30
EOS = [13, 60]
# What small models ship with, and the rest, alone and together.
OPTIONS: dict[str, dict[str, Any]] = {
    "penalty": {"repetition_penalty": 1.3},
    "reward": {"repetition_penalty": 0.8},
    "ngram-1": {"no_repeat_ngram_size": 1},
    "ngram-2": {"no_repeat_ngram_size": 2},
    "ngram-3": {"no_repeat_ngram_size": 3},
    "min-new": {"min_new_tokens": 20},
    "min-length": {"min_length": 28},
    "suppress": {"suppress_tokens": [*range(10, 60)]},
    "begin": {"begin_suppress_tokens": [*range(90)]},
    "words": {"bad_words_ids": [[i] for i in range(0, VOCAB, 2)]},
    "long-words": {"bad_words_ids": [[i, j] for i in range(VOCAB) for j in range(i % 3, VOCAB, 3)]},
    "forced-end": {"forced_eos_token_id": 7},
    "forced-ends": {"forced_eos_token_id": [60, 9]},
    "forced-suppressed": {"forced_eos_token_id": [60, 9], "suppress_tokens": [9]},
    "qwen": {"repetition_penalty": 1.1, "do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20},
    "all": {
        "repetition_penalty": 1.2,
        "no_repeat_ngram_size": 2,
        "min_length": 20,
        "suppress_tokens": [3, 30, 31],
        "begin_suppress_tokens": [*range(40, 80)],
        "bad_words_ids": [[1], [13], [60], [2, 3], [9, 8, 7], *([i, j] for i in range(80) for j in range(0, 90, 4))],
        "forced_eos_token_id": 60,
    },
}


def write_options(path: Path, **options: Any) -> None:
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": EOS, **options}))


def card_of(path: Path, **changes: Any) -> ModelCard:
    return replace(load_card(str(path), MAX_INPUT, max_output_tokens=MAX_OUTPUT), **changes)


def answers(model: Any, prompts: list[list[int]], max_tokens: int) -> list[list[int]]:
    found = []
    for ids in map(torch.tensor, prompts):
        with torch.inference_mode():
            row = ids[None]
            made = model.generate(
                row, attention_mask=torch.ones_like(row), do_sample=False, max_new_tokens=max_tokens, pad_token_id=0
            )
        found.append(made[0, len(ids) :].tolist())
    return found


def reread(path: Path, **options: Any) -> Any:
    """The model as transformers reads it, with its own generation_config.json."""
    write_options(path, **options)
    return tr.AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager").float().eval()


def prompts_of(seed: object, n: int = 7) -> list[list[int]]:
    rng = random.Random(str(seed))
    return [
        [rng.randrange(VOCAB) for _ in range(k)] for k in [1, 2, *(rng.randint(3, MAX_INPUT) for _ in range(n - 2))]
    ]


def generator(card: ModelCard, ops: Any, slots: int = 3, steps: int = 2) -> Generator:
    runner = (PaddedDecoder if isinstance(ops, TorchDecodeOps) else DecoderRunner).load(card, ops, slots, 40)
    runner.warm_up()
    return Generator(card, runner=runner, steps_in_flight=steps)


@pytest.mark.parametrize("name", nightly_but(["penalty", "min-new", "forced-suppressed", "qwen", "all"], OPTIONS))
def test_tokens_are_those_of_transformers(tmp_path: Path, name: str) -> None:
    """In few cache slots, so that sequences follow each other in one, with one and two steps in flight."""
    write_decoder(tmp_path, "llama", 3)
    prompts = prompts_of(name)
    plain = answers(reread(tmp_path), prompts, MAX_OUTPUT)
    want = answers(reread(tmp_path, **OPTIONS[name]), prompts, MAX_OUTPUT)
    assert want != plain, "the option changes nothing here: the test would show nothing"
    card, sampling = card_of(tmp_path), GenerateOptions(max_tokens=MAX_OUTPUT)
    for ops in (CpuDecodeOps(FLOAT32), TorchDecodeOps(FLOAT32)):
        for steps in (1, 2):
            made = generator(card, ops, steps=steps)
            assert [a.token_ids for a in made.generate(prompts, **sampling)] == want
            assert made.generate(prompts[3:4], **sampling)[0].token_ids == want[3]


def test_min_new_tokens_overrides_min_length(tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama", 3)
    prompts = prompts_of("min")
    want = answers(reread(tmp_path, min_length=30, min_new_tokens=0), prompts, MAX_OUTPUT)
    assert want != answers(reread(tmp_path, min_length=30), prompts, MAX_OUTPUT)
    write_options(tmp_path, min_length=30, min_new_tokens=0)
    made = generator(card_of(tmp_path), CpuDecodeOps(FLOAT32)).generate(prompts, max_tokens=MAX_OUTPUT)
    assert [a.token_ids for a in made] == want


@pytest.mark.parametrize("name", ["min-length", "all", *nightly("penalty", "ngram-2")])
def test_a_prefix_counts_as_part_of_the_text(tmp_path: Path, name: str) -> None:
    write_decoder(tmp_path, "qwen3", 4)
    prompts, prefix = prompts_of(name), prompts_of("prefix")[4]
    model = reread(tmp_path, **OPTIONS[name])
    want = answers(model, [[*prefix, *ids] for ids in prompts], MAX_OUTPUT)
    made = generator(card_of(tmp_path, prefix_ids=tuple(prefix)), CpuDecodeOps(FLOAT32))
    assert [a.token_ids for a in made.generate(prompts, max_tokens=MAX_OUTPUT)] == want


def test_where_every_token_is_forbidden_it_is_the_first(tmp_path: Path) -> None:
    """And its probability is 1: nothing else can be chosen. Neither the start nor an answer fails."""
    write_decoder(tmp_path, "llama", 3)
    model = reread(tmp_path, begin_suppress_tokens=[*range(VOCAB)])
    (made,) = generator(card_of(tmp_path), CpuDecodeOps(FLOAT32)).generate([[7, 8]], max_tokens=4, logprobs=True)
    assert [made.token_ids] == answers(model, [[7, 8]], 4)
    assert (made.token_ids[0], made.logprobs[0]) == (0, 0.0)


def test_in_bf16_logits_are_penalised_in_float32(tmp_path: Path) -> None:
    """As transformers does; where only a rounded logit differs, the token does."""
    write_decoder(tmp_path, "llama", 3)
    write_options(tmp_path, repetition_penalty=1.01)
    seen: list[torch.dtype] = []

    class Watched(CpuDecodeOps):
        def change_logits(self, *given: Any) -> torch.Tensor:
            changed = super().change_logits(*given)
            seen.append(changed.dtype)
            return changed

    generator(card_of(tmp_path), Watched(torch.bfloat16)).generate([[1, 2]], max_tokens=3)
    assert set(seen) == {FLOAT32}


def test_logits_are_those_of_the_processors_of_transformers(tmp_path: Path) -> None:
    """Of prompts of several lengths in one step, likely and unlikely tokens alike."""
    write_decoder(tmp_path, "llama", 3)
    words = [[4, 4, 50], [4, 51], [4, 4, 4, 52], [8, 4, 53], [7]]
    write_options(tmp_path, repetition_penalty=1.3, bad_words_ids=words, no_repeat_ngram_size=3)
    card, prompts = card_of(tmp_path), [[4], [4, 4], [9, 8, 4], [1, 2, 3, 4, 1, 2, 3, 1, 2]]
    logits = torch.randn(len(prompts), VOCAB, generator=torch.Generator().manual_seed(0))
    processors = tr.LogitsProcessorList(
        [
            tr.RepetitionPenaltyLogitsProcessor(1.3),
            tr.NoRepeatNGramLogitsProcessor(3),
            tr.NoBadWordsLogitsProcessor(words, EOS),
        ]
    )
    want = [processors(torch.tensor([ids]), row[None].clone())[0] for ids, row in zip(prompts, logits, strict=True)]
    ids, at = (
        torch.tensor(x, dtype=torch.int32)
        for x in ([i for p in prompts for i in p], [i for p in prompts for i in range(len(p))])
    )
    slots = torch.tensor([slot for slot, p in enumerate(prompts) for _ in p], dtype=torch.int32)
    ends = torch.tensor([len(p) for p in prompts]).cumsum(0).int()
    state = DecodeState.allocate(card, len(prompts), 1, 1, 8, FLOAT32, torch.device("cpu"))
    nothing = torch.zeros(len(prompts), dtype=torch.int32)
    starts = torch.cat((torch.zeros(1, dtype=torch.int32), ends))
    counts = torch.tensor([len(ids), len(prompts), 0], dtype=torch.int32)
    step = DecodeStep(ids, at, slots, starts, *[nothing] * 4, state.params[:0], counts)
    # The checkpoint's penalty and n-grams come with each sequence's parameters.
    for slot, prompt in enumerate(prompts):
        params = sequence_params(slot, max_tokens=9, repetition_penalty=1.3, no_repeat_ngram_size=3)
        state.params[slot] = torch.tensor(params, dtype=torch.int32)
        state.history[slot, : len(prompt)] = torch.tensor(prompt, dtype=torch.int32)
    for ops in (CpuDecodeOps(FLOAT32), TorchDecodeOps(FLOAT32)):
        got = ops.change_logits(logits.clone(), step, state)
        torch.testing.assert_close(got, torch.stack(want), rtol=0, atol=0)


def test_a_card_keeps_the_options(tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama", 3)
    write_options(tmp_path, bad_words_ids=[[1, 2], [3]], repetition_penalty=2, forced_eos_token_id=7)
    card = card_of(tmp_path)
    assert card.logit_options == LogitOptions(2.0, bad_words_ids=((1, 2), (3,)), forced_eos_token_id=(7,))
    assert ModelCard.from_json(card.to_json()) == card
    version = card.version
    write_options(tmp_path, repetition_penalty=1.0, no_repeat_ngram_size=0, min_length=0, suppress_tokens=[])
    assert card_of(tmp_path).logit_options is None, "neutral values need no stage"
    assert card_of(tmp_path).version != version


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("repetition_penalty", 0.0),
        ("repetition_penalty", "1.1"),
        ("no_repeat_ngram_size", -1),
        ("no_repeat_ngram_size", 2.5),
        ("min_length", True),
        ("min_new_tokens", [3]),
        ("suppress_tokens", [VOCAB]),
        ("suppress_tokens", 3),
        ("begin_suppress_tokens", [-1]),
        ("bad_words_ids", [[]]),
        ("bad_words_ids", [3]),
        ("bad_words_ids", [[VOCAB]]),
        ("forced_eos_token_id", "end"),
        ("forced_eos_token_id", VOCAB),
    ],
)
def test_a_value_that_means_nothing_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    write_decoder(tmp_path, "llama")
    write_options(tmp_path, **{key: value})
    with pytest.raises(ModelError, match=rf"generation_config\.json: {key} .* must be "):
        card_of(tmp_path)


def test_longer_lists_than_a_card_holds_are_refused(tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama")
    words = [[i, j, k] for i in range(40) for j in range(40) for k in range(3)]
    write_options(tmp_path, bad_words_ids=words[:3333])
    assert len(card_of(tmp_path).to_json()) < 128 << 10
    write_options(tmp_path, bad_words_ids=words[:3334])
    with pytest.raises(ModelError, match="hold 10002 token ids; at most 10000"):
        card_of(tmp_path)


def test_a_forced_token_that_is_suppressed_is_refused(tmp_path: Path) -> None:
    """As transformers does."""
    write_decoder(tmp_path, "llama")
    with pytest.raises(ValueError, match="suppress_tokens"):
        reread(tmp_path, forced_eos_token_id=7, suppress_tokens=[7, 8])
    with pytest.raises(ModelError, match=r"suppress_tokens forbid all of forced_eos_token_id \[7\]"):
        card_of(tmp_path)
