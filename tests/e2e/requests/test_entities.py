"""Token classifiers in a server: the entities that the engine finds, whole batches, refusals, and kills."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import grpc
import pytest
from serving import PATIENCE_S, Server
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


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {family: write_token_classifier(tmp_path_factory.mktemp(family), family) for family in KINDS}


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server], folders: dict[str, str]) -> Server:
    """Of all kinds."""
    flags = ("--device=cpu", "--dtype=float32", "--dispatchers=1", "--slots=256")
    return module_server(*(f"--model={name}={folder}" for name, folder in folders.items()), *flags)


def test_entities_are_the_engines(server: Server, folders: dict[str, str]) -> None:
    given = [*texts(60), "a word in a long text " * 20]
    with Client(server.address) as client:
        for name, folder in folders.items():
            engine = Engine(folder, dtype="float32")
            for aggregation in get_args(Aggregation):
                wanted = engine.entities(given, aggregation=aggregation)
                assert_same(client.entities(given, model=name, aggregation=aggregation), wanted)
            simple = engine.entities(given)
            streamed = {p.request_id: p for p in client.predict_stream(given, model=name)}
            assert_same([streamed[i].entities or [] for i in range(len(given))], simple)
            assert_same([client.predict(given[0], model=name).entities or []], simple[:1])
        cut = client.predict("word " * 5000, model="bert", truncate=True)
        assert cut.usage and cut.usage.truncated_at == INPUT_TOKENS
        (model,) = [each for each in client.models() if each.name == "bert"]
        assert (model.task, model.labels, model.dimensions) == ("classify_tokens", LABELS, 0)


def test_answers_that_no_slot_has_room_for(serve: Callable[..., Server], tmp_path: Path) -> None:
    """They take large answers: more of them than there are slots one after the other, beside short ones, and kills."""
    folder = write_token_classifier(tmp_path, "roberta", 2000)
    server = serve(f"--model=n={folder}", "--device=cpu", "--dtype=float32", "--slots=16", "--frontdoors=1")
    given = [text * size for text in texts(12) for size in (1, 40) if len(text) > 12]
    wanted = Engine(folder, dtype="float32").entities(given, aggregation="none", truncate=True)
    assert max(map(len, wanted)) > 1000

    def check() -> None:
        with Client(server.address, retries=10) as client:
            for _ in range(2):
                found = [client.entities([text], aggregation="none", truncate=True)[0] for text in given]
                assert_same(found, wanted)

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


def test_refusals(server: Server) -> None:
    with Client(server.address) as client:
        for options, said in (
            ({"top_labels": 2}, r"output\.top_labels: 2, but the model 'bert' finds entities; leave it unset"),
            ({"raw_scores": True}, r"output\.raw_scores: 1"),
            ({"dtype": "float16"}, r"output\.dtype: 2"),
            ({"dimensions": 3}, r"output\.dimensions: 3"),
            ({"normalize": True}, r"output\.normalize: 1"),
        ):
            with pytest.raises(InvalidArgument, match=said):
                client.predict("a", model="bert", **options)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="token_ids: the model 'bert' says where in a text its entities are"):
            client.predict([1, 2], model="bert")
        with pytest.raises(InvalidArgument, match="pair: 2 texts, at most 1"):
            client.predict(("a", "b"), model="bert")
    with grpc.insecure_channel(server.address) as channel:  # aggregation 9, of a text
        call = channel.unary_unary("/fastqps.v1.PredictService/Predict")
        with pytest.raises(grpc.RpcError, match=r"output\.aggregation: 9, must be 0 to 5"):
            call(b"\x0a\x04bert\x12\x01a\x3a\x02\x38\x09", timeout=PATIENCE_S)


@pytest.mark.nightly  # test_answers_that_no_slot_has_room_for kills one, too
def test_a_killed_dispatcher_loses_nothing(serve: Callable[..., Server], tmp_path: Path) -> None:
    folder = write_token_classifier(tmp_path, "bert")
    server = serve(f"--model=n={folder}", "--device=cpu", "--dtype=float32", "--dispatchers=2")
    given = texts(300)
    wanted = Engine(folder, dtype="float32").entities(given, aggregation="average")

    def ask(client: Client, at: int) -> list[list[Entity]]:
        return client.entities(given[at : at + 30], aggregation="average", timeout_s=PATIENCE_S)

    with Client(server.address) as client, ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(ask, client, at) for _ in range(6) for at in range(0, len(given), 30)]
        server.child("dispatcher 0").kill()
        for i, each in enumerate(asked):
            at = i * 30 % len(given)
            assert_same(each.result(PATIENCE_S), wanted[at : at + 30])
