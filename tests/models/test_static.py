"""Static models against the packages that made them: model2vec, sentence-transformers, WordLlama."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import static_models
from safetensors.numpy import load_file, save_file

from fastqps import Engine
from fastqps.devices.errors import DeviceError
from fastqps.models import ModelError, load_card
from fastqps.models.cards import check_files
from fastqps.models.files.tensors import read_tensors
from fastqps.models.names import packaged
from fastqps.runners.tensor_values import read_values

pytestmark = pytest.mark.compute

CLOSE = 1e-5
MAX_TOKENS = 4096  # that no text here has
COUNT = int(os.environ.get("FASTQPS_STATIC_TEXTS", "300"))  # make nightly: 100,000
WORDLLAMA = pytest.mark.skipif(packaged("wordllama") is None, reason="needs the package wordllama")


@cache
def all_texts() -> list[str]:
    return static_models.texts(COUNT)


def embeddings(path: Path | str, texts: list[str]) -> Any:
    engine = Engine(str(path), max_input_tokens=MAX_TOKENS)
    try:
        return engine.embed(texts, truncate=True)
    finally:
        engine.close()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize(("weighted", "mapped"), [(False, False), (True, False), (True, True), (False, True)])
def test_model2vec(tmp_path: Path, dtype: Any, weighted: bool, mapped: bool) -> None:
    texts = all_texts()
    reference = static_models.model2vec(tmp_path / "m", 100, dtype, weighted=weighted, mapped=mapped)
    # The package sums fp16 tables in fp16 where nothing weighs the rows: the reference is the same table as float32.
    reference.embedding = reference.embedding.astype(np.float32)
    wanted = reference.encode(texts, use_multiprocessing=False)
    assert np.abs(embeddings(tmp_path / "m", texts) - wanted).max() < CLOSE


@pytest.mark.parametrize("normalize", [False, True])
def test_model2vec_says_whether_embeddings_are_normalized(tmp_path: Path, normalize: bool) -> None:
    reference = static_models.model2vec(tmp_path / "m", normalize=normalize)
    wanted = reference.encode(all_texts(), use_multiprocessing=False)
    assert np.abs(embeddings(tmp_path / "m", all_texts()) - wanted).max() < CLOSE


@pytest.mark.parametrize(("max_length", "side"), [(7, "right"), (7, "left"), (60, "right"), (512, "right")])
def test_long_texts_are_cut_as_model2vec_cuts_them(tmp_path: Path, max_length: int, side: str) -> None:
    """By characters before they are tokenized, then by tokens; unknown ones count until they are left out.

    The package never obeys the truncation of its tokenizer.json, of which ``side`` is.
    """
    tokenizer = static_models.word_pieces()
    tokenizer.enable_truncation(20, direction=side)
    static_models.model2vec(tmp_path / "m", tokenizer=tokenizer)
    static_models.rewrite(tmp_path / "m/tokenizer.json", truncation=json.loads(tokenizer.to_str())["truncation"])
    static_models.rewrite(tmp_path / "m/config.json", max_length=max_length)
    from model2vec import StaticModel

    reference = StaticModel.from_pretrained(tmp_path / "m")
    spaces = " " * 5000
    texts = [*all_texts(), f"{spaces}the", f"the{spaces}ba", "é" * 3000, "日本 the " * 900, "ba de " * 900]
    wanted = reference.encode(texts, use_multiprocessing=False)
    engine = Engine(str(tmp_path / "m"))
    assert engine.card.max_characters == max_length * reference.median_token_length
    assert np.abs(engine.embed(texts, truncate=True) - wanted).max() < CLOSE
    with pytest.raises(ValueError, match=f"5003 characters; the model takes {engine.card.max_characters} "):
        engine.embed([f"{spaces}the"])
    engine.close()
    shorter = Engine(str(tmp_path / "m"), max_input_tokens=5)
    wanted = reference.encode(texts, use_multiprocessing=False, max_length=5)
    assert np.abs(shorter.embed(texts, truncate=True) - wanted).max() < CLOSE


@pytest.mark.parametrize("quantize_to", ["float32", "float16", "int8"])
@pytest.mark.parametrize("clusters", [None, 40])
def test_quantized_model2vec(tmp_path: Path, quantize_to: str, clusters: int | None) -> None:
    """As the package itself makes a model smaller: clusters of its vocabulary, fewer dimensions, other numbers."""
    from model2vec.model import quantize_model

    model = static_models.model2vec(tmp_path / "whole", 64)
    small = quantize_model(model, vocabulary_quantization=clusters, quantize_to=quantize_to, dimensionality=32)
    small.save_pretrained(tmp_path / "m")
    small.embedding = small.embedding.astype(np.float32)  # the package would sum fp16 in fp16
    wanted = small.encode(all_texts(), use_multiprocessing=False)
    assert np.abs(embeddings(tmp_path / "m", all_texts()) - wanted).max() < CLOSE


@pytest.mark.parametrize("kind", static_models.TOKENIZERS)
def test_other_tokenizers(tmp_path: Path, kind: str) -> None:
    reference = static_models.model2vec(tmp_path / "m", tokenizer=static_models.TOKENIZERS[kind]())
    wanted = reference.encode(all_texts(), use_multiprocessing=False)
    assert np.abs(embeddings(tmp_path / "m", all_texts()) - wanted).max() < CLOSE


@pytest.mark.parametrize("dense", ["", "Tanh", "GELU", "Identity", "ReLU", "Sigmoid"])
@pytest.mark.parametrize("normalize", [False, True])
def test_sentence_transformers(tmp_path: Path, dense: str, normalize: bool) -> None:
    texts = all_texts()
    reference = static_models.sentence_transformers(tmp_path / "s", dense=dense, normalize=normalize)
    wanted = reference.encode(texts)
    assert np.abs(embeddings(tmp_path / "s", texts) - wanted).max() < CLOSE


@pytest.mark.parametrize(("activation", "hidden"), [("softmax", (16,)), ("sigmoid", ()), ("softmax", (8, 8))])
def test_classifiers(tmp_path: Path, activation: str, hidden: tuple[int, ...]) -> None:
    texts = all_texts()
    reference = static_models.classifier(tmp_path / "c", activation, hidden)
    wanted = reference.predict_proba(texts, use_multiprocessing=False)
    engine = Engine(str(tmp_path / "c"), max_input_tokens=MAX_TOKENS)
    assert engine.card.labels == ("no", "perhaps", "yes")
    answers = map(dict, engine.predict(texts, truncate=True))
    found = np.array([[answer[label] for label in engine.card.labels] for answer in answers])
    assert np.abs(found - wanted).max() < CLOSE


def test_a_regressor_has_scores(tmp_path: Path) -> None:
    texts = static_models.texts(50)
    reference = static_models.classifier(tmp_path / "c", "identity")
    wanted = reference.predict(texts, use_multiprocessing=False)
    engine = Engine(str(tmp_path / "c"), max_input_tokens=MAX_TOKENS)
    for answer, row in zip(engine.predict(texts, truncate=True), wanted, strict=True):
        found = dict(answer)
        assert [found[f"LABEL_{i}"] for i in range(3)] == pytest.approx(row, abs=CLOSE)


@WORDLLAMA
def test_wordllama() -> None:
    from tokenizers import Tokenizer
    from wordllama.inference import WordLlamaInference

    folder = packaged("wordllama")
    assert folder is not None
    table = load_file(folder / "weights/l2_supercat_256.safetensors")["embedding.weight"]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizers/l2_supercat_tokenizer_config.json"))
    reference = WordLlamaInference(table, tokenizer)
    texts = [text for text in all_texts() if text]
    wanted = reference.embed(texts)
    found = embeddings("wordllama", texts)
    assert np.abs(found - wanted).max() < CLOSE
    assert not embeddings("wordllama", [""]).any() and not reference.embed([""]).any()


def test_texts_without_tokens_give_zeros(tmp_path: Path) -> None:
    static_models.model2vec(tmp_path / "m")
    found = embeddings(tmp_path / "m", ["", "   ", "日本語", "the"])
    assert not found[:3].any() and np.linalg.norm(found[3]) == pytest.approx(1)
    static_models.sentence_transformers(tmp_path / "s", dense="Identity", normalize=False)
    found = embeddings(tmp_path / "s", ["", "日本語", "the"])
    assert (found[0] != found[1]).any(), "sentence-transformers has a vector for the unknown token"


def test_limits_and_warnings(tmp_path: Path) -> None:
    static_models.model2vec(tmp_path / "m")
    card = load_card(str(tmp_path / "m"))
    assert (card.max_input_tokens, card.normalize, card.dimensions, card.warnings) == (512, True, 64, ())
    assert load_card(str(tmp_path / "m"), MAX_TOKENS).max_input_tokens == MAX_TOKENS, "the model has no limit"
    static_models.rewrite(tmp_path / "m/config.json", max_length=20)
    short = load_card(str(tmp_path / "m"), 16)
    assert short.max_input_tokens == 16 and "takes 20" in short.warnings[0]
    assert load_card(str(tmp_path / "m"), MAX_TOKENS).max_input_tokens == 20
    assert load_card(str(tmp_path / "m")).version != card.version
    with pytest.raises(ModelError, match="its files have changed"):
        check_files(card)


def tensors(**changes: Any) -> Callable[[Path], None]:
    """Replaces tensors of a checkpoint; None takes one away."""

    def spoil(folder: Path) -> None:
        found = {**load_file(folder / "model.safetensors"), **changes}
        save_file({name: tensor for name, tensor in found.items() if tensor is not None}, folder / "model.safetensors")

    return spoil


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


WIDTH, ROWS = 64, static_models.word_pieces().get_vocab_size()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (tensors(embeddings=None, other=np.zeros(3)), "no tensor embedding"),
        (tensors(embeddings=np.zeros((3, 4, 5))), "is F64 [3, 4, 5]"),
        (tensors(embeddings=np.zeros((9, 4), np.float32)), "9 token ids have a vector"),
        (tensors(embeddings=np.full((ROWS, 4), np.nan, np.float32)), "holds NaN"),
        (tensors(weights=np.full(ROWS, np.inf, np.float32)), "weights holds NaN or infinity"),
        (tensors(mapping=np.full(ROWS, ROWS)), f"mapping names row {ROWS} of {ROWS}"),
        (tensors(mapping=np.zeros(ROWS), weights=np.zeros(3)), "one number for each token id"),
        (tensors(mapping=np.zeros(ROWS)), "mapping is F64"),
        (lambda m: cut_off(m / "model.safetensors"), "ends behind the file's end"),
        (lambda m: (m / "model.safetensors").write_bytes(b"{}"), "not a safetensors file"),
        (lambda m: (m / "model.safetensors").write_bytes(b"\xff" * 64), "not a safetensors file"),
        (lambda m: (m / "model.safetensors").unlink(), "no model.safetensors"),
        (lambda m: (m / "tokenizer.json").unlink(), "no tokenizer.json"),
        (lambda m: (m / "tokenizer.json").write_text("{"), "tokenizer.json"),
        (lambda m: (m / "pipeline.skops").write_bytes(b""), "a pickle can run any code"),
        (lambda m: static_models.rewrite(m / "config.json", max_length=0), "must be at least 1"),
        (
            lambda m: (m / "config_sentence_transformers.json").write_text(
                '{"prompts": {"query": "q: "}, "default_prompt_name": "query"}'
            ),
            "prompt",
        ),
    ],
)
def test_bad_checkpoints_are_refused_in_one_line(tmp_path: Path, spoil: Callable[[Path], object], message: str) -> None:
    static_models.model2vec(tmp_path / "m", WIDTH)
    spoil(tmp_path / "m")
    with pytest.raises(ModelError) as caught:
        Engine(str(tmp_path / "m"))
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_layers": 0}, "n_layers 0"),
        ({"n_layers": 5}, "no tensor head.2.weight"),
        ({"activation": "relu"}, "activation 'relu' is not supported"),
        ({"classes": ["a", "b"]}, "gives 3 numbers for 2 labels"),
        ({"classes": []}, "no labels"),
    ],
)
def test_bad_heads_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    static_models.classifier(tmp_path / "c")
    config = {"n_layers": 2, "activation": "softmax", "classes": ["no", "perhaps", "yes"]}
    static_models.rewrite(tmp_path / "c/config.json", head_config={**config, **changes})
    with pytest.raises(ModelError) as caught:
        Engine(str(tmp_path / "c"))
    assert message in str(caught.value)


@pytest.mark.parametrize("options", [{"quantization": "fp8"}, {"quantization": "int8"}, {"dtype": "bfloat16"}])
def test_settings_without_effect_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    static_models.model2vec(tmp_path / "m")
    with pytest.raises(DeviceError, match="has no effect on m, a static model"):
        Engine(str(tmp_path / "m"), **options)


def test_tensors_are_mapped(tmp_path: Path) -> None:
    save_file({"a": np.arange(6, dtype=np.float16).reshape(2, 3), "b": np.arange(3)}, tmp_path / "t")
    found = read_tensors(tmp_path / "t")
    assert (read_values(found["a"]) == [[0, 1, 2], [3, 4, 5]]).all() and (read_values(found["b"]) == [0, 1, 2]).all()
    assert not read_values(found["a"]).flags.writeable
