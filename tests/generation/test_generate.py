"""Generation in process against transformers: the same tokens, alone and in whatever company, however steps run."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from decoders import DECODERS, VOCAB, expected, write_decoder

from fastqps.api.prediction import Usage
from fastqps.api.request import GenerateOptions
from fastqps.engine.generator import Generator
from fastqps.engine.text_answer import LENGTH, STOP
from fastqps.models import ModelCard, load_card
from fastqps.ops.cpu.decode_ops import CpuDecodeOps
from fastqps.ops.cpu.matrix import multiplies
from fastqps.runners.decoder import DecoderRunner

pytestmark = [pytest.mark.compute, pytest.mark.usefixtures("one_thread")]

SCENARIOS = int(os.environ.get("FASTQPS_GENERATION_SCENARIOS", "16"))
MAX_INPUT, MAX_OUTPUT = 24, 16
FLOAT32 = torch.float32


def make_generator(
    card: ModelCard,
    slots: int = 4,
    steps_in_flight: int = 2,
    dtype: torch.dtype = FLOAT32,
    step_tokens: int = 32,
) -> Generator:
    runner = DecoderRunner.load(card, CpuDecodeOps(dtype), slots, step_tokens)
    runner.warm_up()
    return Generator(card, runner=runner, steps_in_flight=steps_in_flight)


def card_of(path: Path, **changes: Any) -> ModelCard:
    return replace(load_card(str(path), MAX_INPUT, max_output_tokens=MAX_OUTPUT), **changes)


def random_ids(rng: random.Random, longest: int = MAX_INPUT) -> list[int]:
    return [rng.randrange(VOCAB) for _ in range(rng.randint(1, longest))]


@dataclass
class Request:
    """One of a scenario: when it comes, when it is dropped (a number of its tokens), what it has to get."""

    ids: list[int]
    sampling: GenerateOptions
    arrives: int
    dropped_at: int
    want: list[int]
    got: list[int] = field(default_factory=list)
    finish: int = 0


def random_request(rng: random.Random, model: Any, card: ModelCard, ids: list[int]) -> Request:
    stops = rng.sample(range(VOCAB), rng.choice([0, 0, 0, 1, 8]))
    sampling = GenerateOptions(
        max_tokens=rng.randint(1, MAX_OUTPUT), stop_token_ids=stops, ignore_eos=rng.random() < 0.3
    )
    ends = stops + ([] if sampling["ignore_eos"] else list(card.eos_ids))
    want = expected(model, [*card.prefix_ids, *ids], sampling["max_tokens"], ends or None)
    return Request(ids, sampling, rng.randint(0, 20), rng.choice([99, 99, 99, 0, 1, 3]), want)


def play(generator: Generator, requests: Sequence[Request]) -> None:
    """Requests arrive at their steps and are dropped after their numbers of tokens; nothing may be left at the end."""
    by_number: dict[int, Request] = {}
    waiting, step = sorted(requests, key=lambda r: r.arrives), 0
    while waiting or generator.busy:
        while waiting and waiting[0].arrives <= step:
            request = waiting.pop(0)
            number = generator.add(request.ids, **request.sampling)
            by_number[number] = request
            if request.dropped_at == 0:
                generator.drop(number)
        for token in generator.step():
            request = by_number[token.request]
            assert request.finish == 0 and len(request.got) < request.dropped_at, "a token after the last one"
            request.got.append(token.id)
            request.finish = token.finish
            if len(request.got) == request.dropped_at:
                generator.drop(token.request)
        step += 1
        assert step < 2000
    generator.close()


@pytest.mark.parametrize("seed", range(SCENARIOS))
def test_random_company(tmp_path: Path, seed: int) -> None:
    """Random arrivals, drops, ends, slots and step sizes, synchronously and not."""
    rng = random.Random(seed)
    kind = list(DECODERS)[seed % len(DECODERS)]
    model = write_decoder(tmp_path, kind, seed)
    prefix = tuple(random_ids(rng, 60)) if rng.random() < 0.3 else ()
    eos = tuple(rng.sample(range(VOCAB), rng.choice([0, 1, 3])))
    card = card_of(tmp_path, prefix_ids=prefix, eos_ids=eos)
    requests: list[Request] = []
    for _ in range(rng.randint(4, 10)):
        again = requests[-1] if requests and rng.random() < 0.5 else None
        ids = again.ids if again else random_ids(rng)
        requests.append(random_request(rng, model, card, ids))
        if again:
            requests[-1].arrives = again.arrives + rng.choice([0, 0, 0, 1])
    slots = rng.randint(1, 6)
    generator = make_generator(card, slots, rng.choice([1, 2]), step_tokens=rng.choice([MAX_INPUT + slots, 40, 200]))
    play(generator, requests)
    for request in requests:
        kept = min(request.dropped_at, len(request.want))
        assert request.got == request.want[:kept], f"{kind}: {request}"
        if kept == len(request.want):
            ends = {*request.sampling.get("stop_token_ids", ()), *(() if request.sampling.get("ignore_eos") else eos)}
            assert request.finish == (STOP if request.want[-1] in ends else LENGTH)


@pytest.mark.parametrize("in_flight", [1, 2])
def test_the_prompt_of_choices_is_computed_once(
    tmp_path: Path, in_flight: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_decoder(tmp_path, "llama", spread=0.05)
    prompt = [random.Random(0).randrange(VOCAB) for _ in range(MAX_INPUT)]
    generator = make_generator(card_of(tmp_path), 8, in_flight, step_tokens=200)
    launch, steps = generator._lane.launch, []

    def note(step: int, *size: int) -> None:
        steps.append(size)
        launch(step, *size)

    monkeypatch.setattr(generator._lane, "launch", note)
    options = GenerateOptions(temperature=1.0, max_tokens=2, ignore_eos=True)
    first = generator.generate([prompt], n=8, seed=5, **options)[0]
    assert steps == [(1, MAX_INPUT, 1), (8, 1 + 7 * 4, 7), (7, 7, 0)]  # runs, rows, new sequences
    alone = [generator.generate([prompt], seed=5 + i, **options)[0] for i in range(8)]
    assert [each.token_ids for each in (first, *first.other_choices)] == [each.token_ids for each in alone]
    assert len({tuple(each.token_ids) for each in alone}) > 4


@pytest.mark.parametrize("kind", DECODERS)
def test_every_family_alone_and_together(tmp_path: Path, kind: str) -> None:
    model = write_decoder(tmp_path, kind, 7)
    rng = random.Random(kind)
    prompts = [random_ids(rng) for _ in range(5)]
    want = [expected(model, ids, MAX_OUTPUT) for ids in prompts]
    generator = make_generator(card_of(tmp_path))
    together = generator.generate(prompts, top_logprobs=5)
    alone = generator.generate(prompts[:1], logprobs=True)
    assert [answer.token_ids for answer in together] == want
    assert alone[0].token_ids == want[0]
    assert alone[0].logprobs == pytest.approx(together[0].logprobs, abs=1e-5)
    check_logprobs(model, prompts, together)


def check_logprobs(model: Any, prompts: Sequence[Sequence[int]], answers: Sequence[Any]) -> None:
    for ids, answer in zip(prompts, answers, strict=True):
        with torch.inference_mode():
            logits = model(torch.tensor([[*ids, *answer.token_ids]])).logits[0, len(ids) - 1 : -1]
        want = logits.log_softmax(-1)[range(len(answer.token_ids)), answer.token_ids]
        assert answer.logprobs == pytest.approx(want.tolist(), abs=1e-4)
        if answer.top_logprobs:
            check_top(answer.top_logprobs, logits.log_softmax(-1))


def check_top(found: Sequence[Sequence[tuple[int, float]]], logprobs: torch.Tensor) -> None:
    """``logprobs`` [tokens, vocabulary]. Of two that are nearly equal either may come first."""
    for each, row in zip(found, logprobs, strict=True):
        values = [value for _, value in each]
        assert values == pytest.approx(row.topk(len(each)).values.tolist(), abs=1e-4)
        assert values == pytest.approx(row[[id for id, _ in each]].tolist(), abs=1e-4)
        assert values == sorted(values, reverse=True) and len({id for id, _ in each}) == len(each)


def test_old_names_and_shards(tmp_path: Path) -> None:
    """The configuration as older transformers wrote it, in shards, and the ends that generation_config.json names."""
    import json

    model = write_decoder(tmp_path, "llama3-rope", max_shard_size="30KB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = {"type": rope.pop("rope_type"), **rope}
    config["torch_dtype"] = config.pop("dtype")
    del config["head_dim"]
    path.write_text(json.dumps(config))
    ids = random_ids(random.Random(3))
    want = expected(model, ids, MAX_OUTPUT)
    for said, eos in ((want[2], (want[2],)), ([want[4], want[2]], (want[4], want[2]))):
        (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": said}))
        card = card_of(tmp_path)
        assert card.eos_ids == eos
        end = min(i for i, token in enumerate(want) if token in eos)
        answer = make_generator(card).generate([ids])[0]
        assert (answer.token_ids, answer.finish_reason) == (want[: end + 1], "stop")
        ignored = make_generator(card).generate([ids], ignore_eos=True)[0]
        assert (ignored.token_ids, ignored.finish_reason) == (want, "length")


@pytest.mark.parametrize(
    ("kind", "length"),
    [
        ("qwen2", 1),
        ("qwen2", 16),
        ("qwen2", MAX_INPUT + MAX_OUTPUT + 20),
        ("gemma3_text", 20),
        ("gpt2", 16),
        ("opt", 16),
    ],
)
def test_a_prefix_is_as_if_every_prompt_had_it(tmp_path: Path, kind: str, length: int) -> None:
    """Also one that is longer than prompt and answer together, and so than a cache slot, and than a window."""
    model = write_decoder(tmp_path, kind)
    rng = random.Random(5)
    prefix, prompts = [rng.randrange(VOCAB) for _ in range(length)], [random_ids(rng) for _ in range(5)]
    card = card_of(tmp_path)
    with_prefix = make_generator(replace(card, prefix_ids=tuple(prefix))).generate(prompts)
    longer = replace(card, max_input_tokens=length + MAX_INPUT)
    whole = make_generator(longer, step_tokens=100).generate([prefix + p for p in prompts])
    want = [expected(model, prefix + p, MAX_OUTPUT) for p in prompts]
    assert [a.token_ids for a in with_prefix] == [a.token_ids for a in whole] == want


def test_the_same_seed_gives_the_same_tokens_in_any_company(tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama-mqa-5", spread=0.05)
    rng = random.Random(11)
    card = card_of(tmp_path)
    cases = [
        (
            random_ids(rng),
            GenerateOptions(
                temperature=rng.choice([0.7, 1.5]), top_k=k, top_p=p, min_p=least, seed=rng.randrange(1 << 64)
            ),
        )
        for k in (0, 1, 5, 64)
        for p, least in ((0.3, 0.0), (0.9, 0.2), (1.0, 0.0), (1.0, 0.1))
    ]
    alone = [make_generator(card).generate([ids], **sampling)[0].token_ids for ids, sampling in cases]
    for in_flight, slots in ((2, 12), (1, 5), (2, 3)):
        generator = make_generator(card, slots, in_flight)
        requests = [
            Request(ids, sampling, rng.randint(0, 9), 99, want)
            for (ids, sampling), want in zip(cases, alone, strict=True)
        ]
        play(generator, requests)
        assert [r.got for r in requests] == alone
    assert len({tuple(tokens) for tokens in alone}) > len(alone) // 2, "nothing was random"
    greedy = make_generator(card).generate([cases[0][0]])[0].token_ids
    assert greedy == make_generator(card).generate([cases[0][0]], temperature=1.0, top_k=1)[0].token_ids


def test_other_seeds_are_other_draws(tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama", spread=0.05)
    generator = make_generator(card_of(tmp_path))
    draws = [generator.generate([[1, 2, 3]], temperature=2.0, seed=seed)[0].token_ids for seed in range(8)]
    assert len({tuple(tokens) for tokens in draws}) == 8
    unseeded = [answer.token_ids for answer in generator.generate([[1, 2, 3]] * 4, temperature=2.0)]
    assert len({tuple(tokens) for tokens in unseeded}) == 4
    given = generator.generate([[1, 2, 3]] * 4, temperature=2.0, seed=7)
    assert [answer.token_ids for answer in given] == [draws[7]] * 4


@pytest.mark.skipif(not multiplies(), reason="oneDNN's products choose their order by the rows")
def test_bfloat16_is_the_same_in_company(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """And as many texts as with transformers' own bf16 are those of fp32, but for a tenth."""
    rng, total, exact, theirs = random.Random(2), 0, 0, 0
    for kind in ("llama-gqa-tied", "llama3-rope", "qwen3", "qwen2-mqa-tied", "gpt2", "gpt_neox", "olmo2", "granite"):
        model = write_decoder(tmp_path / kind, kind).bfloat16()
        wide = copy.deepcopy(model).float()
        prompts = [random_ids(rng) for _ in range(12)]
        generator = make_generator(card_of(tmp_path / kind), 8, dtype=torch.bfloat16)
        alone = [generator.generate([ids])[0].token_ids for ids in prompts]
        assert [answer.token_ids for answer in generator.generate(prompts)] == alone, kind
        for ids, got in zip(prompts, alone, strict=True):
            fp32 = expected(wide, ids, MAX_OUTPUT)
            total, exact = total + 1, exact + (got == fp32)
            theirs += expected(model, ids, MAX_OUTPUT) == fp32
    record_property("bf16 texts", f"{total}; as in fp32 {exact}, transformers {theirs}")
    assert exact >= theirs - total / 10


def test_every_place_is_free_again(tmp_path: Path) -> None:
    """Requests that are dropped while their tokens are on their way leave nothing behind."""
    model = write_decoder(tmp_path, "llama")
    card, rng = card_of(tmp_path), random.Random(1)
    generator = make_generator(card, 3)
    for _ in range(20):
        numbers = [generator.add(random_ids(rng)) for _ in range(4)]
        for _ in range(rng.randint(0, 4)):
            generator.step()
        for number in numbers:
            generator.drop(number)
    ids = random_ids(rng)
    assert [a.token_ids for a in generator.generate([ids] * 5)] == [expected(model, ids, MAX_OUTPUT)] * 5
    assert not generator.busy


def test_requests_of_others_keep_their_tokens(tmp_path: Path) -> None:
    """Whoever steps, steps for all: generate and two streams beside requests that were added before."""
    model = write_decoder(tmp_path)
    card = card_of(tmp_path, eos_ids=())
    generator = make_generator(card)
    prompts, sampling = [[1, 2], [3], [4, 5, 6], [7]], GenerateOptions(max_tokens=9)
    want = [expected(model, ids, 9, None) for ids in prompts]
    added = generator.add(prompts[0], **sampling)
    assert generator.generate(prompts[1:2], **sampling)[0].token_ids == want[1]
    streams = [generator.generate_stream(ids, **sampling) for ids in prompts[2:]]
    got: list[list[int]] = [[], []]
    for chunks in zip(*streams, strict=True):
        for tokens, chunk in zip(got, chunks, strict=True):
            tokens += chunk.token_ids
    assert got == want[2:]
    late = generator.add(prompts[0], **sampling)
    by_request: dict[int, list[int]] = {added: [], late: []}
    while generator.busy:
        for token in generator.step():
            by_request[token.request].append(token.id)
    assert by_request == {added: want[0], late: want[0]}
    generator.close()


def test_bad_prompts_disturb_nobody(tmp_path: Path) -> None:
    model = write_decoder(tmp_path, "llama-1-layer")
    generator = make_generator(card_of(tmp_path))
    for prompts, said in (
        ([[1], []], "prompt 1 has 0 tokens"),
        ([[1], [2] * (MAX_INPUT + 1)], "takes 1 to 24"),
        ([[1], [VOCAB]], "below 96"),
        ([[-1]], "at least 0"),
        (["text"], r"no tokenizer\.json"),
        ("text", "a list of prompts"),
        ([[1], ("two", "texts")], "prompt 1: expected one text or token ids, not several texts"),
        ([{"role": "user", "content": "a"}], "prompt 0: expected a text, token ids or a Chat of messages"),
        ([[{"role": "user", "content": "a"}]], "prompt 0: expected a text, token ids or a Chat of messages"),
    ):
        with pytest.raises(ValueError, match=said):
            generator.generate(prompts)  # type: ignore[arg-type]
    assert generator.generate([[1]])[0].token_ids == expected(model, [1], MAX_OUTPUT)
    whole, cut = generator.generate([[1], [2] * (MAX_INPUT + 1)], truncate=True)
    assert whole.usage == Usage(1, len(whole.token_ids), False)
    assert cut.usage == Usage(MAX_INPUT, len(cut.token_ids), True, MAX_INPUT)
    assert cut.token_ids == expected(model, [2] * MAX_INPUT, MAX_OUTPUT)


@pytest.mark.parametrize("in_flight", [1, 2])
def test_an_interrupt_loses_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_flight: int) -> None:
    """Whoever stops waiting for an answer can ask for the next one."""
    model, ids = write_decoder(tmp_path, "llama"), random_ids(random.Random(4))
    generator = make_generator(card_of(tmp_path), steps_in_flight=in_flight)

    def interrupted(step: int) -> None:
        raise KeyboardInterrupt

    for _ in range(3):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(generator._lane, "wait", interrupted)
            generator.generate([ids])
    assert len(generator._free) + len(generator._in_flight) == in_flight
    assert generator.generate([ids])[0].token_ids == expected(model, ids, MAX_OUTPUT)
