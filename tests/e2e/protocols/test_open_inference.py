"""The Open Inference Protocol over gRPC and HTTP: every answer against this server's own ``Predict``, bit by bit."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest
from apis import Api
from google.protobuf.json_format import ParseDict
from serving import PATIENCE_S, until
from tensors import BINARY, FORMS, JSON_SIZE, Asked, Refused, as_the_client, infer, over_grpc, over_http

from fastqps._front import INFER_OUTPUTS
from fastqps.api.reflection import message_class
from fastqps.frontdoor.open_inference import TYPES

TEXTS = ["A man is eating food.", 'Zürich, "東京"\n\t', "word " * 40, "x"]
SERVICE = "inference.GRPCInferenceService"
Ask = Callable[[Api, Asked], dict[str, np.ndarray]]
by_form = pytest.mark.parametrize("ask", FORMS.values(), ids=FORMS)


@by_form
@pytest.mark.parametrize("column", [True, False], ids=["n_1", "n"])
def test_texts(api: Api, ask: Ask, column: bool) -> None:
    for text in TEXTS:
        found = ask(api, Asked({"text": [text]}, column=column))["embedding"]
        assert found.shape == (1, 384) and np.array_equal(found[0], api.client.predict(text).embedding)
    found = ask(api, Asked({"text": TEXTS}, column=column))["embedding"]
    assert np.abs(found - np.stack([api.client.predict(text).embedding for text in TEXTS])).max() <= 1e-5


@by_form
@pytest.mark.parametrize("datatype", [np.int64, np.int32])
def test_ids_and_their_mask(api: Api, ask: Ask, datatype: Any) -> None:
    expected = api.client.predict([101, 7592, 102]).embedding
    ids = np.array([[101, 7592, 102, 0], [0, 101, 7592, 102]], datatype)
    mask = np.array([[1, 1, 1, 0], [0, 1, 1, 1]], datatype)
    found = ask(api, Asked({"input_ids": ids, "attention_mask": mask}))["embedding"]
    assert np.abs(found - expected).max() <= 1e-5
    assert np.array_equal(ask(api, Asked({"input_ids": ids[:1, :3]}))["embedding"][0], expected)


@by_form
def test_pairs_and_options(api: Api, ask: Ask) -> None:
    options = {"dimensions": 64, "normalize": False, "priority": 1, "timeout": 20_000_000}
    asked = Asked({"text": ["a b"], "text_pair": ["c d"]}, parameters=options)
    expected = api.client.predict(("a b", "c d"), dimensions=64, normalize=False).embedding
    assert np.array_equal(ask(api, asked)["embedding"][0], expected)
    half = Asked(asked.inputs, parameters={**options, "datatype": "FP16"})
    if ask in BINARY.values():
        found = ask(api, half)["embedding"]
        assert found.dtype == np.float16 and np.array_equal(found[0], expected.astype(np.float16))


@by_form
@pytest.mark.parametrize("dtype", ["int8", "uint8", "binary", "ubinary"])
def test_embeddings_of_a_byte_or_a_bit_a_value(api: Api, ask: Ask, dtype: Any) -> None:
    found = ask(api, Asked({"text": TEXTS[:1]}, parameters={"output_dtype": dtype, "dimensions": 20}))["embedding"]
    expected = api.client.predict(TEXTS[0], dtype=dtype, dimensions=20).embedding
    assert found.dtype == (np.uint8 if dtype.startswith("u") else np.int8) and found.shape[1] in (20, 3)
    assert np.array_equal(as_the_client(found[0], dtype), expected)


@by_form
@pytest.mark.parametrize("outputs", [(), ("scores",), ("label",), ("scores", "label")])
def test_labels(api: Api, ask: Ask, outputs: tuple[str, ...]) -> None:
    found = ask(api, Asked({"text": TEXTS}, "labelled", outputs=outputs))
    assert tuple(found) == (outputs or ("scores", "label"))
    for i, text in enumerate(TEXTS):
        labels = api.client.predict(text, model="labelled").labels
        if "label" in found:
            assert found["label"][i] == labels[0].name
        for label in labels if "scores" in found else ():
            assert found["scores"][i][label.index] == pytest.approx(label.score, abs=1e-6)


@by_form
def test_generation(api: Api, ask: Ask) -> None:
    texts = ["She have a apple.", "I has two dog."]
    found = ask(api, Asked({"text": texts}, "grammar", {"max_tokens": 20}))["text"]
    assert [*found] == [api.client.generate(text, model="grammar", max_tokens=20).text for text in texts]
    assert ask(api, Asked({"text": texts}, "grammar", {"max_tokens": 20, "stop": " an"}))["text"][0] == "She has"


LIMITS: dict[str, Any] = {"max_tokens": 6, "temperature": 1.0, "seed": 3}


@by_form
def test_choices_of_each_text(api: Api, ask: Ask) -> None:
    texts = ["She have a apple.", "I has two dog."]
    found = ask(api, Asked({"text": texts}, "grammar", {**LIMITS, "n": 2, "best_of": 3}, ("text", "finish_reason")))
    assert found["text"].shape == found["finish_reason"].shape == (2, 2)
    for row, reasons, text in zip(found["text"], found["finish_reason"], texts, strict=True):
        made = api.client.generate(text, model="grammar", n=2, best_of=3, **LIMITS)
        assert [*zip(row, reasons, strict=True)] == [(e.text, e.finish_reason) for e in (made, *made.other_choices)]


@by_form
def test_log_probabilities(api: Api, ask: Ask) -> None:
    """Each row of an item is a token's. A prompt is with the first of its choices, and its first token has none."""
    texts = ["She have a apple.", "I has two dog."]
    options: dict[str, Any] = {"top_logprobs": 2, "prompt_logprobs": 1, "logprobs": True, "n": 2}
    found = ask(api, Asked({"text": texts}, "grammar", {**LIMITS, **options}))
    wanted = [api.client.generate(text, model="grammar", **LIMITS, **options) for text in texts]
    choices = [each for made in wanted for each in (made, *made.other_choices)]
    assert [*found["text"].ravel()] == [each.text for each in choices]
    for i, made in enumerate(choices):
        rows = slice(found["offsets"][i], found["offsets"][i + 1])
        assert [*found["token_id"][rows]] == made.token_ids
        assert found["logprob"][rows] == pytest.approx(made.logprobs, abs=1e-5)
        assert made.top_logprobs and found["top_token_id"][rows].tolist() == [
            [k for k, _ in r] for r in made.top_logprobs
        ]
        assert found["top_logprob"][rows].tolist() == [
            pytest.approx([value for _, value in row], abs=1e-5) for row in made.top_logprobs
        ]
        rows, prompt = slice(found["prompt_offsets"][i], found["prompt_offsets"][i + 1]), made.prompt_logprobs
        if prompt is None:
            assert rows.start == rows.stop
            continue
        assert [*found["prompt_token_id"][rows]] == prompt.token_ids
        assert np.isnan(found["prompt_logprob"][rows][0]) and prompt.top_logprobs
        assert found["prompt_logprob"][rows][1:] == pytest.approx(prompt.logprobs, abs=1e-5)
        assert [*found["prompt_top_token_id"][rows][1:, 0]] == [row[0][0] for row in prompt.top_logprobs]
        assert found["prompt_top_logprob"][rows][1:, 0] == pytest.approx(
            [r[0][1] for r in prompt.top_logprobs], abs=1e-5
        )


@by_form
def test_outputs_of_a_generation_are_chosen(api: Api, ask: Ask) -> None:
    """Without a choice the text alone; a named log-probability needs no parameter."""
    text = {"text": ["She have a apple."]}
    made = api.client.generate(text["text"][0], model="grammar", logprobs=True)
    assert [*ask(api, Asked(text, "grammar"))] == ["text"]
    assert [*ask(api, Asked(text, "grammar", {"logprobs": True}))] == ["text", "token_id", "offsets", "logprob"]
    found = ask(api, Asked(text, "grammar", outputs=["logprob", "finish_reason"]))
    assert found["logprob"] == pytest.approx(made.logprobs, abs=1e-5) and [*found["finish_reason"]] == ["stop"]
    echoed = ask(api, Asked(text, "grammar", {"echo": True}))["text"]
    assert [*echoed] == [text["text"][0] + made.text]
    for output, parameter in (("top_logprob", "top_logprobs"), ("prompt_offsets", "prompt_logprobs")):
        with pytest.raises(Refused, match=f"outputs: {output} needs the parameter {parameter}"):
            ask(api, Asked(text, "grammar", outputs=[output]))


def events(api: Api, body: dict[str, Any]) -> list[dict[str, Any]]:
    response, content = api.post.send("POST", "/v2/models/grammar/generate_stream", json.dumps(body).encode())
    assert response.status == 200 and response.getheader("content-type") == "text/event-stream", content
    return [json.loads(event.removeprefix("data: ")) for event in content.decode().split("\n\n")[:-1]]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"echo": True},
        {"logprobs": True},
        {"top_logprobs": 2, "prompt_logprobs": 1},
        {"prompt_logprobs": 0, "echo": True},
        {"max_tokens": 0, "prompt_logprobs": 2},
        {"stop": ["an", "has"]},
    ],
)
def test_generate_in_plain_json(api: Api, options: dict[str, Any]) -> None:
    """As Triton's extension for it, whole and in pieces, with its parameters beside the text or in an object."""
    text, limits = "She have a apple.", {**LIMITS, **options}
    asked: Any = {name: value for name, value in limits.items() if name != "echo"}
    made = api.client.generate(text, model="grammar", **asked)
    path = "/v2/models/grammar/generate"
    found = api.post.found(path, text_input=text, id="an id", parameters={**limits, "stream": False})
    assert api.post.found(path, text_input=text, id="an id", **limits) == found
    assert found["id"] == "an id" and found["model_name"] == "grammar" and found["model_version"]
    assert found["text_output"] == (text if options.get("echo") else "") + made.text
    assert made.usage and found["finish_reason"] == made.finish_reason
    assert (found["num_input_tokens"], found["num_output_tokens"]) == (
        made.usage.input_tokens,
        made.usage.output_tokens,
    )
    if options.get("logprobs") or options.get("top_logprobs"):
        assert found["token_id"] == made.token_ids and found["logprob"] == pytest.approx(made.logprobs, abs=1e-5)
    else:
        assert "token_id" not in found
    if made.top_logprobs and options.get("top_logprobs"):
        assert found["top_token_id"] == [[id for id, _ in row] for row in made.top_logprobs]
    if prompt := made.prompt_logprobs:
        assert found["prompt_token_id"] == prompt.token_ids
        assert found["prompt_logprob"] == pytest.approx(prompt.logprobs, abs=1e-5)
        assert ("prompt_top_logprob" in found) == bool(options["prompt_logprobs"])
    pieces = events(api, {"text_input": text, "parameters": limits})
    assert "".join(piece["text_output"] for piece in pieces) == found["text_output"]
    assert ["finish_reason" in piece for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert pieces[-1]["num_output_tokens"] == found["num_output_tokens"]
    for name in ("token_id", "logprob", "top_token_id", "prompt_token_id", "prompt_top_token_id"):
        if name in found:
            joined = [each for piece in pieces for each in piece.get(name, ())]
            np.testing.assert_allclose(np.array(joined), np.array(found[name]), atol=1e-5)


def test_generate_takes_what_tritons_clients_send(api: Api) -> None:
    text, path = "She have a apple.", "/v2/models/grammar/generate"
    plain = api.post.found(path, text_input=text)
    flags = {"return_finish_reason": True, "return_num_input_tokens": True, "return_num_output_tokens": True}
    assert api.post.found(path, text_input=text, parameters={"exclude_input_in_output": True, **flags}) == plain
    echoed = api.post.found(path, text_input=text, exclude_input_in_output=False)
    assert echoed["text_output"] == text + plain["text_output"]
    assert "logprob" in api.post.found(path, text_input=text, return_logprobs=True)
    assert api.post.found(path, text_input=text, bad_words="", stop_words="", return_cumulative_logprob=False) == plain
    several = api.post.found(path, text_input=text, parameters={**LIMITS, "n": 3})
    made = api.client.generate(text, model="grammar", n=3, **LIMITS)
    assert [each["text_output"] for each in (several, *several["other_choices"])] == [
        each.text for each in (made, *made.other_choices)
    ]
    version = api.post.get("/v2/models/grammar")[1]["versions"][0]
    assert api.post.found(f"/v2/models/grammar/versions/{version}/generate", text_input=text) == plain


@pytest.mark.parametrize(
    ("model", "end", "body", "status", "message"),
    [
        ("grammar", "generate", {}, 400, "text_input: must be given"),
        ("grammar", "generate", {"text_input": 1}, 400, "text_input: must be a string"),
        ("grammar", "generate", {"text_input": "a " * 5000}, 400, "text_input: "),
        ("grammar", "generate", {"text_input": "a", "parameters": 1}, 400, "parameters: must be an object"),
        ("grammar", "generate", {"text_input": "a", "nope": 1}, 400, "parameters: 'nope' is not a parameter"),
        ("grammar", "generate", {"text_input": "a", "sampling_parameters": "{}"}, 400, "sampling_parameters: give its"),
        ("grammar", "generate", {"text_input": "a", "stop_words": "b"}, 400, "stop_words: use stop"),
        ("grammar", "generate", {"text_input": "a", "stream": True}, 400, "stream: is decided by the route"),
        ("grammar", "generate", {"text_input": "a", "parameters": {"n": 0}}, 400, "parameters: n "),
        ("grammar", "generate", {"text_input": "a", "n": 129}, 400, "n: 129, at most 128"),
        ("grammar", "generate_stream", {"text_input": "a", "n": 2}, 400, "n: can only be 1 in a stream"),
        ("grammar", "generate", {"text_input": "a", "guided_regex": "(a"}, 400, "guided_regex: "),
        ("grammar", "generate", {"text_input": "a", "top_k": 65}, 400, "top_k: 65, must be at most 64"),
        ("minilm", "generate", {"text_input": "a"}, 400, "model: 'minilm' embeds texts, which is not what this method"),
        ("none", "generate", {"text_input": "a"}, 404, "model: 'none' is not served here"),
    ],
)
def test_generate_refuses(api: Api, model: str, end: str, body: dict[str, Any], status: int, message: str) -> None:
    found, answer = api.post(f"/v2/models/{model}/{end}", body)
    assert found == status and answer["error"].startswith(message), answer


@by_form
def test_a_message_of_many_items_keeps_their_order(api: Api, ask: Ask) -> None:
    texts = [f"number {i}" for i in range(300)]
    forth, back = (ask(api, Asked({"text": given}, "labelled"))["scores"] for given in (texts, texts[::-1]))
    assert len(forth) == 300 and np.abs(forth - back[::-1]).max() <= 1e-5


def ids(*values: int) -> dict[str, np.ndarray]:
    return {"input_ids": np.array([values])}


A = {"text": ["a"]}
# What only the server knows. csrc/tests/oip has the rest.
REFUSED: dict[str, tuple[Asked, str]] = {
    "model": (Asked(A, "none"), "model_name: 'none' is not served here"),
    "both": (Asked({**A, **ids(5)}), "inputs: must hold either text or input_ids"),
    "pair alone": (Asked({"text_pair": ["a"]}), "inputs: must hold either"),
    "negative id": (Asked(ids(-1)), "input_ids: id -1"),
    "large id": (Asked(ids(40_000)), "input_ids: id 40000, the vocabulary has 30522"),
    "too long": (Asked({"text": ["a", "b " * 300]}), "text: 302 tokens, at most 256"),
    "which one": (Asked({"text": ["a", "b " * 300]}), "tokens (item 1)"),
    "too many": (Asked({"text": ["a"] * 2049}), "inputs: 2049 items, at most 2048"),
    "range": (Asked(A, parameters={"dimensions": -1}), "parameters: dimensions must be an int"),
    "too many dimensions": (Asked(A, parameters={"dimensions": 385}), "dimensions: 385"),
    "generates": (Asked(A, parameters={"max_tokens": 5}), "does not generate text"),
    "other output": (Asked(A, outputs=["text"]), "outputs: the model 'minilm' has no output 'text'"),
    "id": (Asked(A, id="x" * 1025), "id: 1025 bytes, at most 1024"),
}


@pytest.mark.parametrize("ask", [over_grpc, over_http])
@pytest.mark.parametrize("name", REFUSED)
def test_refusals(api: Api, ask: Ask, name: str) -> None:
    asked, message = REFUSED[name]
    with pytest.raises(Refused) as refused:
        ask(api, asked)
    assert refused.value.code == ("NOT_FOUND" if name == "model" else "INVALID_ARGUMENT")
    assert message in refused.value.message, refused.value.message
    assert ask(api, Asked(A))["embedding"].shape == (1, 384)


def test_versions_in_the_path(api: Api) -> None:
    version = api.post.get("/v2/models/minilm")[1]["versions"][0]
    document, _ = Asked(A).document("flat")
    found = infer(api, f"/v2/models/minilm/versions/{version}/infer", document)
    assert np.array_equal(found["embedding"][0], api.client.predict("a").embedding)
    with pytest.raises(Refused, match=r"^model_version: '1' is not served"):
        infer(api, "/v2/models/minilm/versions/1/infer", document)


def test_compressed_requests(api: Api) -> None:
    document, binary = Asked({"text": ["a text"]}).document("binary")
    del document["parameters"]
    head = json.dumps(document).encode()
    headers = {"Content-Encoding": "gzip", JSON_SIZE: str(len(head))}
    response, content = api.post.send("POST", "/v2/models/minilm/infer", gzip.compress(head + binary), **headers)
    assert response.status == 200
    (output,) = json.loads(content)["outputs"]
    assert np.array_equal(np.array(output["data"], np.float32), api.client.predict("a text").embedding)


# Method and its request, and the route that says the same.
SAME: list[tuple[str, dict[str, Any], str]] = [
    ("ServerLive", {}, "/v2/health/live"),
    ("ServerReady", {}, "/v2/health/ready"),
    ("ServerMetadata", {}, "/v2"),
    ("ModelReady", {"name": "minilm"}, "/v2/models/minilm/ready"),
    ("ModelMetadata", {"name": "labelled"}, "/v2/models/labelled"),
    ("ModelMetadata", {"name": "minilm"}, "/v2/models/minilm"),
    ("ModelConfig", {"name": "grammar"}, "/v2/models/grammar/config"),
    ("ModelConfig", {"name": "labelled"}, "/v2/models/labelled/config"),
]


@pytest.mark.parametrize(("method", "fields", "path"), SAME)
def test_both_say_the_same_of_server_and_models(api: Api, method: str, fields: dict[str, Any], path: str) -> None:
    found = api.call(f"{SERVICE}/{method}", **fields)
    status, document = api.post.get(path)
    document = {"config": document} if method == "ModelConfig" else document
    assert status == 200 and ParseDict(document, type(found)(), ignore_unknown_fields=True) == found
    if versions := document.get("versions"):
        (version,) = versions if "name" in fields else ("",)
        assert not version or api.post.get(f"{path}/versions/{version}") == (200, document)


def test_metadata(api: Api) -> None:
    def call(method: str, **fields: Any) -> Any:
        return api.call(f"{SERVICE}/{method}", **fields)

    assert call("ServerLive").live and call("ServerReady").ready
    server = call("ServerMetadata")
    assert server.name == "fastqps" and "binary_tensor_data" in server.extensions
    version = call("ModelMetadata", name="minilm").versions[0]
    assert call("ModelReady", name="minilm", version=version).ready
    assert not call("ModelReady", name="minilm", version="1").ready
    assert not call("ModelReady", name="none").ready, "as in Triton"
    metadata = call("ModelMetadata", name="labelled")
    assert [(t.name, t.datatype, list(t.shape)) for t in (metadata.inputs[0], *metadata.outputs)] == [
        ("text", "BYTES", [-1, 1]), ("scores", "FP32", [-1, 3]), ("label", "BYTES", [-1])
    ]  # fmt: skip
    config = call("ModelConfig", name="minilm").config
    assert [(each.name, list(each.dims)) for each in config.output] == [("embedding", [384])]
    assert not config.model_transaction_policy.decoupled
    config = call("ModelConfig", name="grammar").config
    assert config.max_batch_size == 2048 and config.backend == "fastqps" and config.model_transaction_policy.decoupled
    assert {each.name for each in config.input} == {"text", "input_ids", "attention_mask"}


def test_a_models_configuration_has_every_datatype() -> None:
    fields = message_class("inference.ModelConfig").DESCRIPTOR.fields_by_name
    known = fields["output"].message_type.fields_by_name["data_type"].enum_type.values_by_name
    assert {TYPES[datatype] for _, _, datatype in INFER_OUTPUTS} <= {*known}


def test_the_index_of_the_models(api: Api) -> None:
    index = api.call(f"{SERVICE}/RepositoryIndex", ready=True).models
    names = ("minilm", "grammar", "labelled", "ranker")
    assert [(each.name, each.state) for each in index] == [(name, "READY") for name in names]
    for body in (b'{"ready": true}', b'{"ready":null}', b""):
        status, found = api.post("/v2/repository/index", body)
        assert status == 200 and [(each["name"], each["state"]) for each in found] == [(n, "READY") for n in names]
    for body in (b"[]", b"{", b'{"ready": 1}', b"[" * 5000):
        assert api.post("/v2/repository/index", body)[0] == 400


@pytest.mark.parametrize("name", ["ModelMetadata", "ModelConfig", "ModelStatistics"])
def test_unknown_models_and_versions(api: Api, name: str) -> None:
    for fields, message in (
        ({"name": "none"}, "name: 'none' is not served here; served: 'minilm', 'grammar', 'labelled', 'ranker'"),
        ({"name": "minilm", "version": "1"}, "version: '1' is not served"),
    ):
        code, details = api.refusal(f"{SERVICE}/{name}", **fields)
        assert code == "NOT_FOUND" and message in details
    end = {"ModelMetadata": "", "ModelConfig": "/config", "ModelStatistics": "/stats"}[name]
    for path in ("none", "%ff", "minilm/versions/1"):
        status, found = api.post.get(f"/v2/models/{path}{end}")
        assert status == 404 and "is not served" in found["error"]


def test_each_duration_of_the_statistics_belongs_to_its_count(api: Api) -> None:
    """Calls of many items, good and bad: ``success`` and ``fail`` count calls, the rest items."""

    def look() -> Any:
        (stats,) = api.call(f"{SERVICE}/ModelStatistics", name="labelled").model_stats
        return stats

    began_ms = time.time_ns() // 1_000_000
    before = look()
    for _ in range(3):
        over_grpc(api, Asked({"text": ["word " * 40] * 50}, "labelled"))
    with pytest.raises(Refused):
        over_grpc(api, Asked({"text": ["word " * 4000, *TEXTS]}, "labelled"))
    counted = before.inference_stats.compute_output.count + 150
    until(lambda: look().inference_stats.compute_output.count >= counted, "the dispatchers have counted the items")
    after = look()
    then, now = before.inference_stats, after.inference_stats
    assert 150 <= after.inference_count - before.inference_count <= 150 + len(TEXTS)
    assert (now.success.count - then.success.count, now.fail.count - then.fail.count) == (3, 1)
    means = {}
    for name in ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output"):
        old, new = getattr(then, name), getattr(now, name)
        if name not in ("success", "fail"):
            assert 150 <= new.count - old.count <= 150 + len(TEXTS)
        means[name] = (new.ns - old.ns) / (new.count - old.count)
    assert means["success"] > means["queue"] + sum(means[name] for name in means if name.startswith("compute"))
    assert means["fail"] > 0
    assert began_ms - 1 <= after.last_inference <= time.time_ns() // 1_000_000 + 1
    (own,) = api.post.get("/v2/models/labelled/stats")[1]["model_stats"]
    version = api.post.get("/v2/models/labelled")[1]["versions"][0]
    assert (own["name"], int(own["version"])) == ("labelled", int(version, 16))
    every = {each["name"]: each["inference_count"] for each in api.post.get("/v2/models/stats")[1]["model_stats"]}
    assert every["labelled"] == own["inference_count"] == after.inference_count


def test_what_triton_has_and_this_server_has_not(api: Api) -> None:
    why = "RepositoryModelLoad is not served here"
    with pytest.raises(grpc.RpcError) as refused:
        api.channel.unary_unary(f"/{SERVICE}/RepositoryModelLoad")(b"", timeout=PATIENCE_S)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED and why in refused.value.details()
    status, found = api.post("/v2/repository/models/minilm/load")
    assert status == 501 and found["error"].startswith(f"{why}: models are loaded at start")
    for verb, path, wanted in [
        ("POST", "logging", 501),
        ("POST", "trace/setting", 501),
        ("GET", "models/minilm/trace/setting", 501),
        ("GET", "cudasharedmemory/region/a/status", 501),
        ("POST", "systemsharedmemory/region/a/unregister", 501),
        ("GET", "nothing", 404),
        ("GET", "models/minilm/infer", 405),
    ]:
        assert api.post.send(verb, f"/v2/{path}", b"{}")[0].status == wanted, path
