"""OpenAI's API over HTTP: every answer against this server's own ``Predict``."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from apis import Api

import fastqps
from fastqps.models import load_card

GRAMMAR = load_card("grammar")
TEXTS = ["A man is eating food.", 'Zürich, "東京"\n\t', "x"]
MINILM_IDS = [101, 7592, 102]


def embeddings(api: Api, **body: Any) -> list[np.ndarray]:
    status, found = api.post("/v1/embeddings", body)
    assert status == 200, found
    assert [each["index"] for each in found["data"]] == list(range(len(found["data"])))
    assert found["usage"]["prompt_tokens"] == found["usage"]["total_tokens"] > 0
    vectors = (each["embedding"] for each in found["data"])
    return [
        np.frombuffer(base64.b64decode(vector), np.float32) if isinstance(vector, str) else np.array(vector, np.float32)
        for vector in vectors
    ]


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_embeddings_are_those_of_predict_bit_by_bit(api: Api, encoding: str) -> None:
    for text in TEXTS:
        found = embeddings(api, model="minilm", input=text, encoding_format=encoding)
        assert len(found) == 1 and np.array_equal(found[0], api.client.predict(text).embedding)
    body = {"model": "minilm", "input": TEXTS[0]}
    assert api.post("/embeddings", body) == api.post("/v1/embeddings", body)


def test_every_form_of_input(api: Api) -> None:
    expected = [api.client.predict(text).embedding for text in TEXTS]
    for found, vector in zip(embeddings(api, input=TEXTS), expected, strict=True):
        assert np.abs(found - vector).max() <= 1e-5
    by_ids = api.client.predict(MINILM_IDS).embedding
    assert np.array_equal(embeddings(api, input=MINILM_IDS)[0], by_ids)
    for found in embeddings(api, input=[MINILM_IDS, MINILM_IDS]):
        assert np.abs(found - by_ids).max() <= 1e-5


def test_options_of_embeddings(api: Api) -> None:
    found = embeddings(api, input="text", dimensions=64, normalize=False, priority="high", timeout=20)
    assert np.array_equal(found[0], api.client.predict("text", dimensions=64, normalize=False).embedding)


IGNORED = {
    "service_tier": "auto",
    "metadata": {"a": "b"},
    "store": False,
    "safety_identifier": "u",
    "prompt_cache_key": "k",
}


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/embeddings", {"model": "minilm", "input": "a"}),
        ("/v1/completions", {"model": "grammar", "prompt": "a", "max_tokens": 1}),
        ("/v1/completions", {"model": "grammar", "prompt": "a", "max_tokens": 1, "stream": True}),
    ],
)
def test_fields_that_change_nothing_are_named(api: Api, path: str, fields: dict[str, Any]) -> None:
    for given in (IGNORED, {"store": True, "metadata": None}, {}):
        response, _ = api.post.send("POST", path, json.dumps({**fields, **given}).encode())
        named = ", ".join(name for name, value in given.items() if value is not None)
        assert (response.status, response.getheader("fastqps-ignored", "")) == (200, named)


def test_completions(api: Api) -> None:
    prompts = ["She have a apple.", "I has two dog."]
    expected = [api.client.generate(prompt, model="grammar", max_tokens=16) for prompt in prompts]
    body = {"model": "grammar", "prompt": prompts, "temperature": 0, "logprobs": 1}
    status, found = api.post("/v1/completions", body)
    assert status == 200 and found["object"] == "text_completion" and found["id"].startswith("cmpl-"), found
    for choice, answer in zip(found["choices"], expected, strict=True):
        assert (choice["text"], choice["finish_reason"]) == (answer.text, "stop")
        assert "".join(choice["logprobs"]["tokens"]) == f"{answer.text}</s>"
        assert len(choice["logprobs"]["tokens"]) == len(answer.token_ids)
        assert max(choice["logprobs"]["token_logprobs"]) <= 0
    assert found["usage"]["completion_tokens"] == sum(len(answer.token_ids) for answer in expected)
    status, found = api.post("/v1/completions", {**body, "prompt": prompts[0], "stop": " an"})
    assert found["choices"][0]["text"] == "She has"
    status, found = api.post("/v1/completions", {**body, "prompt": prompts[0], "max_tokens": 2})
    assert found["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("stream", [False, True])
def test_likeliest_tokens_of_completions(api: Api, stream: bool) -> None:
    """Maps by the tokens' texts, of which the chosen one is one."""
    prompt, options = "She have a apple.", {"max_tokens": 8, "temperature": 1.5, "seed": 3, "ignore_eos": True}
    expected = api.client.generate(prompt, model="grammar", top_logprobs=4, **options)
    asked = {"model": "grammar", "prompt": prompt, "logprobs": 4, "stream": stream, **options}
    response, content = api.post.send("POST", "/v1/completions", json.dumps(asked).encode())
    assert response.status == 200, content
    events = [event.removeprefix("data: ") for event in content.decode().split("\n\n")[:-2]]
    choices = [json.loads(part)["choices"][0] for part in (events if stream else [content])]
    lists = [choice["logprobs"] for choice in choices if choice["logprobs"]]
    tokens, logprobs, top, offsets = (
        [each for one in lists for each in one[name]]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    )
    text = "".join(choice["text"] for choice in choices)
    assert text == expected.text and expected.top_logprobs
    np.testing.assert_allclose(logprobs, expected.logprobs, rtol=1e-6)
    for likely, wanted, token, logprob in zip(top, expected.top_logprobs, tokens, logprobs, strict=True):
        assert list(likely.values())[:4] == pytest.approx([p for _, p in wanted], rel=1e-6)
        assert likely[token] == logprob and len(likely) in (4, 5)
    assert offsets[0] == 0 and len(offsets) == len(tokens) == 8
    for token, offset in zip(tokens, offsets, strict=True):
        assert text[offset:].startswith(token) or token.startswith(("<", "bytes:")), (text, token, offset)


def test_max_tokens_above_the_limit_is_lowered(api: Api) -> None:
    """To the model's limit, for clients that send their own default; what no prompt leaves room for is an error."""
    limit = GRAMMAR.max_output_tokens
    most = GRAMMAR.max_input_tokens + limit
    body = {"model": "grammar", "prompt": "She have a apple.", "temperature": 0, "ignore_eos": True}
    for asked in (limit, limit + 1, most):
        status, found = api.post("/v1/completions", {**body, "max_tokens": asked})
        assert status == 200, found
        assert (found["choices"][0]["finish_reason"], found["usage"]["completion_tokens"]) == ("length", limit)
    status, found = api.post("/v1/completions", {**body, "max_tokens": most + 1})
    assert (status, found["error"]["message"]) == (400, f"max_tokens: {most + 1}, at most {most}")
    with pytest.raises(fastqps.InvalidArgument, match=f"max_tokens: {limit + 1}, at most {limit}"):
        api.client.generate(body["prompt"], model="grammar", max_tokens=limit + 1)


def test_special_tokens_and_ids_stop_in_every_protocol(api: Api) -> None:
    """A special token has no text in which a stop string could be found, so its id stops."""
    prompt, options = "She have a apple.", {"max_tokens": 16, "ignore_eos": True}
    whole = api.client.generate(prompt, model="grammar", **options)
    assert whole.finish_reason == "length" and 1 in whole.token_ids[:-1]
    ended = whole.token_ids[: whole.token_ids.index(1) + 1]
    text = {"name": "text", "datatype": "BYTES", "shape": [1], "data": [prompt]}
    for stops in ({"stop": "</s>"}, {"stop_token_ids": [1]}, {"stop": ["x", "</s>"], "stop_token_ids": [1]}):
        for found in (
            api.client.generate(prompt, model="grammar", **options, **stops),
            *engine(prompt, options | stops),
        ):
            assert (found.token_ids, found.finish_reason) == (ended, "stop")
        body = {"model": "grammar", "prompt": prompt, "temperature": 0, **options, **stops}
        status, answered = api.post("/v1/completions", body)
        assert status == 200 and answered["choices"][0]["text"] == found.text
        assert answered["usage"]["completion_tokens"] == len(ended)
    for stops in ({"stop": "</s>"}, {"stop_token_ids": 1}, {"stop_token_ids": "7,1"}):
        body = {"inputs": [text], "parameters": {**options, **stops}}
        status, answered = api.post("/v2/models/grammar/infer", body)
        assert status == 200 and answered["outputs"][0]["data"] == [found.text]
    too_many = {"stop": "</s>", "stop_token_ids": [*range(3, 11)]}
    with pytest.raises(fastqps.InvalidArgument, match="stop: 1 of the strings are special tokens, at most 0 beside 8"):
        api.client.generate(prompt, model="grammar", **too_many)
    with pytest.raises(ValueError, match="stop_token_ids"):
        engine(prompt, too_many)


def test_special_tokens_around_a_text(api: Api) -> None:
    """<s> stands in front of every text and <sep> behind it; a text that begins with <s> has it once."""
    text = "She have a apple."
    plain = api.client.generate(text, model="grammar", max_tokens=9)
    assert plain.usage
    n = plain.usage.input_tokens
    for prompt, options, tokens in (
        (f"<s>{text}", {}, n),
        (f"<s>{text}<sep>", {"add_special_tokens": False}, n),
        (text, {"add_special_tokens": False}, n - 2),
        (f"<s><s>{text}", {"add_special_tokens": True}, n + 1),
        (f"{text}<s>", {}, n + 1),
    ):
        found = api.client.generate(prompt, model="grammar", max_tokens=9, **options)
        (here,) = engine(prompt, {"max_tokens": 9, **options})
        assert found.usage and here.usage
        assert (found.usage.input_tokens, here.usage.input_tokens) == (tokens, tokens), prompt
        assert found.token_ids == here.token_ids
        assert tokens != n or found.token_ids == plain.token_ids
        body = {"model": "grammar", "prompt": prompt, "temperature": 0, "max_tokens": 9, **options}
        status, answered = api.post("/v1/completions", body)
        assert status == 200 and answered["usage"]["prompt_tokens"] == tokens
        data = {"name": "text", "datatype": "BYTES", "shape": [1], "data": [prompt]}
        infer = {"inputs": [data], "parameters": {"max_tokens": 9, **options}}
        status, answered = api.post("/v2/models/grammar/infer", infer)
        assert status == 200 and answered["outputs"][0]["data"] == [found.text]
    whole = "word " * 3000  # another thread's; what is kept is the end, which the text's own <s> is not in
    cut = [api.client.generate(begin + whole, model="grammar", max_tokens=9, truncate=True) for begin in ("<s>", "")]
    assert cut[0].usage and cut[0].usage.truncated and cut[0].usage == cut[1].usage
    assert cut[0].token_ids == cut[1].token_ids
    with pytest.raises(fastqps.InvalidArgument, match="text: 0 tokens, at least 1"):
        api.client.generate("", model="grammar", add_special_tokens=False)


def engine(prompt: str, options: dict[str, Any]) -> list[fastqps.Generation]:
    return fastqps.Engine("grammar", dtype="float32").generate([prompt], **options)  # type: ignore[arg-type]


def test_choices_are_those_of_requests_with_their_own_seeds(api: Api) -> None:
    """A prompt's tokens count once."""
    body = {"model": "grammar", "temperature": 8, "min_p": 0.01, "presence_penalty": 0.2, "max_tokens": 6}
    prompts = ["She have a apple.", "I has two dog."]
    found = api.post.found("/v1/completions", **body, prompt=prompts, n=3, seed=7)
    assert [choice["index"] for choice in found["choices"]] == list(range(6))
    alone = [
        api.post.found("/v1/completions", **body, prompt=prompt, seed=7 + i) for prompt in prompts for i in range(3)
    ]
    texts = [each["choices"][0]["text"] for each in alone]
    assert [choice["text"] for choice in found["choices"]] == texts and len(set(texts)) > 2
    assert found["usage"]["prompt_tokens"] == sum(each["usage"]["prompt_tokens"] for each in alone[::3])
    assert found["usage"]["completion_tokens"] == sum(each["usage"]["completion_tokens"] for each in alone)
    drawn = api.post.found("/v1/completions", **body, prompt=prompts[0], n=4)
    assert len({choice["text"] for choice in drawn["choices"]}) > 1


def test_streamed_choices_of_several_prompts(api: Api) -> None:
    """Each choice's events are those of its text, and all end together."""
    body = {"model": "grammar", "temperature": 8, "min_p": 0.01, "max_tokens": 6, "n": 2, "seed": 7}
    body["prompt"] = ["She have a apple.", "I has two dog."]
    whole = api.post.found("/v1/completions", **body)
    chunks = events(api, "/v1/completions", {**body, "stream_options": {"include_usage": True}})
    texts, ends = [""] * 4, [0] * 4
    for chunk in chunks[:-1]:
        (choice,) = chunk["choices"]
        texts[choice["index"]] += choice["text"]
        ends[choice["index"]] += choice["finish_reason"] is not None
    assert (texts, ends) == ([choice["text"] for choice in whole["choices"]], [1] * 4)
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"] == whole["usage"]


def test_the_best_of_many(api: Api) -> None:
    """They are choices of one of the same seed, whose mean log-probability is the highest; all count as made."""
    body = {"model": "grammar", "prompt": "She have a apple.", "temperature": 8, "min_p": 0.01, "max_tokens": 6}
    body |= {"seed": 7, "logprobs": 1}

    def mean(choice: dict[str, Any]) -> float:
        found: list[float] = choice["logprobs"]["token_logprobs"]
        return sum(found) / len(found)

    every = api.post.found("/v1/completions", **body, n=5)
    found = api.post.found("/v1/completions", **body, n=2, best_of=5)
    best = sorted(every["choices"], key=mean, reverse=True)[:2]
    assert [choice["text"] for choice in found["choices"]] == [choice["text"] for choice in best]
    assert found["usage"] == every["usage"]
    here = fastqps.Engine("grammar", dtype="float32").generate(
        [str(body["prompt"])], temperature=8, min_p=0.01, max_tokens=6, seed=7, n=2, best_of=5
    )[0]
    there = api.client.generate(
        str(body["prompt"]), model="grammar", temperature=8, min_p=0.01, max_tokens=6, seed=7, n=2, best_of=5
    )
    for made in (here, there):
        assert [made.text, *(each.text for each in made.other_choices)] == [choice["text"] for choice in best]
        assert made.logprobs is None and made.usage
        assert made.usage.output_tokens == every["usage"]["completion_tokens"]


def test_choices_in_python(api: Api) -> None:
    asked: Any = {"temperature": 8, "min_p": 0.01, "max_tokens": 6, "seed": 7, "n": 3}
    engine = fastqps.Engine("grammar", dtype="float32")
    (here,) = engine.generate(["She have a apple."], **asked)
    there = api.client.generate("She have a apple.", model="grammar", **asked)
    assert here == there and len(there.other_choices) == 2
    wanted = [there.token_ids, *(each.token_ids for each in there.other_choices)]
    for chunks in (
        engine.generate_stream("She have a apple.", **asked),
        api.client.generate_stream("She have a apple.", model="grammar", **asked),
    ):
        ids: list[list[int]] = [[], [], []]
        for chunk in chunks:
            ids[chunk.choice] += chunk.token_ids
        assert ids == wanted
    with pytest.raises(ValueError, match="best_of 2 is out of range: at least n, 3"):
        engine.generate(["a"], n=3, best_of=2)
    with pytest.raises(ValueError, match="best_of 2 is out of range: n, 1, of a stream"):
        next(engine.generate_stream("a", best_of=2))
    (failed,) = api.client.predict_batch(["a"], model="grammar", n=2)
    assert isinstance(failed, fastqps.PredictionError) and "at most 1 for an item" in failed.error.message


def events(api: Api, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of a stream, without its end."""
    response, content = api.post.send("POST", path, json.dumps({**body, "stream": True}).encode())
    assert response.status == 200
    found = content.decode().split("\n\n")
    assert found[-2:] == ["data: [DONE]", ""]
    return [json.loads(event.removeprefix("data: ")) for event in found[:-2]]


NEUTRAL: dict[str, Any] = {
    "min_p": 0, "top_k": -1, "stop_token_ids": [], "skip_special_tokens": True, "spaces_between_special_tokens": True,
    "include_stop_str_in_output": False, "length_penalty": 1.0, "use_beam_search": False, "early_stopping": False,
    "seed": -1, "repetition_penalty": 1.0, "logit_bias": {}, "stop": [], "min_tokens": 0,
}  # fmt: skip


def test_neutral_values_change_nothing(api: Api) -> None:
    """What clients of vLLM send although it is the default."""
    body = {"model": "grammar", "prompt": "She have a apple.", "temperature": 0}
    plain = api.post("/v1/completions", body)[1]["choices"]
    for field, value in NEUTRAL.items():
        status, found = api.post("/v1/completions", {**body, field: value})
        assert status == 200, found
        assert found["choices"] == plain, field
    assert api.post("/v1/completions", {**body, **NEUTRAL, "seed": 1 << 63})[1]["choices"] == plain


def test_a_stop_string_can_be_kept(api: Api) -> None:
    body = {"model": "grammar", "prompt": "She have a apple.", "temperature": 0}
    text = api.post.found("/v1/completions", **body)["choices"][0]["text"]
    stop = text[3:6]
    end = text.index(stop)
    for keeps, want in ((False, text[:end]), (True, text[: end + len(stop)])):
        found = api.post.found("/v1/completions", **body, stop=[stop], include_stop_str_in_output=keeps)["choices"][0]
        assert (found["text"], found["finish_reason"]) == (want, "stop")


WRONG: dict[str, Any] = {
    "seed": 1 << 64, "max_tokens": -(1 << 64), "temperature": -1, "top_p": 2, "top_k": -2, "n": 0, "logprobs": 21,
    "best_of": 129, "stop": 1, "stream": 1, "min_tokens": 1000, "skip_special_tokens": False, "min_p": 1.5,
    "logit_bias": {"5": 101}, "user": 1, "model": 1, "no_such_field": 1, "priority": 1, "timeout": -1,
    "stop_token_ids": ["a"], "prompt": {},
    "repetition_penalty": 0, "no_repeat_ngram_size": 65, "suppress_token_ids": [1 << 31], "dimensions": 7,
    "normalize": True, "raw_scores": True, "prompt_name": "none", "stream_options": {"x": 1}, "tenant": "x" * 257,
}  # fmt: skip


@pytest.mark.parametrize("field", WRONG)
def test_every_wrong_field_is_named(api: Api, field: str) -> None:
    body = {"model": "grammar", "prompt": "a", field: WRONG[field]}
    status, found = api.post("/v1/completions", body)
    assert (status, found["error"]["param"]) == (400, field), found
    assert found["error"]["message"].startswith(f"{field}: "), found


def test_a_streamed_completion(api: Api) -> None:
    body = {"model": "grammar", "prompt": "He go to school every day.", "temperature": 0, "stream": True}
    asked = json.dumps({**body, "stream_options": {"include_usage": True}}).encode()
    response, content = api.post.send("POST", "/v1/completions", asked)
    assert response.status == 200 and response.getheader("content-type") == "text/event-stream"
    events = content.decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""] and all(event.startswith("data: ") for event in events[:-1])
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    expected = api.client.generate(body["prompt"], model="grammar", max_tokens=16)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks[:-1]) == expected.text
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == len(expected.token_ids)
    assert len({chunk["id"] for chunk in chunks}) == 1 and not any("usage" in chunk for chunk in chunks[:-1])
    assert api.post("/v1/embeddings", {"input": "the connection goes on"})[0] == 200


# What only the server knows. csrc/tests/json has the rest.
REFUSED = {
    "model": ({"model": "none", "input": "a"}, 404, "model", "model: 'none' is not served here"),
    "json": (b'{"input":', 400, None, "the body is not valid JSON"),
    "too long": ({"input": ["a", "b " * 300]}, 400, "input",
                 "cut; this model's maximum context length is 256 tokens (item 1)"),
    "surrogate": (b'{"input":["a","\\ud800"]}', 400, None, "valid JSON: input[1] holds half of a surrogate pair"),
    "large id": ({"input": [40_000]}, 400, "input", "input: id 40000, the vocabulary has 30522"),
    "empty ids": ({"input": [[5], []]}, 400, "input", "input: 0 ids, at least 1"),
    "dimensions": ({"input": "a", "dimensions": 385}, 400, "dimensions", "dimensions: 385, at most 384"),
    "unknown": ({"input": "a", "dimension": 1}, 400, "dimension", "dimension: is not a field of this request"),
    "task": ({"model": "grammar", "input": "a"}, 400, "model", "model: 'grammar' generates text"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(api: Api, name: str) -> None:
    body, status, param, message = REFUSED[name]
    found_status, found = api.post("/v1/embeddings", body)
    assert (found_status, found["error"]["param"]) == (status, param), found
    assert message in found["error"]["message"] and found["error"]["type"] == "invalid_request_error"
    assert (found["error"]["code"] == "context_length_exceeded") == (name == "too long")
    assert api.post("/v1/embeddings", {"input": "a"})[0] == 200  # the connection goes on


def test_a_client_of_grpc_is_told_that_a_port_is_for_http(api: Api) -> None:
    with fastqps.Client(api.server.http) as client:
        client.predict("a")
    kinds, said = (fastqps.Unimplemented, fastqps.Unavailable), r"answers HTTP, and no gRPC: .*--port"
    with fastqps.Client(api.server.admin) as client, pytest.raises(kinds, match=said):
        client.predict("a")


def test_an_encoder_has_no_completions(api: Api) -> None:
    status, found = api.post("/v1/completions", {"model": "minilm", "prompt": "a"})
    said = "model: 'minilm' embeds texts, which is not what this method is for; these can: 'grammar'"
    assert (status, found["error"]["message"][: len(said)]) == (400, said)


def test_without_a_model_the_first_one_that_can_answers(api: Api) -> None:
    for path, body, model in (
        ("/v1/completions", {"prompt": "a", "max_tokens": 1}, "grammar"),
        ("/v1/embeddings", {"input": "a"}, "minilm"),
    ):
        assert api.post.found(path, **body)["model"] == model


def test_a_deadline_that_cannot_be_met(api: Api) -> None:
    status, found = api.post("/v1/embeddings", {"input": ["a " * 200] * 64, "timeout": 1e-6})
    # Refused at once if the server predicts it, and otherwise when the time is over.
    assert (status, found["error"]["type"]) in ((429, "rate_limit_error"), (504, "server_error"))
