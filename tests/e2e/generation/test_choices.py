"""Choices of a request: each as likely as transformers says, alone and in company, over every protocol."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as tr
from generators import write_generator
from posting import Poster
from serving import Server
from tokenizers import Tokenizer

import fastqps
from fastqps import errors
from fastqps.api.prediction import Generation

FLAGS = ("--device=cpu", "--dtype=float32", "--max-output-tokens=128", "--max-running=8", "--dispatchers=2")
WORDS = ("cat", "cats", "dog", "the", "The cat", "The dog sat", "sat on", "sat", "on the mat", "mat", "a", "yes", "no")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_generator(tmp_path_factory.mktemp("choices") / "tiny")
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    return folder


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server], checkpoint: Path) -> Server:
    return module_server(*FLAGS, f"--model={checkpoint}")


class Reference:
    """The log-probability of a text behind a prompt, by transformers, one choice at a time."""

    def __init__(self, checkpoint: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
        self._model = tr.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()

    def ids(self, text: str, special: bool = False) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=special).ids)

    def logprob(self, prompt: str, choice: str) -> float:
        before, own = self.ids(prompt, special=True), self.ids(choice)
        with torch.inference_mode():
            logits = self._model(torch.tensor([before + own])).logits[0].log_softmax(-1)
        return sum(float(logits[len(before) - 1 + i, id]) for i, id in enumerate(own))


@pytest.fixture(scope="module")
def reference(checkpoint: Path) -> Reference:
    return Reference(checkpoint)


def check(made: Generation, choices: list[str], wanted: list[float]) -> None:
    assert made.choice_scores is not None and len(made.choice_scores) == len(choices)
    total = sum(map(math.exp, wanted))
    for choice, logprob in zip(made.choice_scores, wanted, strict=True):
        assert choice.logprob == pytest.approx(logprob, abs=1e-4)
        assert choice.score == pytest.approx(math.exp(logprob) / total, abs=1e-4)
    assert made.finish_reason == "stop"


def test_scores_are_those_of_transformers(client: fastqps.Client, reference: Reference) -> None:
    """Random choices, many at a time beside texts that are generated."""
    chance = random.Random(5)
    asked = []
    for n in range(60):
        words = [" ".join(chance.choices(WORDS, k=chance.randint(1, 4))) for _ in range(1 + n % 24)]
        distinct = {tuple(reference.ids(word)): word for word in words}
        asked.append((f"The {chance.choice(WORDS)} {n}", list(distinct.values())))
    alone = [client.generate(f"The cat {i}", max_tokens=20).token_ids for i in range(20)]
    with ThreadPoolExecutor(24) as pool:
        others = [pool.submit(client.generate, f"The cat {i}", max_tokens=20) for i in range(20)]
        answers = list(pool.map(lambda item: client.generate(item[0], choices=item[1], logprobs=True), asked))
        assert [other.result().token_ids for other in others] == alone
    for (prompt, choices), made in zip(asked, answers, strict=True):
        wanted = [reference.logprob(prompt, choice) for choice in choices]
        check(made, choices, wanted)
        assert made.text == choices[wanted.index(max(wanted))]
        assert made.token_ids == reference.ids(made.text)
        assert made.logprobs is not None and sum(made.logprobs) == pytest.approx(max(wanted), abs=1e-4)
        assert made.usage is not None and made.usage.output_tokens == len(made.token_ids)


def test_a_temperature_draws_by_the_scores(client: fastqps.Client) -> None:
    choices = ["cat", "dog", "the mat"]
    made = [client.generate("The", choices=choices, temperature=1.0, seed=seed) for seed in range(600)]
    assert made[0].choice_scores is not None
    for choice, of in zip(choices, made[0].choice_scores, strict=True):
        assert sum(each.text == choice for each in made) / 600 == pytest.approx(of.score, abs=0.08)
    again = client.generate("The", choices=choices, temperature=1.0, seed=5)
    assert again.text == made[5].text


def test_every_way_to_ask(client: fastqps.Client, server: Server, post: Poster, reference: Reference) -> None:
    choices = ["cat", "cats", "The dog sat"]
    wanted = [reference.logprob("The", choice) for choice in choices]
    best = choices[wanted.index(max(wanted))]
    (chunk,) = client.generate_stream("The", choices=choices, stop=["c"])
    assert (chunk.text, chunk.finish_reason) == (best, "stop") and chunk.choice_scores

    async def ask() -> str:
        async with fastqps.AsyncClient(server.address) as aio:
            return (await aio.generate("The", choices=choices)).text

    assert asyncio.run(ask()) == best
    for field in ({"guided_choice": choices}, {"structured_outputs": {"choice": choices}}, {"choices": choices}):
        body = {"prompt": "The", "temperature": 0, "logprobs": 0, **field}
        (choice,) = post("/v1/completions", body)[1]["choices"]
        assert (choice["text"], choice["finish_reason"]) == (best, "stop")
        assert [each["text"] for each in choice["choice_scores"]] == choices
        for each, logprob in zip(choice["choice_scores"], wanted, strict=True):
            assert each["logprob"] == pytest.approx(logprob, abs=1e-4)
        assert "".join(choice["logprobs"]["tokens"]) == best
    stopped = {"prompt": "The", "temperature": 0, "logprobs": 2, "guided_choice": choices, "stop": [best[1]]}
    (choice,) = post("/v1/completions", stopped)[1]["choices"]
    assert choice["text"] == best and len(choice["logprobs"]["text_offset"]) == len(choice["logprobs"]["tokens"])
    messages = [{"role": "user", "content": "The"}]
    _, chat = post("/v1/chat/completions", {"messages": messages, "temperature": 0, "guided_choice": choices})
    assert chat["choices"][0]["message"]["content"] in choices


def test_wrong_choices_are_refused(client: fastqps.Client, post: Poster) -> None:
    for options, why in (
        ({"choices": ["a", "b", "a"]}, "texts 0 and 2 are the same tokens"),
        ({"choices": ["a", ""]}, "string 1 has 0 bytes"),
        ({"choices": ["a" * 257]}, "257 bytes"),
        ({"choices": [f"a{i}" for i in range(65)]}, "65 strings, at most 64"),
        ({"choices": ["a"], "regex": "a"}, "beside a structure"),
        ({"choices": ["q" * 250]}, "text 0 has .* tokens, must have 1 to 128"),
    ):
        with pytest.raises(errors.InvalidArgument, match=why):
            client.generate("The", **options)  # type: ignore[arg-type]
    status, refused = post("/v1/completions", {"prompt": "a", "guided_choice": ["a", 1]})
    assert status == 400 and "guided_choice" in str(refused)
    # Each answer would have the same scores, which are computed for each.
    for field in ("n", "best_of"):
        with pytest.raises(errors.InvalidArgument, match=f"generate.{field}: 2, at most 1 with choices: choice_scores"):
            client.generate("The", choices=["a", "b"], **{field: 2})  # type: ignore[arg-type]
        status, refused = post("/v1/completions", {"prompt": "a", "guided_choice": ["a", "b"], field: 2})
        assert (status, refused["error"]["param"]) == (400, field), refused
    with pytest.raises(errors.InvalidArgument, match="at most 1 with choices"):
        list(client.generate_stream("The", choices=["a", "b"], n=2))
    with pytest.raises(ValueError, match="choices: no text"):
        client.generate("The", choices=[])
    assert client.generate("The", choices=["a"]).text == "a"


def test_wrong_choices_of_a_long_text_harm_nobody(client: fastqps.Client) -> None:
    """Another thread would tokenize it, and must not write into a place that is the next request's."""
    alone = client.generate("The cat", max_tokens=8)

    def ask_wrongly() -> None:
        with pytest.raises(errors.InvalidArgument, match="same tokens"):
            client.generate("The mat sat on " * 700, choices=["a", "a"], truncate=True)

    with ThreadPoolExecutor(8) as pool:
        asked = [(pool.submit(ask_wrongly), pool.submit(client.generate, "The cat", max_tokens=8)) for _ in range(200)]
        for wrong, right in asked:
            wrong.result()
            assert (right.result().token_ids, right.result().usage) == (alone.token_ids, alone.usage)


def test_the_engine_answers_as_the_server(client: fastqps.Client, checkpoint: Path) -> None:
    engine = fastqps.Engine(str(checkpoint), dtype="float32", max_output_tokens=128)
    choices = ["cat", "cats", "The dog sat", "on the mat", "a", *(f"the {i}" for i in range(24))]
    prompts = ["The", "The cat sat on", "a dog"]
    asked: dict[str, Any] = {"choices": choices, "temperature": 0.7, "seed": 3, "logprobs": True}
    for prompt, made in zip(prompts, engine.generate(prompts, **asked), strict=True):
        (chunk,) = engine.generate_stream(prompt, **asked)
        assert (chunk.text, chunk.choice_scores) == (made.text, made.choice_scores)
        answer = client.generate(prompt, **asked)
        assert (made.text, made.token_ids, made.usage) == (answer.text, answer.token_ids, answer.usage)
        assert made.logprobs == answer.logprobs and made.choice_scores is not None and answer.choice_scores is not None
        for mine, its in zip(made.choice_scores, answer.choice_scores, strict=True):
            assert (mine.logprob, mine.score) == pytest.approx((its.logprob, its.score), rel=1e-6)
    with pytest.raises(ValueError, match="n 2 is out of range: 1 with choices"):
        engine.generate(prompts, choices=["a", "b"], n=2)
    for wrong in (["a", "a"], ["q" * 250], [f"{i}" for i in range(65)], []):
        with pytest.raises(ValueError, match="choices"):
            engine.generate(prompts, choices=wrong)
    with pytest.raises(ValueError, match="beside a structure"):
        engine.generate(prompts, choices=["a"], regex="a")
