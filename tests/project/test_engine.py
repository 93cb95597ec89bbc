"""The engine against sentence-transformers: real MiniLM weights, and cross-encoders."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import write_checkpoint
from sentence_transformers import CrossEncoder, SentenceTransformer
from tokenized_classifiers import classifier_at

from fastqps import Engine
from fastqps.devices.cpu.transformer import choose_dtype
from fastqps.engine.answers import answer
from fastqps.models import ModelError, load_card

pytestmark = pytest.mark.compute

MINILM = load_card("minilm")


def some_texts(seed: int = 0, n: int = 40) -> list[str]:
    """Words of all lengths and scripts in texts of 0 to 250 words; the longest ones are cut at the model's limit."""
    words = [
        "the",
        "quick",
        "Zürich",
        "naïve",
        "東京",
        "internationalization,",
        "3.14",
        "(quantum)",
        "don't",
        "🙂",
        "of",
    ]
    rng = random.Random(seed)
    return ["", *(" ".join(rng.choices(words, k=rng.choice([1, 2, 5, 12, 30, 60, 250]))) for _ in range(n))]


@pytest.fixture(scope="module")
def wanted() -> np.ndarray:
    """What sentence-transformers answers to ``some_texts()``."""
    return SentenceTransformer(MINILM.path, device="cpu").encode(some_texts(), convert_to_numpy=True)


@pytest.mark.parametrize(("dtype", "cosine_min"), [("float32", 0.9999), ("bfloat16", 0.999)])
def test_minilm_equals_sentence_transformers(wanted: np.ndarray, dtype: str, cosine_min: float) -> None:
    if dtype == "bfloat16" and choose_dtype("auto") != torch.bfloat16:
        pytest.skip("this CPU has no bf16")
    texts = some_texts()
    got = np.stack(Engine("minilm", dtype=dtype).predict(texts, truncate=True))
    assert got.dtype == np.float32 and got.shape == (len(texts), 384)
    assert (got * wanted).sum(1).min() >= cosine_min
    assert np.abs(np.linalg.norm(got, axis=1) - 1).max() < 1e-5


def changes_by_company(engine: Engine, texts: list[str]) -> float:
    """The largest difference between a text's numbers in a batch of all texts and in smaller ones."""
    together = np.stack(engine.predict(texts, truncate=True))
    found = 0.0
    for size in (1, 3, 11):
        chosen = random.Random(size).sample(range(len(texts)), size)
        fewer = np.stack(engine.predict([texts[i] for i in chosen], truncate=True))
        found = max(found, float(np.abs(fewer - together[chosen]).max()))
    return found


def test_company_changes_nothing() -> None:
    assert changes_by_company(Engine("minilm", dtype="float32"), some_texts(1, 24)) <= 1e-5


def test_company_changes_no_more_than_bf16_rounds() -> None:
    """A CPU with AMX adds up products in another order in batches of another size."""
    if choose_dtype("auto") != torch.bfloat16:
        pytest.skip("this CPU has no bf16")
    texts = some_texts(1, 24)
    engine = Engine("minilm", dtype="bfloat16")
    exact = np.stack(Engine("minilm", dtype="float32").predict(texts, truncate=True))
    rounding = float(np.abs(np.stack(engine.predict(texts, truncate=True)) - exact).max())
    assert changes_by_company(engine, texts) <= rounding


def test_order_and_many_batches() -> None:
    engine = Engine("minilm")
    texts = [f"text number {i} " * (1 + i % 12) for i in range(300)]
    rows = engine.predict(texts)
    assert len(rows) == 300
    for i in (0, 1, 39, 150, 299):
        assert float(np.asarray(rows[i]) @ np.asarray(engine.predict([texts[i]])[0])) > 0.9999


def test_token_ids_are_taken_as_they_are() -> None:
    engine = Engine("minilm")
    ids = [101, 7592, 2088, 102]  # [CLS] hello world [SEP]
    text, given, again = engine.predict(["hello world", ids, np.array(ids, np.uint32)])
    assert np.array_equal(text, given) and np.array_equal(text, again)


@pytest.mark.parametrize("labels", [1, 3])
def test_pairs_equal_cross_encoder(tmp_path: Path, labels: int) -> None:
    tokenizer = Path(MINILM.tokenizer).parent
    write_checkpoint(tmp_path / "plain", "bert", "classify", num_labels=labels, vocab_size=MINILM.vocab_size)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        (tmp_path / "plain" / name).write_bytes((tokenizer / name).read_bytes())
    oracle = CrossEncoder(str(tmp_path / "plain"), device="cpu")
    oracle.save_pretrained(str(tmp_path / "saved"))
    engine = Engine(str(tmp_path / "saved"), dtype="float32")
    pairs = [
        ("how are you?", "I am fine"),
        ("a", "b c d e f g"),
        ("", "only the second"),
        ("long " * 100, "cut " * 100),
    ]
    want = np.asarray(oracle.predict(pairs)).reshape(len(pairs), labels)
    assert engine.card.activation == ("sigmoid" if labels == 1 else "identity")
    for scores, expected in zip(engine.predict(pairs, truncate=True), want, strict=True):
        assert [score for _, score in scores] == sorted((score for _, score in scores), reverse=True)
        found = dict(scores)
        assert np.allclose([found[label] for label in engine.card.labels], expected, atol=1e-4)


def test_classifier_scores() -> None:
    from dataclasses import replace

    card = replace(MINILM, task="classify", labels=("a", "b", "c"), dimensions=3, activation="softmax")
    row = np.log(np.array([0.25, 0.5, 0.25], np.float32))
    assert [label for label, _ in answer(card, row)] == ["b", "a", "c"]
    assert np.allclose([score for _, score in answer(card, row)], [0.5, 0.25, 0.25])
    assert [label for label, _ in answer(card, row + 1000)] == ["b", "a", "c"]
    zero = np.zeros(3, np.float32)
    assert answer(replace(card, activation="sigmoid"), zero) == [("a", 0.5), ("b", 0.5), ("c", 0.5)]
    assert answer(replace(card, activation="identity"), zero - 2) == [("a", -2.0), ("b", -2.0), ("c", -2.0)]
    assert np.array_equal(answer(MINILM, np.zeros(384, np.float32)), np.zeros(384)), "a zero vector stays zero"


@pytest.mark.parametrize(
    ("items", "said"),
    [
        (["ok", "word " * 300], "item 1 has 302 tokens; the model takes 256"),
        ([[]], "item 0"),
        ([[101, 30522]], "item 0: token id 30522, must be at least 0 and below 30522"),
        ([[-1]], "item 0: token id -1, must be at least 0"),
        ([["not", "ids"]], "item 0"),
        ([[1.5]], "item 0"),
        (["ok", "\ud800"], "item 1: .*surrogates"),
        ([[101], ("ok", "\ud800")], "item 1: .*surrogates"),
        (["ok", 3], "item 1: expected a text"),
        ([[1] * 257], "item 0 has 257 tokens"),
        ("one text", "list"),
    ],
)
def test_bad_items_are_named(items: list[object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Engine("minilm", device="null").predict(items)  # type: ignore[arg-type]


def test_no_tokenizer(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert")
    engine = Engine(str(tmp_path), dtype="float32")
    assert np.asarray(engine.predict([[5, 6, 7]])[0]).shape == (32,)
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        engine.predict(["text"])


def test_empty_list() -> None:
    assert Engine("minilm", device="null").predict([]) == []


def test_embed_gives_what_a_client_gets() -> None:
    """One float32 row for each text, cut and scaled as asked for; the refusal names the value and the limit."""
    engine = Engine("minilm", dtype="float32")
    texts = ["a text", "another"]
    rows = engine.embed(texts)
    assert rows.shape == (2, 384) and rows.dtype == np.float32
    assert np.array_equal(rows, np.stack(engine.predict(texts)))
    raw = engine.embed(texts, normalize=False)
    assert abs(np.linalg.norm(raw[0]) - 1) > 0.01
    cut = engine.embed(texts, dimensions=64)
    assert np.allclose(cut, raw[:, :64] / np.linalg.norm(raw[:, :64], axis=1, keepdims=True), atol=1e-6)
    assert engine.embed([]).shape == (0, 0)
    for dimensions in (0, 385):
        with pytest.raises(ValueError, match=rf"^dimensions: {dimensions}, at least 1 and at most 384$"):
            engine.embed(texts, dimensions=dimensions)


def test_embed_is_for_models_that_embed() -> None:
    with pytest.raises(ValueError, match="makes no embeddings"):
        Engine("grammar", device="null").embed(["a"])


def test_classify_gives_the_labels_of_predict(tmp_path: Path) -> None:
    engine, texts = Engine(classifier_at(tmp_path, 3)), ["a text", "another"]
    for found, expected in zip(engine.classify(texts), engine.predict(texts), strict=True):
        assert [(label.name, label.score) for label in found] == expected
        assert [engine.card.labels[label.index] for label in found] == [label.name for label in found]
    best = engine.classify(texts, top_labels=2)
    assert [labels[:2] for labels in engine.classify(texts)] == best
    logits = np.array([[label.score for label in labels] for labels in engine.classify(texts, raw_scores=True)])
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(
        shares, [[label.score for label in found] for found in engine.classify(texts)], rtol=1e-5
    )
    with pytest.raises(ValueError, match="top_labels: 0, at least 1 and at most 3"):
        engine.classify(texts, top_labels=0)
    with pytest.raises(ValueError, match="minilm does not classify texts: its task is embed"):
        Engine("minilm", device="null").classify(texts)
