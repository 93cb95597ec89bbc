"""Sparse embeddings in a server: those of the engine, over every protocol that has them, refusals, and kills."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import jsonschema
import numpy as np
import pytest
from apis import reaching
from posting import Poster
from serving import PATIENCE_S, Server
from sparse_encoders import write_sparse_encoder
from tensors import FORMS, Asked
from token_classifiers import texts

from fastqps import Client, Engine, InvalidArgument
from fastqps.api.prediction import SparseEmbedding
from fastqps.api.reflection import message_class

CLOSE = 2e-5  # of weights
DIMS = 64


def assert_same(got: Sequence[SparseEmbedding | None], expected: list[SparseEmbedding]) -> None:
    """The same ids in the same order, but for weights that are as good as equal."""
    for one, other in zip(got, expected, strict=True):
        assert one is not None and len(one.ids) == len(other.ids)
        assert abs(one.active - other.active) <= 1  # a logit next to 0
        assert one.weights == pytest.approx(other.weights, abs=CLOSE)
        weights = dict(zip(other.ids.tolist(), other.weights.tolist(), strict=True))
        for i, weight in zip(one.ids.tolist(), one.weights.tolist(), strict=True):
            assert weights.get(i, other.weights[-1]) == pytest.approx(weight, abs=CLOSE)


def test_sparse_embeddings_are_the_engines(serve: Callable[..., Server], tmp_path: Path) -> None:
    folder = write_sparse_encoder(tmp_path, "bert", model={"max_active_dims": DIMS})
    flags = ("--device=cpu", "--dtype=float32", "--dispatchers=1", "--slots=256")
    server = serve(f"--model=n={folder}", *flags)
    given = [*texts(60), "a word in a long text " * 20]
    engine = Engine(folder, dtype="float32")
    wanted = engine.embed_sparse(given)
    with Client(server.address) as client:
        assert_same(client.embed_sparse(given), wanted)
        assert_same(client.embed_sparse(given, max_active_dims=5), engine.embed_sparse(given, max_active_dims=5))
        assert_same([client.predict(given[0]).sparse], wanted[:1])
        streamed = {p.request_id: p.sparse for p in client.predict_stream(given)}
        assert_same([streamed[i] for i in range(len(given))], wanted)
        first = client.models()[0]
        assert (first.task, first.dimensions, first.labels) == ("embed_sparse", 386, [])
        refusals(client)
    by_id = [sorted(zip(one.ids.tolist(), one.weights.tolist(), strict=True)) for one in wanted]
    over_grpc(server, given, by_id)
    over_http(server, given, by_id)
    as_tensors(server, given, wanted)


def refusals(client: Client) -> None:
    for options, said in (
        ({"top_labels": 2}, r"output\.top_labels: 2, but the model 'n' gives sparse embeddings; leave it unset"),
        ({"raw_scores": True}, r"output\.raw_scores: 1, but"),
        ({"dtype": "float16"}, r"output\.dtype: 2, but"),
        ({"dimensions": 3}, r"output\.dimensions: 3, but"),
        ({"normalize": True}, r"output\.normalize: 1, but"),
        ({"aggregation": "max"}, r"output\.aggregation: 5, but"),
        ({"max_active_dims": DIMS + 1}, rf"output\.max_active_dims: {DIMS + 1}, at most {DIMS}"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            client.predict("a", **options)  # type: ignore[arg-type]


def over_grpc(server: Server, given: list[str], by_id: list[list[tuple[int, float]]]) -> None:
    """text-embeddings-inference's own form: by id, ascending."""
    request, response = message_class("tei.v1.EmbedSparseRequest"), message_class("tei.v1.EmbedSparseResponse")
    with grpc.insecure_channel(server.address) as channel:
        methods = "/tei.v1.Embed/EmbedSparse", request.SerializeToString, response.FromString
        call = channel.unary_unary(*methods)
        found: Any = call(request(inputs=given[0]), timeout=PATIENCE_S)
        assert_values([(v.index, v.value) for v in found.sparse_embeddings], by_id[0])
        assert found.metadata.compute_chars == len(given[0])
        stream = channel.stream_stream("/tei.v1.Embed/EmbedSparseStream", *methods[1:])
        answers = list(stream(iter([request(inputs=text) for text in given[:9]]), timeout=PATIENCE_S))
        for answer, expected in zip(answers, by_id, strict=False):
            assert_values([(v.index, v.value) for v in answer.sparse_embeddings], expected)
        assert len(answers) == 9
        for wrong, said in (
            ({"inputs": "a", "prompt_name": "p"}, "prompt_name: 'p' is no prompt of the model 'n'"),
            ({"inputs": ""}, "inputs: 0 characters, at least 1"),
        ):
            with pytest.raises(grpc.RpcError, match=said):
                call(request(**wrong), timeout=PATIENCE_S)
        embed = channel.unary_unary("/tei.v1.Embed/Embed")
        with pytest.raises(grpc.RpcError, match="the model 'n' is not an embedding model"):
            embed(b"\x0a\x01a", timeout=PATIENCE_S)


def over_http(server: Server, given: list[str], by_id: list[list[tuple[int, float]]]) -> None:
    post = Poster(server)
    described = post.get("/openapi.json")[1]["paths"]["/embed_sparse"]["post"]["responses"]["200"]
    for path in ("/embed_sparse", "/"):
        found = post.found(path, inputs=given[:5], normalize=None)
        for values, expected in zip(found, by_id, strict=False):
            assert_values([(value["index"], value["value"]) for value in values], expected)
        assert len(found) == 5
        jsonschema.validate(found, described["content"]["application/json"]["schema"])
    status, info = post.get("/info")
    assert status == 200 and info["model_type"] == {"embedding": {"pooling": "splade"}}
    post.close()


def as_tensors(server: Server, given: list[str], wanted: list[SparseEmbedding]) -> None:
    for api in reaching(server):
        for ask in FORMS.values():
            found = ask(api, Asked({"text": given}, "n"))
            assert (found["token_id"].dtype, len(found["offsets"])) == (np.int32, len(given) + 1)
            for i, (start, end) in enumerate(itertools.pairwise(found["offsets"])):
                values = zip(found["token_id"][start:end].tolist(), found["weight"][start:end].tolist(), strict=True)
                expected = zip(wanted[i].ids.tolist(), wanted[i].weights.tolist(), strict=True)
                assert_values(sorted(values), sorted(expected))


def assert_values(found: list[tuple[int, float]], expected: list[tuple[int, float]]) -> None:
    assert [i for i, _ in found] == sorted({i for i, _ in found})
    assert [i for i, _ in found] == [i for i, _ in expected]
    assert [value for _, value in found] == pytest.approx([value for _, value in expected], abs=CLOSE)
