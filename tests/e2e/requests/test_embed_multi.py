"""A vector for each token, from a server: the engine's, in every dtype, whole batches, large answers, and kills."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
from apis import Api, reaching
from multi_vectors import DIMENSIONS, DOCUMENT_TOKENS, EXPANDED, QUERY_TOKENS, write_multi, write_pylate
from posting import Poster
from reflected import call
from serving import PATIENCE_S, Server
from tensors import BINARY, FORMS, Asked, as_the_client
from token_classifiers import texts

from fastqps import AsyncClient, Client, Engine, InvalidArgument
from fastqps.api.prediction import Prediction, PredictionError, Vector

CLOSE = 2e-5
LONG = 1000  # tokens that a document may have here: ten times as many as a slot has room for
ROLES = ("query", "document", "")
GIVEN = [*texts(40), "Hello, world! (a word...)", ""]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One whose tokenizer is native, and one of the package."""
    path = tmp_path_factory.mktemp("multi")
    knobs = {"query_length": QUERY_TOKENS, "query_expansion": EXPANDED}
    return {
        "native": write_multi(path / "native", "bert", tokens=LONG, **knobs),
        "package": write_pylate(path / "package", "xlm-roberta"),
        "unattended": write_pylate(path / "unattended", "bert", attend_to_expansion_tokens=False),
    }


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server], folders: dict[str, str]) -> Server:
    models = (f"--model={name}={folder}" for name, folder in folders.items())
    return module_server(*models, "--device=cpu", "--dtype=float32", "--dispatchers=1", "--frontdoors=1")


def assert_same(got: list[Vector], expected: list[Vector], close: float = CLOSE) -> None:
    assert [each.shape for each in got] == [each.shape for each in expected]
    np.testing.assert_allclose(np.concatenate(got), np.concatenate(expected), rtol=0, atol=close)


def vectors(found: Prediction | PredictionError) -> Vector:
    assert isinstance(found, Prediction) and found.multi is not None
    return found.multi


@pytest.mark.parametrize("name", ["native", "package"])
def test_vectors_are_the_engines(server: Server, folders: dict[str, str], name: str) -> None:
    engine = Engine(folders[name], dtype="float32")
    given = [*GIVEN, "word " * 600, "a long, long text. " * 2000]  # other threads tokenize the last ones
    with Client(server.address, model=name) as client:
        for role in ROLES:
            expected = engine.embed_multi(given, prompt_name=role, truncate=True)
            assert_same(client.embed_multi(given, prompt_name=role, truncate=True), expected)
            streamed = client.predict_stream(given, prompt_name=role, truncate=True)
            found = {each.request_id: vectors(each) for each in streamed}
            assert_same([found[i] for i in range(len(given))], expected)
            assert_same([vectors(client.predict(given[0], prompt_name=role, truncate=True))], expected[:1])
        (model,) = [each for each in client.models() if each.name == name]
        assert (model.task, model.dimensions) == ("embed_multi", DIMENSIONS)
        cut = client.predict(given[-1], prompt_name="query", truncate=True)
        assert cut.usage and (cut.usage.truncated_at, cut.usage.input_tokens) == (QUERY_TOKENS, QUERY_TOKENS)


def test_forms(server: Server, folders: dict[str, str]) -> None:
    engine = Engine(folders["native"], dtype="float32")
    with Client(server.address, model="native") as client:
        for dtype, close in (("float32", CLOSE), ("float16", 1e-3), ("int8", 1 / 127), ("uint8", 1 / 127)):
            for cut in ({}, {"dimensions": 7}):
                expected = engine.embed_multi(GIVEN, **cut, truncate=True)
                got = client.embed_multi(GIVEN, **cut, dtype=dtype, truncate=True)  # type: ignore[arg-type]
                assert_same(got, expected, close)
        signs = [np.packbits(each > 0, axis=-1) for each in client.embed_multi(GIVEN, dimensions=12, truncate=True)]
        assert_same(client.embed_multi(GIVEN, dimensions=12, dtype="ubinary", truncate=True), signs, 0)
        raw = client.embed_multi(GIVEN, normalize=False, truncate=True)
        assert_same(raw, engine.embed_multi(GIVEN, normalize=False, truncate=True))
        assert_same(client.embed_multi([[2, 5, 6, 7]]), engine.embed_multi([[2, 5, 6, 7]]))
        timed = client.predict("a", timings=True)
        assert timed.timings and timed.multi is not None

    async def ask() -> list[Vector]:
        async with AsyncClient(server.address, model="native") as client:
            return await client.embed_multi(GIVEN, prompt_name="query", truncate=True)

    assert_same(asyncio.run(ask()), engine.embed_multi(GIVEN, prompt_name="query", truncate=True))


@pytest.mark.parametrize(("name", "role"), [("native", "query"), ("package", "document"), ("unattended", "")])
def test_token_vectors_as_tei_and_vllm(server: Server, folders: dict[str, str], name: str, role: str) -> None:
    engine, poster, named = Engine(folders[name], dtype="float32"), Poster(server), {"model": name, "prompt_name": role}
    given = [text for text in GIVEN[:6] if text]
    expected = engine.embed_multi(given, prompt_name=role, truncate=True)
    found = poster.found("/embed_all", inputs=given, **named)
    assert_same([np.array(rows, np.float32) for rows in found], expected)
    for options in ({}, {"dimensions": 7}, {"normalize": False}):
        wanted = engine.embed_multi(given, prompt_name=role, truncate=True, **options)  # type: ignore[arg-type]
        asked = {{"normalize": "use_activation"}.get(option, option): value for option, value in options.items()}
        asked |= {"input": given, "truncate_prompt_tokens": -1, "task": "token_embed", **named}
        data = poster.found("/pooling", **asked)["data"]
        assert_same([np.array(each["data"], np.float32) for each in data], wanted)
        data = poster.found("/pooling", **asked, encoding_format="base64")["data"]
        flat = [np.frombuffer(base64.b64decode(each["data"]), "<f4") for each in data]
        assert_same([rows.reshape(each.shape) for rows, each in zip(flat, wanted, strict=True)], wanted)
    poster.close()


@pytest.fixture(scope="module")
def api(server: Server) -> Iterator[Api]:
    yield from reaching(server)


@pytest.mark.parametrize("form", FORMS)
def test_token_vectors_as_tensors(api: Api, form: str) -> None:
    given = [*GIVEN[:5], ""]
    for dtype in ("float", "int8", "uint8", "binary", "ubinary"):
        parameters = {"output_dtype": dtype, "dimensions": 12, "prompt_name": "document", "truncate": True}
        found = FORMS[form](api, Asked({"text": given}, "native", parameters))
        rows, at = found["token_embedding"], found["offsets"].tolist()
        options = {"dtype": "float32" if dtype == "float" else dtype, "dimensions": 12, "truncate": True}
        assert [*found] == ["token_embedding", "offsets"] and len(rows) == at[-1]
        parts = [as_the_client(rows[start:end], dtype) for start, end in itertools.pairwise(at)]
        expected = api.client.embed_multi(given, prompt_name="document", model="native", **options)  # type: ignore[arg-type]
        assert_same(parts, expected, CLOSE if dtype == "float" else 0)
    if form in BINARY:
        half = BINARY[form](api, Asked({"text": given}, "native", {"datatype": "FP16", "truncate": True}))
        expected = api.client.embed_multi(given, model="native", dtype="float16", truncate=True)
        assert half["token_embedding"].dtype == np.float16
        assert np.array_equal(half["token_embedding"], np.concatenate(expected))
    status, said = api.post.get("/v2/models/native")
    shapes = {output["name"]: output["shape"] for output in said["outputs"]}
    assert status == 200 and shapes == {"token_embedding": [-1, DIMENSIONS], "offsets": [-1]}


def test_embed_all_over_grpc(server: Server, folders: dict[str, str]) -> None:
    expected = Engine(folders["native"], dtype="float32").embed_multi(GIVEN[:3])
    channel = grpc.insecure_channel(server.address)
    for text, rows in zip(GIVEN, expected, strict=False):
        (found,) = call(channel, "tei.v1.Embed/EmbedAllStream", {"inputs": text})
        assert_same([np.array([list(row.embeddings) for row in found.token_embeddings], np.float32)], [rows])
        assert found.metadata.compute_tokens >= len(rows)
    channel.close()


def test_refusals(server: Server) -> None:
    with Client(server.address, model="native") as client:
        for options, said in (
            ({"top_labels": 2}, r"output\.top_labels: 2, but the model 'native' makes a vector of each token"),
            ({"raw_scores": True}, r"output\.raw_scores: 1"),
            ({"aggregation": "max"}, r"output\.aggregation: 5"),
            ({"dimensions": 25}, r"output\.dimensions: 25, at most 24"),
            ({"dtype": "int8", "normalize": False}, r"output\.dtype: DTYPE_INT8"),
            ({"prompt_name": "none"}, r"prompt_name: 'none' is no prompt of the model"),
            ({"prompt_name": "query"}, rf"text: \d+ tokens, at most {QUERY_TOKENS}; set truncate"),
            ({"model": "package", "prompt_name": "document"}, rf"text: \d+ tokens, at most {DOCUMENT_TOKENS}"),
            (
                {"model": "unattended", "prompt_name": "query"},
                "prompt_name: 'query': the checkpoint expands queries by",
            ),
        ):
            with pytest.raises(InvalidArgument, match=said):
                client.predict("word " * 80, **options)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="pair: 2 texts, at most 1"):
            client.predict(("a", "b"))
    post = Poster(server)
    status, refused = post("/v1/embeddings", {"model": "native", "input": "a"})
    assert status == 400 and "native" in str(refused), refused


def test_answers_that_no_slot_has_room_for(serve: Callable[..., Server], folders: dict[str, str]) -> None:
    """More of them than there are slots one after the other, beside short ones, and kills."""
    server = serve(f"--model=n={folders['native']}", "--device=cpu", "--dtype=float32", "--slots=16", "--frontdoors=1")
    given = [one * size for one in texts(12) for size in (1, 40) if len(one) > 12]
    expected = Engine(folders["native"], dtype="float32").embed_multi(given, truncate=True)
    assert max(each.nbytes for each in expected) > 32 << 10

    def check() -> None:
        with Client(server.address, retries=10) as client:
            for _ in range(2):
                assert_same(client.embed_multi(given, truncate=True), expected)

    check()
    for worker in ("dispatcher 0", "frontdoor 0"):
        with Client(server.address) as client, ThreadPoolExecutor(8) as threads:
            lost = [threads.submit(client.predict, text, truncate=True) for text in given]
            old = server.child(worker)
            old.kill()
            for each in lost:
                each.exception(PATIENCE_S)
            server.until_filled(worker, old)
        check()
