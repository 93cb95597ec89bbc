"""Token classifiers in a server: the entities that the engine finds, whole batches, refusals, and kills."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

import grpc
import jsonschema
import numpy as np
import pytest
from apis import Api, reaching
from huggingface_hub import InferenceClient
from nightly import nightly_but
from posting import Poster
from serving import PATIENCE_S, Server
from tensors import FORMS, Asked
from token_classifiers import INPUT_TOKENS, KINDS, LABELS, texts, write_token_classifier

from fastqps import Client, Engine, InvalidArgument
from fastqps.api.prediction import Entity
from fastqps.api.request import Aggregation

CLOSE = 2e-5  # of scores


def assert_same(got: list[list[Entity]], expected: list[list[Entity]]) -> None:
    def places(found: list[list[Entity]]) -> list[list[tuple[str, int, int]]]:
        return [[(e.label, e.start, e.end) for e in each] for each in found]

    assert places(got) == places(expected)
    scores = [[e.score for each in found for e in each] for found in (got, expected)]
    assert scores[0] == pytest.approx(scores[1], abs=CLOSE)


@pytest.fixture(scope="module", params=nightly_but(["bert"], KINDS))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_token_classifier(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server], folder: str) -> Server:
    return module_server(f"--model=m={folder}", "--device=cpu", "--dtype=float32", "--dispatchers=1", "--slots=256")


def test_entities_are_the_engines(server: Server, folder: str) -> None:
    given, engine = [*texts(60), "a word in a long text " * 20], Engine(folder, dtype="float32")
    with Client(server.address) as client:
        for aggregation in get_args(Aggregation):
            wanted = engine.entities(given, aggregation=aggregation)
            assert_same(client.entities(given, aggregation=aggregation), wanted)
        simple = engine.entities(given)
        streamed = {p.request_id: p for p in client.predict_stream(given)}
        assert_same([streamed[i].entities or [] for i in range(len(given))], simple)
        assert_same([client.predict(given[0]).entities or []], simple[:1])
        cut = client.predict("word " * 5000, truncate=True)
        assert cut.usage and cut.usage.truncated_at == INPUT_TOKENS
        (model,) = client.models()
        assert (model.task, model.labels, model.dimensions) == ("classify_tokens", LABELS, 0)


def test_entities_as_hugging_faces_api(server: Server) -> None:
    given, post = [*texts(20), "Zürich \U0001f600 a word"], Poster(server)
    firsts: list[list[dict[str, str]]] = []
    with Client(server.address) as client:
        for aggregation in (None, *get_args(Aggregation)):
            found = post.found("/entities", inputs=given, parameters={"aggregation_strategy": aggregation})
            name = "entity" if aggregation == "none" else "entity_group"
            got = [[Entity(e[name], e["score"], e["start"], e["end"]) for e in each] for each in found]
            assert_same(got, client.entities(given, aggregation=aggregation or "simple"))
            for text, each in zip(given, found, strict=True):
                assert [e["word"] for e in each] == [text[e["start"] : e["end"]] for e in each]
            assert sum(map(len, found)) > 10
            firsts = found if aggregation == "first" else firsts
    alone = InferenceClient(f"http://{server.http}").token_classification(given[0], aggregation_strategy="first")
    assert [(e.entity_group, e.word) for e in alone] == [(e["entity_group"], e["word"]) for e in firsts[0]]
    (vertex,) = post.found("/vertex", instances=[given[0]], parameters={"aggregation_strategy": "first"})["predictions"]
    assert vertex == [pytest.approx(each, abs=CLOSE) for each in firsts[0]]
    described = post.get("/openapi.json")[1]["paths"]
    for path, body in (("/entities", {"inputs": given}), ("/", {"inputs": given}), ("/vertex", {"instances": [given]})):
        schema = described[path]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(post.found(path, **body), schema)
    for path, body, status, said in (
        ("/entities", {"inputs": [*given, ""]}, 400, "inputs: 0 characters, at least 1 (item 21)"),
        ("/entities", {"inputs": "a", "model": "none"}, 404, "'none' is not served"),
        ("/predict", {"inputs": "a"}, 424, "the model 'm' is not a classifier model"),
        ("/pooling", {"input": "a"}, 400, "the model 'm' finds entities"),
    ):
        code, answer = post(path, body)
        assert (code, said in str(answer)) == (status, True), answer
    post.close()


@pytest.fixture(scope="module")
def api(server: Server) -> Iterator[Api]:
    yield from reaching(server)


@pytest.mark.parametrize("form", FORMS)
def test_entities_as_tensors(api: Api, form: str) -> None:
    given = ["1 2", *texts(20)]
    for aggregation in get_args(Aggregation):
        found = FORMS[form](api, Asked({"text": given}, "m", {"aggregation": aggregation}))
        rows = [*zip(*(found[f"entity_{name}"].tolist() for name in ("label", "score", "start", "end")), strict=True)]
        at = found["offsets"].tolist()
        got = [[Entity(*row) for row in rows[at[i] : at[i + 1]]] for i in range(len(given))]
        assert at[0] == 0 and at[-1] == len(rows) > 10
        assert_same(got, api.client.entities(given, aggregation=aggregation))
    only = FORMS[form](api, Asked({"text": given}, "m", outputs=["offsets", "entity_end"]))
    assert [*only] == ["entity_end", "offsets"] and only["entity_end"].dtype == np.int32
    status, said = api.post.get("/v2/models/m")
    assert status == 200 and [output["name"] for output in said["outputs"]] == [*found]
    assert [each["name"] for each in said["inputs"]] == ["text"]


def test_refusals(server: Server) -> None:
    with Client(server.address) as client:
        for options, said in (
            ({"top_labels": 2}, r"output\.top_labels: 2, but the model 'm' finds entities; leave it unset"),
            ({"raw_scores": True}, r"output\.raw_scores: 1"),
            ({"dtype": "float16"}, r"output\.dtype: 2"),
            ({"dimensions": 3}, r"output\.dimensions: 3"),
            ({"normalize": True}, r"output\.normalize: 1"),
        ):
            with pytest.raises(InvalidArgument, match=said):
                client.predict("a", **options)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="token_ids: the model 'm' says where in a text its entities are"):
            client.predict([1, 2])
        with pytest.raises(InvalidArgument, match="pair: 2 texts, at most 1"):
            client.predict(("a", "b"))
    with grpc.insecure_channel(server.address) as channel:  # aggregation 9, of a text
        call = channel.unary_unary("/fastqps.v1.PredictService/Predict")
        with pytest.raises(grpc.RpcError, match=r"output\.aggregation: 9, must be 0 to 5"):
            call(b"\x0a\x01m\x12\x01a\x3a\x02\x38\x09", timeout=PATIENCE_S)
