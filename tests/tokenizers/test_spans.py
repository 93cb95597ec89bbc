"""Where tokens stand in a text, natively, against what the `tokenizers` package says."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import tokenizers as tk
from tokenizer_checkpoints import STRIPPING, bpe_file, stripping_file, text, unigram_file, wordpiece_file
from tokenizer_texts import Texts, covering_vocab, tokenizer_json

from fastqps._core import NativeTokenizer
from fastqps.models.tokenizers.spans import SpanFinder, TokenSpan
from fastqps.models.tokenizers.tokenizer import Tokenizer

pytestmark = pytest.mark.compute

NORMALIZERS: list[dict[str, Any]] = [
    {"lowercase": True},
    {"lowercase": False, "strip_accents": True},
    {"lowercase": True, "strip_accents": False},
    {"lowercase": False, "clean_text": False, "handle_chinese_chars": False},
]


def check(source: str, texts: list[str], unknown: int, most: int | None = None, side: str = "right") -> None:
    native, package = NativeTokenizer(source), tk.Tokenizer.from_str(source)
    assert native.finds_spans(unknown) and not native.finds_spans(unknown + 1)
    if most:
        package.enable_truncation(most, direction=side)
    finder = SpanFinder(package, unknown)
    for each in texts:
        encoded = package.encode(each)
        ids, _, spans = native.encode_spans(each, most)
        assert ids == encoded.ids, each
        assert [span and TokenSpan(*span) for span in spans] == finder.find(each, encoded), each


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_spans_are_the_packages(normalizer: dict[str, Any]) -> None:
    """Every script, and marks in every order: those that survive stripping take each other's places."""
    chars = [chr(point) for point in range(0x20, 0xC00)]
    vocab = covering_vocab(chars, words=500)
    marks = ["[MASK]", "[SEP]"]
    drawn = Texts(len(normalizer), [word for word in vocab if len(word) > 2][:100], marks)
    check(tokenizer_json(vocab, normalizer=normalizer), [drawn.text() for _ in range(600)], vocab.index("[UNK]"))


@pytest.mark.parametrize(("most", "side"), [(None, "right"), (2, "right"), (7, "right"), (7, "left")])
def test_texts_that_are_cut(most: int | None, side: str) -> None:
    r, file = random.Random(5), wordpiece_file()
    file["truncation"] = {"direction": side.capitalize(), "max_length": 512, "strategy": "LongestFirst", "stride": 0}
    check(json.dumps(file), [text(r) for _ in range(300)], file["model"]["vocab"]["[UNK]"], most, side)


def test_tokens_that_take_the_space_beside_them() -> None:
    file, drawn = stripping_file(normalized=False), Texts(11, ["solo", "the", "cafe"], STRIPPING)
    check(json.dumps(file), [drawn.text() for _ in range(600)], file["model"]["vocab"]["[UNK]"])


def test_what_is_not_native_goes_through_the_package() -> None:
    for make in (bpe_file, unigram_file):
        tokenizer = Tokenizer.from_source(json.dumps(make()), unknown_id=3)
        assert not tokenizer.native and "does not say where" in tokenizer.why_not_native
    file = wordpiece_file()
    normalized = {"id": 900, "content": "Straße", "single_word": False, "lstrip": False, "rstrip": False}
    file["added_tokens"].append(normalized | {"normalized": True, "special": False})
    assert not Tokenizer.from_source(json.dumps(file), unknown_id=1).native
    assert Tokenizer.from_source(json.dumps(wordpiece_file()), unknown_id=1).native
