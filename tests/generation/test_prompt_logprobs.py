"""Log-probabilities of prompts in process: those of transformers, and the answer is what it is without them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import fake_cuda
import pytest
import torch
from decoders import DECODERS, VOCAB, expected, write_decoder
from generators import write_generator
from padded import PaddedDecoder
from test_generate import MAX_INPUT, MAX_OUTPUT, card_of, check_top, make_generator, random_ids
from test_logit_options import reread
from test_request_options import expected as expected_with

from fastqps import Engine
from fastqps.api.prediction import PromptLogprobs
from fastqps.engine.generator import Generator
from fastqps.ops.cuda.decode_ops import CudaDecodeOps
from fastqps.ops.cuda.operations import own_operations, torch_operations

pytestmark = [pytest.mark.compute, pytest.mark.usefixtures("one_thread")]


def prompt_logprobs(model: Any, prefix: list[int], ids: list[int]) -> torch.Tensor:
    """Those of transformers, behind each token of ``ids`` but the last."""
    with torch.inference_mode():
        return model(torch.tensor([[*prefix, *ids]])).logits[0, len(prefix) : -1].log_softmax(-1)


def check_prompt(logprobs: torch.Tensor, ids: list[int], found: PromptLogprobs | None, top: int) -> None:
    assert found is not None and found.token_ids == ids and len(found.logprobs) == len(ids) - 1
    assert found.logprobs == pytest.approx(logprobs[range(len(ids) - 1), ids[1:]].tolist(), abs=1e-4)
    assert (found.top_logprobs is not None) == (top > 0 and len(ids) > 1)
    if found.top_logprobs is not None:
        assert {len(each) for each in found.top_logprobs} <= {top}
        check_top(found.top_logprobs, logprobs)
        for each, own, id in zip(found.top_logprobs, found.logprobs, ids[1:], strict=True):
            assert dict(each).get(id, own) == own, "clients tell by the value whether a token is the likeliest"


@pytest.mark.parametrize("kind", DECODERS)
def test_every_family_alone_and_in_company(tmp_path: Path, kind: str) -> None:
    """Of several slots and step sizes, behind a prefix and without, beside others that generate: each answer is what it
    is without them, which test_generate.py compares with transformers."""
    rng = random.Random(kind)
    model = write_decoder(tmp_path, kind, 5)
    prefix = random_ids(rng, 9) if rng.random() < 0.5 else []
    card = card_of(tmp_path, prefix_ids=tuple(prefix))
    prompts = [random_ids(rng) for _ in range(6)] + [[rng.randrange(VOCAB)]]
    want = [made.token_ids for made in make_generator(card).generate(prompts)]
    references = [prompt_logprobs(model, prefix, ids) for ids in prompts]
    for slots, tokens in ((1, MAX_INPUT + 1), (4, 32), (6, 200)):
        generator = make_generator(card, slots, step_tokens=tokens)
        top = rng.choice([0, 1, 20])
        asked = [generator.generate(prompts[:1], prompt_logprobs=top)[0]]
        assert asked[0].token_ids == want[0] and asked[0].logprobs is None
        others = {generator.add(ids, max_tokens=MAX_OUTPUT): ids for ids in prompts[:3]}
        together = generator.generate(prompts, prompt_logprobs=top, top_logprobs=3)
        assert [answer.token_ids for answer in together] == want
        for i, answer in zip([0, *range(len(prompts))], [*asked, *together], strict=True):
            check_prompt(references[i], prompts[i], answer.prompt_logprobs, top)
        for answer in together:
            assert answer.top_logprobs is not None and {len(each) for each in answer.top_logprobs} == {3}
        made: dict[int, list[int]] = {number: [] for number in others}
        while generator.busy:
            for token in generator.step():
                made[token.request].append(token.id)
        assert list(made.values()) == want[:3]
        generator.close()


@pytest.mark.parametrize("seed", range(6))
def test_options_change_the_answer_alone(tmp_path: Path, seed: int) -> None:
    """The text before an answer counts for its penalties and its least length, as without the option."""
    rng = random.Random(seed)
    write_decoder(tmp_path, list(DECODERS)[seed % len(DECODERS)], seed)
    model = reread(tmp_path, **rng.choice([{}, {"min_length": 20}, {"no_repeat_ngram_size": 2}]))
    card = card_of(tmp_path)
    generator = make_generator(card, 3)
    for _ in range(4):
        ids = [rng.choice(range(5)) for _ in range(rng.randint(1, MAX_INPUT))]
        options: dict[str, Any] = {"repetition_penalty": 1.4, "frequency_penalty": 0.3, "logit_bias": {7: 2.5}}
        want = expected_with(model, ids, MAX_OUTPUT, [13, 60], options)
        (made,) = generator.generate([ids], prompt_logprobs=2, max_tokens=MAX_OUTPUT, **options)
        assert made.token_ids == want
        check_prompt(prompt_logprobs(model, [], ids), ids, made.prompt_logprobs, 2)
        drawn = {"temperature": 1.3, "seed": rng.getrandbits(64), "max_tokens": MAX_OUTPUT}
        plain, scored = (generator.generate([ids], **drawn, **more)[0] for more in ({}, {"prompt_logprobs": 0}))
        assert plain.token_ids == scored.token_ids
    generator.close()


@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered")  # numpy's, interpreting
@pytest.mark.parametrize("operations", ["kernels", "torch", "fake gpu"])
def test_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operations: str) -> None:
    """Its kernels interpreted on the CPU in padded steps, the operations in their place, and captured steps."""
    rng = random.Random(operations)
    model = write_decoder(tmp_path, "qwen3", 7)
    prefix = random_ids(rng, 5)
    card = card_of(tmp_path, prefix_ids=tuple(prefix))
    if operations == "fake gpu":
        monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
        made = Generator(
            card, device="cuda", dtype="float32", max_running=4, max_step_tokens=MAX_INPUT + 8, kernels="torch"
        )
    else:
        kernels = own_operations() if operations == "kernels" else torch_operations()
        runner = PaddedDecoder.load(card, CudaDecodeOps(torch.float32, "cpu", kernels=kernels), 4, MAX_INPUT + 4)
        made = Generator(card, runner=runner, steps_in_flight=2)
    prompts = [random_ids(rng, 12) for _ in range(3)]
    want = [expected(model, [*prefix, *ids], 3) for ids in prompts]
    answers = made.generate(prompts, prompt_logprobs=3, max_tokens=3)
    assert [each.token_ids for each in answers] == want
    for ids, answer in zip(prompts, answers, strict=True):
        check_prompt(prompt_logprobs(model, prefix, ids), ids, answer.prompt_logprobs, 3)
    made.close()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    path = write_generator(tmp_path_factory.mktemp("prompts") / "tiny")
    return Engine(str(path), dtype="float32", max_input_tokens=64, max_output_tokens=32)


PROMPT = "The cat sat on the mat. She sells sea"


def test_the_prompt_alone(engine: Engine) -> None:
    for prompt in (PROMPT, "", [5]):
        (whole,) = engine.generate([prompt], prompt_logprobs=3)
        (alone,) = engine.generate([prompt], prompt_logprobs=3, max_tokens=0)
        assert alone.prompt_logprobs == whole.prompt_logprobs and alone.usage is not None
        assert (alone.text, alone.token_ids, alone.finish_reason, alone.usage.output_tokens) == ("", [], "length", 0)
        (chunk,) = engine.generate_stream(prompt, prompt_logprobs=3, max_tokens=0)
        assert (chunk.prompt_logprobs, chunk.token_ids, chunk.finish_reason) == (whole.prompt_logprobs, [], "length")


def test_it_comes_once(engine: Engine) -> None:
    """With the first of several choices, and with the first chunk."""
    asked: dict[str, Any] = {"prompt_logprobs": 1, "temperature": 1.5, "seed": 3, "max_tokens": 12}
    (one,) = engine.generate([PROMPT], **asked)
    for more in ({"n": 3}, {"n": 2, "best_of": 5}):
        (made,) = engine.generate([PROMPT], **asked, **more)
        assert made.prompt_logprobs == one.prompt_logprobs
        assert not any(each.prompt_logprobs for each in made.other_choices)
        plain = {name: value for name, value in asked.items() if name != "prompt_logprobs"}
        (without,) = engine.generate([PROMPT], **plain, **more)
        (ranked,) = engine.generate([PROMPT], logprobs=True, **plain, **more)
        tokens = [[e.token_ids for e in (each, *each.other_choices)] for each in (made, without, ranked)]
        assert tokens[0] == tokens[1] == tokens[2]
    chunks = list(engine.generate_stream(PROMPT, n=2, **asked))
    assert [(c.choice, c.prompt_logprobs) for c in chunks if c.prompt_logprobs] == [(0, one.prompt_logprobs)]
    first = next(c for c in chunks if c.choice == 0)
    assert first.prompt_logprobs and first.token_ids


def test_beside_a_structure_and_stop_strings(engine: Engine) -> None:
    (scored,) = engine.generate([PROMPT], prompt_logprobs=0)
    for options in ({"regex": "[ab]{9}(cat|dog)"}, {"stop": ["a"]}, {"json_object": True}):
        asked: dict[str, Any] = {"max_tokens": 20, "temperature": 1.2, "seed": 9, **options}
        plain, others = engine.generate([PROMPT], **asked)[0], engine.generate([PROMPT, "b", PROMPT], **asked)
        (made,) = engine.generate([PROMPT], prompt_logprobs=0, **asked)
        several = engine.generate([PROMPT, "b", PROMPT], prompt_logprobs=0, **asked)
        assert (made.text, made.token_ids, made.finish_reason) == (plain.text, plain.token_ids, plain.finish_reason)
        assert [each.token_ids for each in several] == [each.token_ids for each in others]
        assert made.prompt_logprobs == scored.prompt_logprobs == several[2].prompt_logprobs


def test_wrong_values_are_refused(engine: Engine) -> None:
    for options, why in (
        ({"prompt_logprobs": 21}, "prompt_logprobs 21 is out of range: 0 to 20"),
        ({"prompt_logprobs": -1}, "prompt_logprobs -1 is out of range"),
        ({"prompt_logprobs": 0, "choices": ["a"]}, "prompt_logprobs: is given beside choices"),
        ({"prompt_logprobs": 0, "max_tokens": 0, "n": 2}, "n 2 is out of range: 1 with max_tokens 0"),
        ({"max_tokens": 0}, "max_tokens 0 is out of range"),
    ):
        with pytest.raises(ValueError, match=why):
            engine.generate([PROMPT], **options)  # type: ignore[arg-type]
