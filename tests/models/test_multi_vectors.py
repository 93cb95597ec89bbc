"""A vector for each token against sentence-transformers' MultiVectorEncoder: queries, documents and other inputs."""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_cuda import VARIABLE, library
from multi_vectors import DIMENSIONS, DOCUMENT_TOKENS, EXPANDED, QUERY_TOKENS, write_multi, write_pylate
from sentence_transformers import MultiVectorEncoder
from token_classifiers import KINDS, texts

from fastqps import Engine
from fastqps.api.prediction import Vector
from fastqps.models import load_card

pytestmark = pytest.mark.compute

CLOSE = 1e-4
GIVEN = [*texts(20), "Hello, world! (a word...)", "", ".,!", "word " * 100]
LENGTHS = {"query_length": QUERY_TOKENS, "document_length": DOCUMENT_TOKENS}
MINIMAL = EXPANDED | {"strategy": "min"}
FORMS: dict[str, tuple[Callable[..., str], dict[str, Any]]] = {
    "expanded": (write_multi, LENGTHS | {"query_expansion": EXPANDED}),
    "at least": (write_multi, {"query_expansion": MINIMAL, "skiplist_tasks": ["query", "document"]}),
    "another token": (write_multi, {"query_expansion": EXPANDED | {"token": "a"}, "skiplist_words": ["a", "none"]}),
    "plain": (write_multi, {"query_length": 9, "skiplist_words": []}),
    "pylate": (write_pylate, {}),
    "pylate's words": (write_pylate, {"marked": False, "skiplist_words": ["word"], "prompts": {"query": "[Q] word "}}),
    "pylate unexpanded": (write_pylate, {"do_query_expansion": False, "attend_to_expansion_tokens": False}),
}


def assert_same(got: list[Vector], expected: list[Vector], close: float = CLOSE) -> None:
    assert [each.shape for each in got] == [each.shape for each in expected]
    np.testing.assert_allclose(np.concatenate(got), np.concatenate(expected), rtol=0, atol=close)


def by_reference(path: str) -> dict[str, list[Vector]]:
    model = MultiVectorEncoder(path, device="cpu")
    return {
        "query": model.encode_query(GIVEN, convert_to_numpy=True),
        "document": model.encode_document(GIVEN, convert_to_numpy=True),
        "": model.encode(GIVEN, convert_to_numpy=True),
    }


@pytest.mark.parametrize(
    ("form", "family"),
    [
        *(("expanded", family) for family in KINDS),
        ("at least", "roberta"),
        ("another token", "bert"),
        ("plain", "xlm-roberta"),
        ("pylate", "bert"),
        ("pylate's words", "bert"),
        ("pylate unexpanded", "roberta"),
    ],
)
def test_vectors_equal_sentence_transformers(tmp_path: Path, form: str, family: str) -> None:
    write, options = FORMS[form]
    path = write(tmp_path, family, **options)
    engine = Engine(path, dtype="float32")
    for name, expected in by_reference(path).items():
        assert_same(engine.embed_multi(GIVEN, prompt_name=name, truncate=True), expected)
    (alone,) = engine.embed_multi(GIVEN[:1], prompt_name="document", truncate=True)
    in_company = engine.embed_multi(GIVEN, prompt_name="document", truncate=True)[0]
    np.testing.assert_allclose(alone, in_company, rtol=0, atol=1e-5)


def test_other_operations_and_dtypes_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, library())
    path = write_multi(tmp_path, **LENGTHS, query_expansion=EXPANDED)
    expected = by_reference(path)
    for device, dtype, close in (("cuda", "float32", CLOSE), ("cpu", "bfloat16", 0.05), ("cuda", "bfloat16", 0.05)):
        engine = Engine(path, device=device, dtype=dtype)
        for name, rows in expected.items():
            assert_same(engine.embed_multi(GIVEN, prompt_name=name, truncate=True), rows, close)


def test_options(tmp_path: Path) -> None:
    engine = Engine(write_multi(tmp_path, **LENGTHS), dtype="float32")
    (whole,) = engine.embed_multi(["a word"], normalize=False)
    (short,) = engine.embed_multi(["a word"], dimensions=7)
    np.testing.assert_allclose(short, whole[:, :7] / np.linalg.norm(whole[:, :7], axis=1, keepdims=True), atol=1e-6)
    (ids,) = engine.predict([[2, 5, 6]])
    assert isinstance(ids, np.ndarray) and ids.shape == (3, DIMENSIONS)
    for wrong, said in (
        ({"prompt_name": "query"}, r"item 0 has \d+ tokens; the model takes 16"),
        ({"prompt_name": "nothing"}, "prompt_name: 'nothing'"),
        ({"dimensions": 25}, "dimensions: 25, at least 1 and at most 24"),
    ):
        with pytest.raises(ValueError, match=said):
            engine.embed_multi(["word " * 20], **wrong)
    with pytest.raises(ValueError, match="two texts"):
        engine.embed_multi([("a", "b")])
    with pytest.raises(ValueError, match="makes no embeddings"):
        engine.embed(["a"])


def test_tokens_that_no_other_attends_to(tmp_path: Path) -> None:
    """Queries are refused and the operator hears of it; documents are served."""
    path = write_pylate(tmp_path, attend_to_expansion_tokens=False)
    engine = Engine(path, dtype="float32")
    assert any(each.startswith("Queries are refused: ") for each in engine.card.warnings)
    with pytest.raises(ValueError, match=r"prompt_name: 'query': the checkpoint expands queries .* documents alone"):
        engine.embed_multi(["a"], prompt_name="query")
    assert_same(engine.embed_multi(GIVEN, prompt_name="document", truncate=True), by_reference(path)["document"])


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("tokenizer_config.json", {"padding_side": "left"}),
        ("tokenizer.json", {"padding": {"direction": "Left", "strategy": "BatchLongest", "pad_token": "[PAD]"}}),
    ],
)
def test_expansion_in_front_of_a_query(tmp_path: Path, file: str, changes: dict[str, Any]) -> None:
    """Queries are refused; documents are those that stand in no batch, in which they would have other positions."""
    path = write_pylate(tmp_path)
    found = json.loads((tmp_path / file).read_text()) | changes
    if file == "tokenizer.json":
        found["padding"] |= {"pad_id": 0, "pad_type_id": 0, "pad_to_multiple_of": None}
    (tmp_path / file).write_text(json.dumps(found))
    engine, model = Engine(path, dtype="float32"), MultiVectorEncoder(path, device="cpu")
    assert model.tokenizer.padding_side == "left"
    with pytest.raises(ValueError, match=r"prompt_name: 'query': the tokenizer's padding_side is left"):
        engine.embed_multi(["a"], prompt_name="query")
    expected = [model.encode_document([each], convert_to_numpy=True)[0] for each in GIVEN[:4]]
    assert_same(engine.embed_multi(GIVEN[:4], prompt_name="document", truncate=True), expected)


def test_a_card_says_how_inputs_are_taken(tmp_path: Path) -> None:
    card = load_card(write_multi(tmp_path, "roberta", **LENGTHS, query_expansion=EXPANDED), 50)
    assert (card.task, card.dimensions, card.normalize, card.max_input_tokens) == ("embed_multi", DIMENSIONS, True, 50)
    assert [(role.name, role.max_tokens, role.expanded_to) for role in card.roles] == [
        ("", 50, 0),
        ("document", DOCUMENT_TOKENS, 0),
        ("query", QUERY_TOKENS, QUERY_TOKENS),
    ]
    assert [len(role.skipped) for role in card.roles] == [len(string.punctuation)] * 2 + [0]
    assert card.from_json(card.to_json()) == card
