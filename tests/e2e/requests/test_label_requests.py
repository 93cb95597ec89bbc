"""Labels that are tokens at a server: every protocol gives the engine's scores, of texts and of pairs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from posting import Poster
from rerankers import CHATML, PAIRS, write_bge, write_logit_score, write_qwen
from serving import Server, until

from fastqps import Chat, Client, Engine, InvalidArgument
from fastqps.cli import main

QUERY, DOCUMENTS = "what is food", ["a meal", "a stone on a road", "", "long " * 3000]  # the last by another thread
LABELS = ["the", "of", "yes"]
CLOSE = 2e-5


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Engine]:
    """By name: labels of a text, those of the packages' tokenizer, two labels and one of a pair, and a LogitScore."""
    path = tmp_path_factory.mktemp("labels")
    write_qwen(path / "mood", CHATML.replace("each.content", "each.content | trim"))
    write_qwen(path / "package", CHATML, native=False)
    write_qwen(path / "judge")
    write_bge(path / "bge")
    write_qwen(path / "files")
    write_logit_score(path / "files", "yes", "no", prompts={"web": "Is it so?"})
    told: dict[str, Any] = {name: {"labels": LABELS} for name in ("mood", "package")}
    told["judge"] = {"labels": ["yes", "no"], "template": "qwen3-reranker"}
    told["bge"] = {"labels": ["Yes"], "template": "bge-reranker-v2-gemma"}
    return {name: Engine(str(path / name), dtype="float32", **told.get(name, {})) for name in (*told, "files")}


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server], engines: dict[str, Engine]) -> Server:
    models = (f"--model={name}={engine.card.path}" for name, engine in engines.items())
    labels = (f"--labels={name}={','.join(LABELS)}" for name in ("mood", "package"))
    told = (*models, *labels, "--labels=judge=yes,no", "--template=judge=qwen3-reranker")
    told += ("--labels=bge=Yes", "--template=bge=bge-reranker-v2-gemma")
    return module_server(*told, "--device=cpu", "--dtype=float32", "--dispatchers=1", "--frontdoors=1")


@pytest.mark.parametrize("name", ["mood", "package", "judge", "bge", "files"])
def test_scores_are_the_engine_s(server: Server, engines: dict[str, Engine], name: str) -> None:
    engine = engines[name]
    items: list[Any] = (
        ["a film", "été\n", "\u2003a\x85\u3000", "long " * 2000] if engine.card.templates[0].text else PAIRS
    )
    with Client(server.address) as client:
        (model,) = [each for each in client.models() if each.name == name]
        assert list(model.labels) == list(engine.card.labels)
        for prompt in ("", *model.prompt_names):
            asked: Any = {"prompt_name": prompt, "truncate": True}
            wanted = engine.predict(items, **asked)
            found = client.predict_batch(items, model=name, **asked)
            for prediction, scores in zip(found, wanted, strict=True):
                names, numbers = zip(*scores, strict=True)
                assert tuple(label.name for label in prediction.labels) == names
                np.testing.assert_allclose([label.score for label in prediction.labels], numbers, atol=CLOSE)


def test_an_opening_is_not_computed_again(server: Server, engines: dict[str, Engine]) -> None:
    """Steps have the tokens that are left; usage counts all, and token ids begin as they like."""
    card = engines["judge"].card
    opening, rest = list(card.opening_ids), [40, 41, 42]
    computed = "fastqps_batch_tokens_sum{judge}"
    with Client(server.address) as client:
        for ids, left in ((opening + rest, 3), (opening[:9] + rest, 3), (rest, 3), (opening, 1)):
            before = server.metrics().get(computed, 0)
            found = client.predict(ids, model="judge")
            (wanted,) = engines["judge"].predict([ids])
            assert found.usage.input_tokens == len(ids)
            assert {each.name: each.score for each in found.labels} == pytest.approx(dict(wanted), abs=CLOSE)
            until(lambda before=before, left=left: server.metrics()[computed] - before == left, server.log)


def test_an_input_without_a_place_is_refused(server: Server) -> None:
    with (
        Client(server.address) as client,
        pytest.raises(InvalidArgument, match="template of 'judge' has no place for a"),
    ):
        client.predict("a text alone", model="judge")


def test_a_conversation_is_for_generators(server: Server) -> None:
    chat, why = Chat([{"role": "user", "content": "a film"}]), "'mood' classifies texts"
    with Client(server.address, model="mood") as client:
        for ask in (client.predict, client.generate):
            with pytest.raises(InvalidArgument, match=why):
                ask(chat)
        (refused,) = client.predict_batch([chat])
        assert why in str(refused.error)
    for path in ("/v1/chat/completions", "/tokenize"):
        status, answer = Poster(server)(path, {"model": "mood", "messages": [{"role": "user", "content": "a film"}]})
        assert status == 400 and why in answer["error"]["message"]


def test_other_protocols(server: Server, engines: dict[str, Engine]) -> None:
    """Classes of a text, and rankings of documents."""
    post = Poster(server)
    wanted = dict(engines["mood"].predict(["a film"])[0])
    found = {each["label"]: each["score"] for each in post.found("/predict", inputs="a film", model="mood")}
    assert found == pytest.approx(wanted, abs=CLOSE)
    (classes,) = post.found("/classify", input="a film", model="mood")["data"]
    assert classes["probs"] == pytest.approx([wanted[name] for name in LABELS], abs=CLOSE)
    pairs = [(QUERY, document) for document in DOCUMENTS]
    for name in ("files", "judge", "bge"):
        scores = [dict(each)[engines[name].card.labels[0]] for each in engines[name].predict(pairs, truncate=True)]
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        body = {"model": name, "query": QUERY, "documents": DOCUMENTS}
        for route in ("/v1/rerank", "/v2/rerank"):
            results = post.found(route, **body)["results"]
            assert [each["index"] for each in results] == order
            assert [each["relevance_score"] for each in results] == pytest.approx([scores[i] for i in order], abs=CLOSE)
        ranks = post.found("/rerank", model=name, query=QUERY, texts=DOCUMENTS)
        assert {each["index"]: each["score"] for each in ranks} == pytest.approx(dict(enumerate(scores)), abs=CLOSE)
        given = {"model": name, "queries": QUERY, "documents": DOCUMENTS[:2]}
        assert [each["score"] for each in post.found("/score", **given)["data"]] == pytest.approx(scores[:2], abs=CLOSE)
    raw = post.found("/rerank", model="bge", query=QUERY, texts=DOCUMENTS, raw_scores=True)
    logits = engines["bge"].classify(pairs, truncate=True, raw_scores=True)
    assert [each["index"] for each in raw] == sorted(range(len(logits)), key=lambda i: -logits[i][0].score)
    assert {each["index"]: each["score"] for each in raw} == pytest.approx(
        {i: label.score for i, (label,) in enumerate(logits)}, rel=1e-4
    )


def test_the_command_line(server: Server, engines: dict[str, Engine], capsys: pytest.CaptureFixture[str]) -> None:
    path = str(engines["mood"].card.path)
    found = []
    for where in (["--address", server.address, "--model=mood"], ["--model", path, f"--labels={','.join(LABELS)}"]):
        assert main(["predict", "a film", *where]) == 0
        found.append(json.loads(capsys.readouterr().out)["labels"])
    assert [label["name"] for label in found[0]] == [label["name"] for label in found[1]]
    assert main(["predict", "a film", "--labels=yes", "--address", server.address]) == 2
    assert "--labels is of a model here" in capsys.readouterr().err
