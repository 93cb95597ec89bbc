"""The opening of a model: what its inputs begin with is computed once, and no answer changes."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tr
from embedding_decoders import write_e5_mistral, write_embedding_gemma, write_qwen3
from fake_cuda import VARIABLE, library
from rerankers import CHATML, PAIRS, write_qwen
from sentence_transformers import SentenceTransformer

from fastqps import Engine
from fastqps.engine.predictor import Predictor
from fastqps.models import ModelCard, load_card
from fastqps.models.card_tokenizer import load_tokenizer

pytestmark = pytest.mark.compute

FAMILIES = ["llama-gqa-tied", "qwen2", "qwen3", "mistral", "gemma", "gemma3_text", "smollm3", "phi3"]


def scores_of(path: Path, ids: list[int], tokens: tuple[int, ...]) -> np.ndarray:
    model = tr.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0, -1, list(tokens)].numpy()


def some_ids(card: ModelCard, longest: int = 60) -> list[list[int]]:
    """Inputs that have all of the opening, a part of it or nothing, and end within it or behind it."""
    opening, draw = list(card.opening_ids), random.Random(1)
    parts = [len(opening), 0, 1, len(opening) - 1, len(opening) // 2, *([len(opening)] * 6)]
    more = [draw.choices(range(300, 600), k=draw.randrange(1, longest)) for _ in parts]
    return [*(opening[:n] + rest for n, rest in zip(parts, more, strict=True)), opening, opening[:1], opening[:7]]


def rows_of(card: ModelCard, items: list[list[int]], **options: Any) -> np.ndarray:
    options = {"device": "cpu", "quantization": "none", "kernels": "auto", **options}
    predictor = Predictor(card, dtype="float32", **options)
    together = np.stack(predictor.run(items, False, lambda row, _: row.copy(), ""))
    alone = np.stack([predictor.run([ids], False, lambda row, _: row.copy(), "")[0] for ids in items])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    return together


@pytest.mark.parametrize("kind", FAMILIES)
def test_logits_are_transformers_(kind: str, tmp_path: Path) -> None:
    """Alone and in company, of every family, where some layers have windows or no positions."""
    write_qwen(tmp_path, CHATML, kind=kind)
    card = load_card(str(tmp_path), labels=["yes", "no"], template="qwen3-reranker")
    assert len(card.opening_ids) > 100
    items = some_ids(card)
    wanted = np.stack([scores_of(tmp_path, ids, card.label_ids) for ids in items])
    np.testing.assert_allclose(rows_of(card, items), wanted, atol=1e-4)


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text"])
def test_a_gpu_has_it_too(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, library())
    write_qwen(tmp_path, CHATML, kind=kind)
    card = load_card(str(tmp_path), labels=["yes", "no"], template="qwen3-reranker")
    items = some_ids(card)
    wanted = rows_of(replace(card, opening_ids=()), items)
    np.testing.assert_allclose(rows_of(card, items, device="cuda", kernels="torch"), wanted, atol=1e-4)


def test_it_is_what_all_texts_begin_with(tmp_path: Path) -> None:
    """Up to where the tokens depend on a text; of a template that begins with a text there is none."""
    write_qwen(tmp_path / "model")
    file = tmp_path / "t.jinja"
    for text, whole in (
        ("<|im_start|>the film of the year: {{ text }}<|im_end|>", "<|im_start|>the film of the year:"),
        ("<|im_start|>judge\n{{ query }} {{ document }}<|im_end|>", "<|im_start|>judge\n"),
        ("{{ text }} is what all of them begin with<|im_end|>", ""),
    ):
        file.write_text(text)
        card = load_card(str(tmp_path / "model"), labels=["the", "of"], template=str(file))
        tokenizer = tr.AutoTokenizer.from_pretrained(tmp_path / "model")
        assert list(card.opening_ids) == tokenizer(whole)["input_ids"]
        own = load_tokenizer(card)
        assert own
        items: list[Any] = PAIRS if "query" in text else [each for pair in PAIRS for each in pair]
        ids = [done.ids for done in own.encode_items([card.worded(item, "") for item in items], 512)]
        assert sum(tuple(each[: len(card.opening_ids)]) == card.opening_ids for each in ids) >= len(ids) - 2


@pytest.mark.parametrize("write", [write_qwen3, write_e5_mistral])
def test_embeddings_behind_a_prompt(write: Any, tmp_path: Path) -> None:
    """Of the prompt that texts have unasked, or else of the longest one; others are the same as ever."""
    prompts = write(tmp_path)
    engine, theirs = Engine(str(tmp_path), dtype="float32"), SentenceTransformer(str(tmp_path), device="cpu")
    assert len(engine.card.opening_ids) >= 4
    texts = ["a film that I liked", "été 中文", "x", "one two three"]
    for name in ("", *prompts):
        wanted = theirs.encode(texts, prompt_name=name or theirs.default_prompt_name, normalize_embeddings=True)
        np.testing.assert_allclose(engine.embed(texts, prompt_name=name, normalize=True), wanted, atol=1e-4)


def test_a_mean_of_all_tokens_has_none(tmp_path: Path) -> None:
    write_embedding_gemma(tmp_path)
    assert not load_card(str(tmp_path)).opening_ids
