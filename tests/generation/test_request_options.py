"""Options of requests that change logits: the tokens of transformers with the same arguments, in any company."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_cuda
import pytest
import torch
import transformers as tr
from decoders import DECODERS, VOCAB, write_decoder
from nightly import nightly
from padded import PaddedDecoder
from test_generate import Request, play
from test_logit_options import EOS, OPTIONS, reread

from fastqps import Engine
from fastqps.api.request import GenerateOptions
from fastqps.engine.generator import Generator
from fastqps.engine.sampling import check_options
from fastqps.models import ModelCard, load_card
from fastqps.ops.cpu.decode_ops import CpuDecodeOps
from fastqps.ops.cuda.decode_ops import CudaDecodeOps
from fastqps.ops.cuda.operations import own_operations, torch_operations
from fastqps.runners.decoder import DecoderRunner

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.compute,
    pytest.mark.filterwarnings("ignore:Unfeasible length constraints"),  # transformers', of the checkpoint's minimum
    pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered"),  # numpy's, interpreting
]
SCENARIOS = int(os.environ.get("FASTQPS_OPTION_SCENARIOS", "6"))
MAX_INPUT, MAX_OUTPUT = 16, 14
FLOAT32 = torch.float32
FORCED = 60  # by checkpoints that force an end
# Those of checkpoints, short enough for these answers.
CHECKPOINTS: list[dict[str, Any]] = [
    {},
    {},
    {"repetition_penalty": 1.3},
    {"no_repeat_ngram_size": 2},
    {"min_new_tokens": 9},
    {"min_length": 20},
    {"suppress_tokens": [*range(10, 40)]},
    {"begin_suppress_tokens": [*range(70)]},
    {"bad_words_ids": [[i, j] for i in range(VOCAB) for j in range(i % 3, VOCAB, 3)]},
    {"forced_eos_token_id": [FORCED, 9]},
    {**OPTIONS["all"], "min_length": 12},
]


def random_options(rng: random.Random, max_tokens: int) -> dict[str, Any]:
    """Of one request; often none."""
    found: dict[str, Any] = {}
    if rng.random() < 0.35:
        return found
    if rng.random() < 0.5:
        found["repetition_penalty"] = rng.choice([1.0, 1.05, 1.3, 2.0, 0.7])
    if rng.random() < 0.4:
        found["no_repeat_ngram_size"] = rng.choice([0, 1, 2, 3, 40])
    if rng.random() < 0.4:
        found["min_tokens"] = rng.randint(0, max_tokens)
    if rng.random() < 0.4:
        ids = [id for id in range(VOCAB) if id != FORCED]  # a request that suppresses all that is forced is refused
        found["suppress_token_ids"] = tuple(rng.sample(ids, rng.randint(1, 8)))
    if rng.random() < 0.4:
        ids = rng.sample(range(VOCAB), rng.choice([1, 5, min(VOCAB, 300)]))
        found["logit_bias"] = {id: rng.choice([-100.0, -3.0, -0.25, 0.0, 1.5, 4.0]) for id in ids}
    for name in ("presence_penalty", "frequency_penalty"):
        if rng.random() < 0.3:
            found[name] = rng.choice([-2.0, -0.1, 0.0, 0.3, 1.1])
    return found


class AnswerPenalties(tr.LogitsProcessor):
    """vLLM's presence and frequency penalties, which transformers has not; the tokens from ``begin`` on count.

    As ``apply_penalties`` there, after all of transformers' own processors.
    """

    def __init__(self, begin: int, presence: float, frequency: float, forced_at: int | None) -> None:
        self._begin, self._presence, self._frequency, self._forced_at = begin, presence, frequency, forced_at

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if input_ids.shape[1] == self._forced_at:
            return scores
        counts = input_ids[0, self._begin :].bincount(minlength=scores.shape[1])
        return scores - self._frequency * counts - self._presence * (counts > 0)


def expected(model: Any, ids: list[int], max_tokens: int, eos: list[int], options: dict[str, Any]) -> list[int]:
    """What ``transformers.generate`` makes of it with these keyword arguments."""
    named = {key: value for key, value in options.items() if key in ("repetition_penalty", "no_repeat_ngram_size")}
    if "min_tokens" in options:
        named["min_new_tokens"] = options["min_tokens"]
    if "suppress_token_ids" in options:
        named["suppress_tokens"] = [*(model.generation_config.suppress_tokens or []), *options["suppress_token_ids"]]
    if options.get("logit_bias"):
        named["sequence_bias"] = {(id,): bias for id, bias in options["logit_bias"].items()}
    forced_at = len(ids) + max_tokens - 1 if model.generation_config.forced_eos_token_id is not None else None
    penalties = (options.get(name, 0.0) for name in ("presence_penalty", "frequency_penalty"))
    row = torch.tensor([ids])
    with torch.inference_mode():
        made = model.generate(
            row,
            attention_mask=torch.ones_like(row),
            do_sample=False,
            max_new_tokens=max_tokens,
            pad_token_id=0,
            eos_token_id=eos,
            logits_processor=tr.LogitsProcessorList([AnswerPenalties(len(ids), *penalties, forced_at)]),
            **named,
        )
    found: list[int] = made[0, len(ids) :].tolist()
    return found


def card_of(path: Path, **changes: Any) -> ModelCard:
    return replace(load_card(str(path), MAX_INPUT, max_output_tokens=MAX_OUTPUT), **changes)


def random_ids(rng: random.Random, longest: int) -> list[int]:
    """Of few different ones, so that texts repeat themselves."""
    some = rng.sample(range(VOCAB), rng.choice([2, 5, 40]))
    return [rng.choice(some) for _ in range(rng.randint(1, longest))]


def scenario(tmp_path: Path, seed: int, requests: int = 8) -> tuple[ModelCard, list[Request]]:
    """A checkpoint, with options or without, and requests that arrive and are dropped at random, with their answers."""
    rng = random.Random(seed)
    write_decoder(tmp_path, list(DECODERS)[seed % len(DECODERS)], seed)
    model = reread(tmp_path, **CHECKPOINTS[seed % len(CHECKPOINTS)])
    prefix = tuple(random_ids(rng, 30)) if rng.random() < 0.3 else ()
    card, made = card_of(tmp_path, prefix_ids=prefix), []
    for _ in range(requests):
        again = made[-1] if made and rng.random() < 0.4 else None
        ids = again.ids if again else random_ids(rng, MAX_INPUT)
        if again is None and rng.random() < 0.3:
            ids = (ids * MAX_INPUT)[:MAX_INPUT]  # so long that it is copied where it comes again
        limit = rng.randint(1, MAX_OUTPUT)
        options = random_options(rng, limit)
        want = expected(model, [*prefix, *ids], limit, EOS, options)
        dropped = rng.choice([99, 99, 99, 0, 2])
        arrives = again.arrives + rng.choice([0, 0, 1]) if again else rng.randint(0, 12)
        made.append(Request(ids, GenerateOptions(max_tokens=limit, **options), arrives, dropped, want))
    return card, made


def check(requests: list[Request]) -> None:
    for request in requests:
        assert request.got == request.want[: request.dropped_at], request


@pytest.mark.parametrize("seed", range(SCENARIOS))
def test_random_requests_in_random_company(tmp_path: Path, seed: int) -> None:
    card, requests = scenario(tmp_path, seed)
    rng = random.Random(seed)
    slots = rng.randint(1, 5)
    runner = DecoderRunner.load(card, CpuDecodeOps(FLOAT32), slots, MAX_INPUT + slots + rng.choice([0, 40]))
    runner.warm_up()
    play(Generator(card, runner=runner, steps_in_flight=rng.choice([1, 2])), requests)
    check(requests)


def test_options_make_a_difference(tmp_path: Path) -> None:
    """Else the scenarios would show nothing: of each option alone."""
    write_decoder(tmp_path, "llama", 3)
    model, ids = reread(tmp_path), [7, 8, 9, 7, 8, 9, 7, 8]
    plain = expected(model, ids, MAX_OUTPUT, EOS, {})
    made = Generator(card_of(tmp_path), runner=DecoderRunner.load(card_of(tmp_path), CpuDecodeOps(FLOAT32), 2, 40))
    ends = [plain[3]]
    for options in (
        {"repetition_penalty": 1.5},
        {"no_repeat_ngram_size": 1},
        {"suppress_token_ids": (plain[0], plain[1])},
        {"presence_penalty": 1.5},
        {"frequency_penalty": 0.7},
        {"frequency_penalty": -0.7},
        {"logit_bias": {plain[0]: -100.0, plain[1]: 3.0}},
    ):
        want = expected(model, ids, MAX_OUTPUT, EOS, options)
        assert want != plain, options
        assert made.generate([ids], **options)[0].token_ids == want
    card = card_of(tmp_path, eos_ids=tuple(ends))
    made = Generator(card, runner=DecoderRunner.load(card, CpuDecodeOps(FLOAT32), 2, 40))
    assert len(made.generate([ids])[0].token_ids) <= 4
    for least in (5, MAX_OUTPUT):
        found = made.generate([ids], min_tokens=least)[0].token_ids
        assert found == expected(model, ids, MAX_OUTPUT, ends, {"min_tokens": least})
        assert ends[0] not in found[:least] and len(found) > least - 1


@pytest.mark.parametrize(
    ("checkpoint", "options"),
    [
        ({"repetition_penalty": 1.5}, {"repetition_penalty": 1.0}),
        ({"no_repeat_ngram_size": 1}, {"no_repeat_ngram_size": 0}),
        ({"min_length": 28}, {"min_tokens": 0}),
        ({"min_new_tokens": 13}, {"min_tokens": 0}),
    ],
)
def test_an_option_replaces_the_checkpoints(
    tmp_path: Path, checkpoint: dict[str, Any], options: dict[str, Any]
) -> None:
    """A value that is off as well; a request beside it that has none gets the checkpoint's."""
    write_decoder(tmp_path, "llama", 3)
    model, rng = reread(tmp_path), random.Random(3)
    prompts = [[rng.randrange(VOCAB) for _ in range(MAX_INPUT)] for _ in range(24)]
    plain = [expected(model, ids, MAX_OUTPUT, EOS, {}) for ids in prompts]
    model = reread(tmp_path, **checkpoint)
    want = [expected(model, ids, MAX_OUTPUT, EOS, {}) for ids in prompts]
    assert want != plain
    card = card_of(tmp_path)
    made = Generator(card, runner=DecoderRunner.load(card, CpuDecodeOps(FLOAT32), 8, 60))
    requests = [
        Request(ids, GenerateOptions(**options), 0, 99, found) for ids, found in zip(prompts, plain, strict=True)
    ]
    requests += [Request(ids, GenerateOptions(), 0, 99, found) for ids, found in zip(prompts, want, strict=True)]
    play(made, requests)
    check(requests)


@pytest.mark.parametrize("seed", [5, 10, *nightly(0, 8, 9)])
@pytest.mark.parametrize("operations", ["kernels", "torch"])
def test_a_gpus_ops_in_padded_steps(tmp_path: Path, seed: int, operations: str) -> None:
    """Its kernels interpreted on the CPU, or the operations that may take their place."""
    card, requests = scenario(tmp_path, seed, requests=3 if operations == "kernels" else 6)
    kernels = own_operations() if operations == "kernels" else torch_operations()
    card = replace(card, max_input_tokens=MAX_INPUT)
    runner = PaddedDecoder.load(card, CudaDecodeOps(FLOAT32, "cpu", kernels=kernels), 2, MAX_INPUT + 2)
    play(Generator(card, runner=runner, steps_in_flight=2), requests)
    check(requests)


@pytest.mark.parametrize("seed", [9, *nightly(3, 10)])
def test_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A fake one: captured steps of several sizes, each with padding that older steps have left."""
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    card, requests = scenario(tmp_path, seed, requests=12)
    generator = Generator(
        card, device="cuda", dtype="float32", max_running=4, max_step_tokens=MAX_INPUT + 8, kernels="torch"
    )
    play(generator, requests)
    check(requests)


def test_lanes_do_not_share_options(tmp_path: Path) -> None:
    """Sequences of two lanes in cache slots of the same number."""
    card, requests = scenario(tmp_path, 6, requests=10)
    first = DecoderRunner.load(card, CpuDecodeOps(FLOAT32), 2, MAX_INPUT + 2)
    lanes = [Generator(card, runner=runner, steps_in_flight=2) for runner in (first, first.for_another_lane())]
    numbers: list[dict[int, Request]] = [{}, {}]
    for i, request in enumerate(requests):
        request.dropped_at = 99
        numbers[i % 2][lanes[i % 2].add(request.ids, **request.sampling)] = request
    while any(lane.busy for lane in lanes):
        for lane, known in zip(lanes, numbers, strict=True):
            for token in lane.step():
                known[token.request].got.append(token.id)
    check(requests)


def test_the_same_seed_gives_the_same_tokens_with_options(tmp_path: Path) -> None:
    """Drawn ones: alone, and beside requests with other options."""
    write_decoder(tmp_path, "llama", 3)
    card, rng = card_of(tmp_path), random.Random(1)
    samplings = [
        GenerateOptions(temperature=3.0, seed=i, logprobs=True, **random_options(rng, MAX_OUTPUT)) for i in range(12)
    ]
    prompts = [random_ids(rng, MAX_INPUT) for _ in samplings]

    def generator(slots: int) -> Generator:
        return Generator(card, runner=DecoderRunner.load(card, CpuDecodeOps(FLOAT32), slots, 60))

    alone = [generator(1).generate([ids], **s)[0].token_ids for ids, s in zip(prompts, samplings, strict=True)]
    cases = zip(prompts, samplings, alone, strict=True)
    requests = [Request(ids, s, rng.randint(0, 5), 99, want) for ids, s, want in cases]
    play(generator(5), requests)
    check(requests)


def test_the_engine_has_the_options(tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama", 3)
    model = reread(tmp_path)
    engine = Engine(str(tmp_path), dtype="float32", max_input_tokens=MAX_INPUT, max_output_tokens=MAX_OUTPUT)
    options = {"repetition_penalty": 1.4, "no_repeat_ngram_size": 2, "min_tokens": 12}
    want = expected(model, [7, 8, 9], MAX_OUTPUT, EOS, {**options, "suppress_token_ids": (5, 6)})
    named: dict[str, Any] = {**options, "suppress_token_ids": [5, 6]}
    assert engine.generate([[7, 8, 9]], **named)[0].token_ids == want
    chunks = engine.generate_stream([7, 8, 9], **named)
    assert [id for chunk in chunks for id in chunk.token_ids] == want


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repetition_penalty": 0.0}, "repetition_penalty 0.0 is out of range: a finite number above 0"),
        ({"repetition_penalty": -1.0}, "repetition_penalty -1.0 .* above 0"),
        ({"repetition_penalty": float("nan")}, "repetition_penalty nan "),
        ({"repetition_penalty": 1e-60}, "repetition_penalty 1e-60 "),  # nothing in float32
        ({"repetition_penalty": 1e60}, r"repetition_penalty 1e\+60 "),
        *(
            ({name: -2.5}, f"{name} -2.5 .* at least -2, at most 2")
            for name in ("presence_penalty", "frequency_penalty")
        ),
        ({"min_p": 1.5}, "min_p 1.5 is out of range: at least 0, at most 1"),
        *(({"typical_p": value}, "typical_p .* above 0, at most 1") for value in (0.0, 1.1)),
        ({"logit_bias": {VOCAB: 1.0}}, f"logit_bias .* from 0 to {VOCAB - 1}"),
        ({"logit_bias": {3: 100.5}}, "logit_bias .* values from -100 to 100"),
        ({"logit_bias": {3: float("nan")}}, "logit_bias .* values from -100 to 100"),
        ({"logit_bias": dict.fromkeys(range(301), 1.0)}, "logit_bias .* at most 300 tokens"),
        ({"no_repeat_ngram_size": 65}, "no_repeat_ngram_size 65 is out of range: 0 to 64"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size -1 "),
        ({"min_tokens": 5, "max_tokens": 4}, "min_tokens 5 is out of range: at least 0, at most max_tokens, 4"),
        ({"min_tokens": MAX_OUTPUT + 1}, f"min_tokens {MAX_OUTPUT + 1} .* max_tokens, {MAX_OUTPUT}"),
        ({"suppress_token_ids": range(9)}, "suppress_token_ids .* at most 8 ids"),
        ({"suppress_token_ids": (VOCAB,)}, rf"suppress_token_ids \[{VOCAB}\] .* from 0 to {VOCAB - 1}"),
        *(({"max_tokens": tokens}, "max_tokens") for tokens in (MAX_OUTPUT + 1, 0, -1)),
        *(({"temperature": value}, "temperature") for value in (-0.5, float("nan"), float("inf"))),
        *(({"top_p": value}, "top_p") for value in (0.0, 1.5)),
        ({"top_k": 65}, "top_k"),
        ({"seed": 1 << 64}, "seed"),
        ({"stop_token_ids": range(9)}, "stop_token_ids"),
        ({"stop_token_ids": [VOCAB]}, "stop_token_ids"),
    ],
)
def test_options_out_of_range_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    write_decoder(tmp_path, "llama")
    with pytest.raises(ValueError, match=message):
        check_options(GenerateOptions(**options), card_of(tmp_path))


def test_not_all_forced_tokens_can_be_suppressed(tmp_path: Path) -> None:
    """transformers refuses it as well. What the checkpoint suppresses is never forced."""
    write_decoder(tmp_path, "llama")
    model = reread(tmp_path, forced_eos_token_id=[60, 9, 8], suppress_tokens=[8])
    card = card_of(tmp_path)
    assert check_options({"suppress_token_ids": (9,)}, card)["suppress_token_ids"] == [9]
    with pytest.raises(ValueError, match="suppress_tokens"):
        expected(model, [1], 4, EOS, {"suppress_token_ids": (9, 60)})
    with pytest.raises(ValueError, match=r"suppress_token_ids \[9, 60\] is out of range: without all of \[60, 9\], "):
        check_options({"suppress_token_ids": (9, 60)}, card)


def test_a_checkpoints_values_may_be_beyond_a_requests(tmp_path: Path) -> None:
    """A minimum above a request's own maximum, and an n-gram that is longer than a request may ask for."""
    write_decoder(tmp_path, "llama", 3)
    reread(tmp_path, min_new_tokens=50, no_repeat_ngram_size=100)
    card = card_of(tmp_path)
    checked = check_options({"max_tokens": 3}, card)
    assert (checked["min_tokens"], checked["no_repeat_ngram_size"]) == (50, 100)
    made = Generator(card, runner=DecoderRunner.load(card, CpuDecodeOps(FLOAT32), 1, 40))
    assert len(made.generate([[1, 2]], max_tokens=3)[0].token_ids) == 3
