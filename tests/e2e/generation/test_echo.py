"""Log-probabilities of prompts and echoes: those of transformers, over every protocol, alone and in company."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as tr
from generators import PROMPTS_TEXT, write_generator
from posting import Poster
from serving import Server
from tokenizers import Tokenizer
from upstream_state import edge_of

import fastqps
from fastqps import errors
from fastqps.api.prediction import PromptLogprobs

LIMITS = ("--max-input-tokens=200", "--max-output-tokens=64")
FLAGS = ("--device=cpu", "--dtype=float32", "--max-running=8", "--frontdoors=1", *LIMITS)
PREFIX = "Once upon a time, "
TEXT = "The cat sat on the mat. Zürich 東京 "
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_generator(tmp_path_factory.mktemp("prompts") / "tiny")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server], checkpoint: Path) -> Server:
    return module_server(*FLAGS, "--dispatchers=2", f"--model={checkpoint}")


@pytest.fixture
def client(server: Server) -> Iterator[fastqps.Client]:
    with fastqps.Client(server.address) as client:
        yield client


@pytest.fixture
def post(server: Server) -> Iterator[Poster]:
    post = Poster(server)
    yield post
    post.close()


class Reference:
    """The log-probabilities of a prompt's tokens, by transformers."""

    def __init__(self, checkpoint: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
        self._model = tr.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text).ids)

    def rows(self, ids: list[int], before: int = 0) -> torch.Tensor:
        with torch.inference_mode():
            logits: torch.Tensor = self._model(torch.tensor([ids])).logits[0, before:-1]
        return logits.log_softmax(-1)

    def check(self, found: PromptLogprobs | None, ids: list[int], top: int, prefix: list[int] | None = None) -> None:
        before = prefix or []
        assert found is not None and found.token_ids == ids
        rows = self.rows([*before, *ids], len(before))
        assert found.logprobs == pytest.approx(rows[range(len(ids) - 1), ids[1:]].tolist(), abs=1e-4)
        assert (found.top_logprobs is not None) == (top > 0)
        for each, row in zip(found.top_logprobs or [], rows, strict=False):
            assert [value for _, value in each] == pytest.approx(row.topk(top).values.tolist(), abs=1e-4)


@pytest.fixture(scope="module")
def reference(checkpoint: Path) -> Reference:
    return Reference(checkpoint)


def random_prompts(n: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return ["".join(chance.choices(PROMPTS_TEXT, k=6))[: chance.randint(1, 120)] for _ in range(n)]


def test_in_company(client: fastqps.Client, reference: Reference) -> None:
    """Many at a time, beside texts that are generated: the answers are as ever."""
    chance, prompts = random.Random(1), random_prompts(40, 1)
    asked = [
        {"max_tokens": chance.randint(1, 20), "temperature": chance.choice([0.0, 1.0]), "seed": 3, "stop": ["zz"]}
        for _ in prompts
    ]
    tops = [chance.choice([0, 1, 5, 20]) for _ in prompts]
    plain = [client.generate(p, **options) for p, options in zip(prompts, asked, strict=True)]  # type: ignore[arg-type]
    with ThreadPoolExecutor(24) as pool:
        jobs = [
            pool.submit(client.generate, p, prompt_logprobs=top, **o)
            for p, o, top in zip(prompts, asked, tops, strict=True)
        ]
        others = [pool.submit(client.generate, p, **options) for p, options in zip(prompts, asked, strict=True)]
        answers = [job.result() for job in jobs]
        assert [each.result().token_ids for each in others] == [each.token_ids for each in plain]
    for prompt, answer, top, wanted in zip(prompts, answers, tops, plain, strict=True):
        assert (answer.text, answer.token_ids, answer.usage) == (wanted.text, wanted.token_ids, wanted.usage)
        assert answer.logprobs is None and answer.top_logprobs is None
        reference.check(answer.prompt_logprobs, reference.ids(prompt), top)


def test_every_way_to_ask(client: fastqps.Client, server: Server, checkpoint: Path, reference: Reference) -> None:
    """As the engine answers; the first chunk of a stream has it, and the first of several choices."""
    engine = fastqps.Engine(str(checkpoint), dtype="float32", max_input_tokens=200, max_output_tokens=64)
    asked: dict[str, Any] = {"max_tokens": 9, "prompt_logprobs": 2, "top_logprobs": 1, "seed": 5, "temperature": 0.8}
    (wanted,) = engine.generate([TEXT], **asked)
    made = client.generate(TEXT, **asked)
    assert made == wanted
    reference.check(made.prompt_logprobs, reference.ids(TEXT), 2)
    chunks = list(client.generate_stream(TEXT, **asked))
    assert chunks[0].prompt_logprobs == wanted.prompt_logprobs and chunks[0].token_ids
    assert not any(chunk.prompt_logprobs for chunk in chunks[1:])
    assert [id for chunk in chunks for id in chunk.token_ids] == wanted.token_ids
    for more in ({"regex": "[ab]{5}(cat|dog)"}, {"logit_bias": {70: 5.0}, "repetition_penalty": 1.3}):
        both: Any = {**asked, "max_tokens": 20, **more}
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda _, both=both: client.generate(TEXT, **both), range(12)))
        assert answers == engine.generate([TEXT], **both) * 12
    best = client.generate(TEXT, n=2, best_of=4, **asked)
    assert best == engine.generate([TEXT], n=2, best_of=4, **asked)[0] and best.other_choices[0].prompt_logprobs is None
    alone = client.generate(TEXT, prompt_logprobs=2, max_tokens=0)
    assert alone == engine.generate([TEXT], prompt_logprobs=2, max_tokens=0)[0]
    assert alone.usage is not None and (alone.token_ids, alone.usage.output_tokens) == ([], 0)
    (chunk,) = client.generate_stream(TEXT, prompt_logprobs=2, max_tokens=0)
    assert (chunk.prompt_logprobs, chunk.finish_reason) == (wanted.prompt_logprobs, "length")
    short = client.generate([7], prompt_logprobs=0, max_tokens=0)
    assert short.prompt_logprobs == PromptLogprobs([7], [])
    for prompt, scored, top, most in itertools.product(([7], [5, 6, 7]), (0, 2), (0, 2), (0, 1, 3)):
        few: Any = {"prompt_logprobs": scored, "top_logprobs": top, "logprobs": True, "max_tokens": most}
        whole = client.generate(prompt, **few)
        assert whole == engine.generate([prompt], **few)[0], few
        first, mine = next(iter(client.generate_stream(prompt, **few))), next(engine.generate_stream(prompt, **few))
        assert first.prompt_logprobs == mine.prompt_logprobs == whole.prompt_logprobs
        if not most:
            assert first == mine

    async def ask() -> Any:
        async with fastqps.AsyncClient(server.address) as aio:
            return await aio.generate(TEXT, **asked)

    assert asyncio.run(ask()) == wanted
    found = list(client.predict_batch([TEXT, [5, 6, 7]], max_tokens=2, prompt_logprobs=0))
    assert [each.generation.prompt_logprobs.token_ids for each in found] == [reference.ids(TEXT), [5, 6, 7]]


def test_an_echo(post: Poster, reference: Reference) -> None:
    """The text begins with the prompt; the lists have its tokens first."""
    ids = reference.ids(TEXT)
    plain = post.found("/v1/completions", prompt=TEXT, max_tokens=8, temperature=0, logprobs=2)
    found = post.found("/v1/completions", prompt=TEXT, max_tokens=8, temperature=0, logprobs=2, echo=True)
    (choice,), (without,) = found["choices"], plain["choices"]
    assert choice["text"] == TEXT + without["text"] and found["usage"] == plain["usage"]
    given, made = choice["logprobs"], without["logprobs"]
    assert {len(values) for values in given.values()} == {len(ids) + len(made["tokens"])}
    assert given["token_logprobs"][0] is None and given["top_logprobs"][0] is None
    rows = reference.rows(ids)
    wanted = rows[range(len(ids) - 1), ids[1:]].tolist()
    assert given["token_logprobs"][1 : len(ids)] == pytest.approx(wanted, abs=1e-4)
    assert given["token_logprobs"][len(ids) :] == pytest.approx(made["token_logprobs"], abs=1e-5)
    for likely, row in zip(given["top_logprobs"][1 : len(ids)], rows, strict=True):
        assert max(likely.values()) == pytest.approx(float(row.max()), abs=1e-4)
    assert given["tokens"][0] == "<bos>" and given["tokens"][len(ids) :] == made["tokens"]
    assert given["text_offset"][len(ids) :] == [len(TEXT) + at for at in made["text_offset"]]
    for token, at in zip(given["tokens"][: len(ids)], given["text_offset"], strict=False):
        if not token.startswith(("bytes:", "<bos>")):
            assert choice["text"][at:].startswith(token), (token, at)
    # Without log-probabilities, of token ids, and alone.
    assert post.found("/v1/completions", prompt=TEXT, max_tokens=8, temperature=0, echo=True)["choices"] == [
        {**choice, "logprobs": None}
    ]
    decoded = reference.tokenizer.decode(ids)
    of_ids = post.found("/v1/completions", prompt=ids, max_tokens=8, temperature=0, logprobs=2, echo=True)
    assert of_ids["choices"] == found["choices"] and decoded == TEXT
    alone = post.found("/v1/completions", prompt=TEXT, max_tokens=0, logprobs=2, echo=True)
    assert alone["choices"][0]["text"] == TEXT and alone["usage"]["completion_tokens"] == 0
    assert alone["choices"][0]["logprobs"] == {name: values[: len(ids)] for name, values in given.items()}
    bare = post.found("/v1/completions", prompt=[*ids[:-1]], max_tokens=0, echo=True)["choices"][0]
    assert (bare["text"], bare["logprobs"], bare["finish_reason"]) == (decoded.rstrip(" "), None, "length")


def events(post: Poster, **body: Any) -> list[Any]:
    response, content = post.send("POST", "/v1/completions", json.dumps({**body, "stream": True}).encode())
    assert response.status == 200, content
    lines = content.decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def joined(choices: list[Any]) -> dict[str, Any]:
    scored = [each["logprobs"] for each in choices if each["logprobs"]]
    names = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    lists = {name: [value for each in scored for value in each[name]] for name in names}
    return {"text": "".join(each["text"] for each in choices), **lists}


def test_echoes_of_streams_and_of_several_prompts(post: Poster, reference: Reference) -> None:
    asked: dict[str, Any] = {"max_tokens": 6, "temperature": 0.9, "seed": 4, "logprobs": 1, "echo": True, "n": 2}
    prompts = [reference.ids(text) for text in ("The cat", TEXT, "sea")]
    whole = post.found("/v1/completions", prompt=prompts, **asked)["choices"]
    assert [each["index"] for each in whole] == list(range(6))
    for index, choice in enumerate(whole):
        ids = prompts[index // 2]
        assert choice["text"].startswith(reference.tokenizer.decode(ids))
        assert (
            choice["logprobs"]["token_logprobs"][: len(ids)]
            == whole[index // 2 * 2]["logprobs"]["token_logprobs"][: len(ids)]
        )
        assert choice["logprobs"]["text_offset"] == sorted(choice["logprobs"]["text_offset"])
    found = events(post, prompt=prompts, **asked)
    for index, choice in enumerate(whole):
        parts = [each["choices"][0] for each in found if each["choices"][0]["index"] == index]
        streamed, wanted = joined(parts), joined([choice])
        assert streamed["text"] == wanted["text"] and streamed["tokens"] == wanted["tokens"]
        assert streamed["token_logprobs"][1:] == pytest.approx(wanted["token_logprobs"][1:], abs=1e-5)
        assert streamed["text_offset"] == wanted["text_offset"]
        assert parts[0]["text"].startswith(reference.tokenizer.decode(prompts[index // 2]))
    (event,) = events(post, prompt="The cat", max_tokens=0, echo=True)
    assert (event["choices"][0]["text"], event["choices"][0]["finish_reason"]) == ("The cat", "length")
    best = post.found("/v1/completions", prompt="The cat", **{**asked, "best_of": 4})["choices"]
    assert all(each["text"].startswith("The cat") and each["logprobs"]["token_logprobs"][0] is None for each in best)
    cut = post.found("/v1/completions", prompt=TEXT * 40, truncate=True, max_tokens=0, echo=True)
    assert cut["choices"][0]["text"] and (TEXT * 40).endswith(cut["choices"][0]["text"]), "what is left is repeated"
    assert cut["usage"]["prompt_tokens"] == 200


def vllm_form(post: Poster, ids: list[int], found: list[Any], rows: torch.Tensor, top: int) -> None:
    assert found[0] is None and len(found) == len(ids)
    for own, each, row in zip(ids[1:], found[1:], rows, strict=True):
        assert next(iter(each)) == str(own) and top <= len(each) <= top + 1
        for id, said in each.items():
            assert said["logprob"] == pytest.approx(float(row[int(id)]), abs=1e-4)
            assert said["rank"] in (None, 1 + int((row > row[int(id)] + 1e-6).sum()))
            assert isinstance(said["decoded_token"], str)


def test_vllms_form(post: Poster, reference: Reference) -> None:
    ids = reference.ids(TEXT)
    found = post.found("/v1/completions", prompt=TEXT, max_tokens=2, prompt_logprobs=3)["choices"][0]
    vllm_form(post, ids, found["prompt_logprobs"], reference.rows(ids), 3)
    assert found["logprobs"] is None and not found["text"].startswith("The")
    both = post.found("/v1/completions", prompt=ids, max_tokens=0, prompt_logprobs=0, echo=True, logprobs=5)
    vllm_form(post, ids, both["choices"][0]["prompt_logprobs"], reference.rows(ids), 0)
    assert {len(each) for each in both["choices"][0]["logprobs"]["top_logprobs"][1:]} <= {4, 5, 6}
    messages = [{"role": "user", "content": TEXT}]
    chat = post.found("/v1/chat/completions", messages=messages, max_tokens=2, prompt_logprobs=1)
    ids = list(reference.tokenizer.encode(f"user: {TEXT}\n", add_special_tokens=False).ids)
    vllm_form(post, ids, chat["prompt_logprobs"], reference.rows(ids), 1)
    for path, body in (("/v1/completions", {"prompt": TEXT}), ("/v1/chat/completions", {"messages": messages})):
        assert "prompt_logprobs" not in json.dumps(post.found(path, max_tokens=2, **body))


def test_behind_a_prefix(serve: Callable[..., Server], checkpoint: Path, reference: Reference, tmp_path: Path) -> None:
    (tmp_path / "prefix.txt").write_text(PREFIX)
    server = serve(*FLAGS, f"--model={checkpoint}", f"--prefix={tmp_path / 'prefix.txt'}")
    prefix, ids = reference.ids(PREFIX), reference.ids(TEXT)[1:]
    with fastqps.Client(server.address) as client:
        reference.check(client.generate(ids, prompt_logprobs=2).prompt_logprobs, ids, 2, prefix)
    post = Poster(server)
    found = post.found("/v1/completions", prompt=ids, max_tokens=0, logprobs=1, echo=True)
    wanted = reference.rows([*prefix, *ids], len(prefix))[range(len(ids) - 1), ids[1:]].tolist()
    assert found["choices"][0]["text"] == TEXT
    assert found["choices"][0]["logprobs"]["token_logprobs"][1:] == pytest.approx(wanted, abs=1e-4)
    assert found["usage"]["prompt_tokens"] == len(prefix) + len(ids)
    post.close()


def test_through_an_edge(serve: Callable[..., Server], checkpoint: Path, reference: Reference) -> None:
    """Whole and streamed, with stop strings and alone, as without the edge."""
    behind = serve(*FLAGS, f"--model={checkpoint}")
    edge = edge_of(serve, [behind.address], *LIMITS, f"--model={checkpoint}")
    body: dict[str, Any] = {"prompt": reference.ids(TEXT), "max_tokens": 9, "temperature": 0, "echo": True}
    with fastqps.Client(edge.address) as client, fastqps.Client(behind.address) as direct:
        for options in (
            {"prompt_logprobs": 3, "top_logprobs": 1},
            {"prompt_logprobs": 0, "stop": ["a", "e"]},
            {"prompt_logprobs": 2, "max_tokens": 0},
            {"prompt_logprobs": 20, "max_tokens": 40},
        ):
            wanted: Any = direct.generate(TEXT, **options)  # type: ignore[arg-type]
            assert client.generate(TEXT, **options) == wanted  # type: ignore[arg-type]
            chunks: list[Any] = list(client.generate_stream(TEXT, **options))  # type: ignore[arg-type]
            assert chunks[0].prompt_logprobs == wanted.prompt_logprobs
            assert [id for chunk in chunks for id in chunk.token_ids] == wanted.token_ids
    one, other = Poster(edge), Poster(behind)
    for more in ({"logprobs": 2}, {}, {"logprobs": 0, "max_tokens": 0}):
        assert (
            one.found("/v1/completions", **(body | more))["choices"]
            == other.found("/v1/completions", **(body | more))["choices"]
        )
    one.close(), other.close()


def test_wrong_requests_are_refused_by_name(client: fastqps.Client, post: Poster) -> None:
    for options, why in (
        ({"prompt_logprobs": 21}, "generate.prompt_logprobs: 21, must be at most 20"),
        ({"prompt_logprobs": 0, "choices": ["a"]}, "generate.prompt_logprobs: is given beside choices"),
        ({"prompt_logprobs": 0, "max_tokens": 0, "n": 2}, "generate.n: 2, at most 1 with max_tokens 0"),
    ):
        with pytest.raises(errors.InvalidArgument, match=why):
            client.generate(TEXT, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_tokens: 0, must be at least 1 without prompt_logprobs"):
        client.generate(TEXT, max_tokens=0)
    for body, name in (
        ({"prompt_logprobs": -1}, "prompt_logprobs"),
        ({"prompt_logprobs": 3, "stream": True}, "prompt_logprobs"),
        ({"echo": "yes"}, "echo"),
        ({"max_tokens": 0}, "max_tokens"),
    ):
        status, refused = post("/v1/completions", {"prompt": TEXT, **body})
        assert (status, refused["error"]["param"]) == (400, name), refused
    assert refused["error"]["message"] == "max_tokens: 0, must be at least 1 without echo or prompt_logprobs"
    messages = [{"role": "user", "content": "a"}]
    status, refused = post("/v1/chat/completions", {"messages": messages, "echo": True})
    assert (status, refused["error"]["param"]) == (400, "echo")
    assert client.generate(TEXT, max_tokens=1).token_ids


def test_an_answer_that_is_too_large(post: Poster) -> None:
    """It is refused in words. The server could not hold it for a client that reads slowly."""
    ids = [2 + i % 380 for i in range(200)]
    asked = {"n": 128, "max_tokens": 1, "temperature": 0}
    for more in ({"prompt_logprobs": 20}, {"echo": True, "logprobs": 20}):
        status, answer = post("/v1/completions", prompt=[ids] * 16, **asked, **more)
        assert status == 400 and "MiB, at most 128; ask for fewer choices" in answer["error"]["message"], answer
    assert len(post.found("/v1/completions", **{**asked, "n": 32}, prompt=ids, prompt_logprobs=20)["choices"]) == 32
