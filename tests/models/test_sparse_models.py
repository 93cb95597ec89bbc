"""Sparse embeddings against sentence-transformers' SparseEncoder, of every family and published spelling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from sentence_files import MODEL_FILE, write
from sentence_transformers import SparseEncoder
from sparse_encoders import SPARSE_FAMILIES, SPELLINGS, write_sparse_encoder
from token_classifiers import texts

from fastqps.api.prediction import SparseEmbedding, Vector
from fastqps.architectures import vocabulary_head
from fastqps.engine.engine import Engine
from fastqps.models import ModelError, load_card
from fastqps.ops.cpu.matrix import multiplies

pytestmark = [pytest.mark.compute, pytest.mark.usefixtures("one_thread")]

CLOSE = 1e-4
GIVEN = [*texts(12), "word " * 30]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many products of a small vocabulary, the last one narrower."""
    monkeypatch.setattr(vocabulary_head, "_COLUMNS", 48)


def dense(found: SparseEmbedding, vocab: int) -> Vector:
    """float32 [vocab]. The weights are in order, each id comes once."""
    order = sorted(zip((-found.weights).tolist(), found.ids.tolist(), strict=True))
    assert [i for _, i in order] == found.ids.tolist() and len({*found.ids.tolist()}) == len(found.ids)
    assert (found.weights > 0).all() and found.active >= len(found.ids)
    row = np.zeros(vocab, np.float32)
    row[found.ids] = found.weights
    return row


def expected(folder: Path, given: list[str], **options: Any) -> tuple[Vector, Vector]:
    """Rows as an answer has them, and with all weights."""
    model = SparseEncoder(str(folder), device="cpu")
    limit = load_card(str(folder)).max_active_dims
    kept = [model.encode(given, convert_to_sparse_tensor=False, max_active_dims=n) for n in (limit, 10**6)]
    return kept[0].numpy(), kept[1].numpy()


def check_equal(folder: Path, given: list[str] = GIVEN) -> Engine:
    engine = Engine(str(folder), dtype="float32")
    found, (kept, whole) = engine.embed_sparse(given), expected(folder, given)
    for one, row, all_of_it in zip(found, kept, whole, strict=True):
        assert np.abs(dense(one, len(row)) - row).max() < CLOSE
        assert abs(one.active - (all_of_it > 0).sum()) <= ((all_of_it > 0) & (all_of_it < CLOSE)).sum()
    return engine


@pytest.mark.parametrize("family", SPARSE_FAMILIES)
def test_every_family_equals_sentence_transformers(tmp_path: Path, family: str) -> None:
    n = SPARSE_FAMILIES.index(family)
    options = {"classifier_bias": True, "norm_bias": True, "decoder_bias": False} if family == "modernbert" else {}
    write_sparse_encoder(tmp_path, family, ("relu", "log1p_relu")[n % 2], n % len(SPELLINGS), **options)
    engine = check_equal(tmp_path)
    together = engine.embed_sparse(GIVEN)
    for text, one in zip(GIVEN, together, strict=True):
        (alone,) = engine.embed_sparse([text])
        vocab = engine.card.vocab_size
        assert np.abs(dense(alone, vocab) - dense(one, vocab)).max() < 1e-5


def test_the_weights_of_an_answer_are_limited(tmp_path: Path) -> None:
    write_sparse_encoder(tmp_path, "bert", model={"max_active_dims": 20})
    engine = check_equal(tmp_path)
    (most,), (few,) = engine.embed_sparse(GIVEN[:1]), engine.embed_sparse(GIVEN[:1], max_active_dims=7)
    assert len(most.ids) == 20 < most.active == few.active
    assert few.ids.tolist() == most.ids[:7].tolist() and few.weights.tolist() == most.weights[:7].tolist()
    with pytest.raises(ValueError, match="max_active_dims: 21, at least 1 and at most 20"):
        engine.embed_sparse(GIVEN[:1], max_active_dims=21)
    with pytest.raises(ValueError, match="makes no embeddings"):
        engine.embed(GIVEN[:1])
    write(tmp_path / MODEL_FILE, {"model_type": "SparseEncoder", "max_active_dims": 5000})
    assert (
        "Sparse embeddings have at most 386 weights, the checkpoint allows 5000." in load_card(str(tmp_path)).warnings
    )


def test_a_head_of_its_own(tmp_path: Path) -> None:
    """Its decoder is not the table of words, and config.json says so."""
    write_sparse_encoder(tmp_path, "bert", tie_word_embeddings=False)
    check_equal(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    write(tmp_path / "config.json", config | {"tie_word_embeddings": True})
    with pytest.raises(ModelError, match=r"decoder\.weight that differs from embeddings\.word_embeddings\.weight"):
        Engine(str(tmp_path))


def test_older_names_of_tensors(tmp_path: Path) -> None:
    """The bias of the head under either name or both, and none of the decoder's weight, which is the table."""
    write_sparse_encoder(tmp_path, "bert")
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    bias = tensors["cls.predictions.bias"]
    for names in (["bias"], ["decoder.bias"], ["bias", "decoder.bias"]):
        rest = {
            name: tensor for name, tensor in tensors.items() if not name.endswith(("predictions.bias", "decoder.bias"))
        }
        save_file(rest | {f"cls.predictions.{name}": bias.clone() for name in names}, file, {"format": "pt"})
        check_equal(tmp_path, GIVEN[:2])
    del rest["cls.predictions.transform.dense.weight"]
    save_file(rest, file, {"format": "pt"})
    with pytest.raises(ModelError, match=r"has no tensor 'cls\.predictions\.transform\.dense\.weight'"):
        Engine(str(tmp_path))


@pytest.mark.parametrize(("dtype", "quantization", "least"), [("bfloat16", "none", 0.999), ("auto", "int8", 0.99)])
def test_smaller_numbers_stay_close(tmp_path: Path, dtype: str, quantization: str, least: float) -> None:
    """docs/models.md states these bounds of the cosine with fp32."""
    if dtype == "bfloat16" and not multiplies():
        pytest.skip("products are torch's on this CPU, which may have no bf16")
    write_sparse_encoder(tmp_path, "bert", hidden_size=64, intermediate_size=128, num_hidden_layers=4)
    exact = Engine(str(tmp_path), dtype="float32").embed_sparse(GIVEN)
    found = Engine(str(tmp_path), dtype=dtype, quantization=quantization).embed_sparse(GIVEN)
    for one, other in zip(exact, found, strict=True):
        a, b = dense(one, 386), dense(other, 386)
        assert a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) > least
