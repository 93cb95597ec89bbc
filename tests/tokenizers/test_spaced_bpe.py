"""SentencePiece's byte-pair encoding, natively, against the `tokenizers` package: ids must be identical."""

from __future__ import annotations

import json
import os
import random
import sys
import unicodedata
from typing import Any

import pytest
import tokenizers
from bpe_files import ByteLevelTexts, corpus
from decodes import check_decode
from spaced_files import BYTES, METASPACES, NAMES, SPACE, content
from tokenizers import AddedToken
from unigram_files import SpacedTexts

from fastqps._core import Detokenizer, NativeTokenizer
from fastqps.models.names import packaged
from fastqps.models.tokenizers.tokenizer import Tokenizer

pytestmark = pytest.mark.compute

FUZZ = int(os.environ.get("FASTQPS_FUZZ_TEXTS", "500"))


def add_tokens(text: str, *tokens: AddedToken) -> str:
    tokenizer = tokenizers.Tokenizer.from_str(text)
    tokenizer.add_tokens(list(tokens))
    return str(tokenizer.to_str())


def check(content: str, texts: list[str]) -> None:
    native, bare = NativeTokenizer(content), NativeTokenizer(content, "none")
    package = tokenizers.Tokenizer.from_str(content)
    for i, text in enumerate(texts):
        assert native.encode(text) == package.encode(text).ids, ascii(text)
        assert bare.encode(text) == package.encode(text, add_special_tokens=False).ids, ascii(text)
        if i % 8 == 0:
            pair = package.encode(text, texts[i - 1])
            ids, first = native.encode_pair(text, texts[i - 1])
            assert (ids, first) == (pair.ids, sum(type_id == 0 for type_id in pair.type_ids)), ascii(text)


def odd_texts() -> list[str]:
    spaces = ["", " ", "  ", "   ", SPACE, f"{SPACE} ", f" {SPACE}", "\n", "\t ", "\u00a0", "\u3000"]
    found = [a + b + c for a in spaces for b in ("a", "the", "é", "😀", "<s>", "\0") for c in spaces]
    return [*found, "x" * 500, " x" * 300, "\0\0", "a\0", "</s>a", "<s> <s>", "<0x41>", "<unk>", "日本語" * 50]


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", NAMES)
def test_fuzz(name: str) -> None:
    texts = SpacedTexts(NAMES.index(name))
    made = [texts.text() for _ in range(FUZZ // len(NAMES) + 50)]
    words = random.Random(1)
    lines = [line for line in corpus()[:300] if words.random() < 0.5]
    check(content(name), [*odd_texts(), *made, *lines])


@pytest.mark.parametrize("name", ["llama2", "first-whole"])
def test_every_code_point(name: str) -> None:
    assigned = [chr(i) for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)) not in ("Cn", "Cs")]
    step = 50
    texts = ["".join(assigned[i : i + step]) for i in range(0, len(assigned), step)]
    check(content(name), [*texts, *(f"a {c} b" for c in assigned[:: len(assigned) // 3000])])


@pytest.mark.parametrize("name", ["llama2", "first-split", "always-whole", "mapped"])
@pytest.mark.parametrize("normalized", [False, True])
def test_added_tokens(name: str, normalized: bool) -> None:
    tokens = (
        AddedToken("[A]", normalized=normalized),
        AddedToken("[L]", normalized=normalized, lstrip=True),
        AddedToken("[R]", normalized=normalized, rstrip=True),
        AddedToken("solo", normalized=normalized, single_word=True),
    )
    spoken = add_tokens(content(name), *tokens)
    pick = random.Random(2)
    parts = ["[A]", "[L]", "[R]", "solo", " ", "  ", "the", " of", SPACE, "é", "<s>", ""]
    check(spoken, ["".join(pick.choices(parts, k=pick.randint(1, 8))) for _ in range(1500)])
    native, package = Detokenizer(spoken), tokenizers.Tokenizer.from_str(spoken)
    for _ in range(300):
        check_decode(native, package, [pick.randrange(package.get_vocab_size()) for _ in range(6)], pick)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": {"ignore_merges": True}}, "ignore_merges"),
        ({"model": {"drop": "<0x0A>"}}, "lacks <0x0A>"),
        ({"normalizer": {"type": "BertNormalizer"}}, "BertNormalizer is not native"),
        ({"normalizer": None}, "spaces are not written"),
        ({"normalizer": {"type": "Prepend", "prepend": "x"}}, "spaces are not written"),
        ({"normalizer": {"type": "Prepend", "prepend": 1}}, "something else than text"),
        (
            {"pre_tokenizer": {"type": "Split", "pattern": {"String": "x"}, "behavior": "Isolated", "invert": False}},
            "a Split",
        ),
        (
            {"normalizer": None, "pre_tokenizer": {**METASPACES["always-split"], "replacement": "_"}},
            "another character",
        ),
        (
            {"normalizer": None, "pre_tokenizer": {**METASPACES["always-split"], "prepend_scheme": "x"}},
            "prepend_scheme",
        ),
    ],
)
def test_what_is_not_native(change: dict[str, Any], reason: str) -> None:
    file = json.loads(content("llama2"))
    model = change.pop("model", {}) if "model" in change else {}
    file |= change
    if "ignore_merges" in model:
        file["model"]["ignore_merges"] = True
    if "drop" in model:
        del file["model"]["vocab"][model["drop"]]
    with pytest.raises(ValueError, match=reason):
        NativeTokenizer(json.dumps(file))


@pytest.mark.skipif(packaged("wordllama") is None, reason="needs the package wordllama")
def test_wordllama() -> None:
    folder = packaged("wordllama")
    assert folder is not None
    path = folder / "tokenizers/l2_supercat_tokenizer_config.json"
    assert Tokenizer.from_file(path).native
    texts = ByteLevelTexts(5)
    check(path.read_text(), [*odd_texts(), *corpus()[:500], *(texts.text() for _ in range(FUZZ // 4))])


@pytest.mark.parametrize("strip", [0, 1, 2, None])
def test_ids_to_text(strip: int | None) -> None:
    file = json.loads(content("llama2"))
    steps = file["decoder"]["decoders"]
    steps[3:] = [] if strip is None else [{**steps[3], "start": strip}]
    native, package = Detokenizer(json.dumps(file)), tokenizers.Tokenizer.from_str(json.dumps(file))
    pick, texts = random.Random(3), ByteLevelTexts(7)
    vocab = file["model"]["vocab"]
    spaces, some_bytes = [vocab[SPACE * n] for n in (1, 2, 4)], [vocab[piece] for piece in BYTES]
    for i in range(FUZZ // 2):
        ids = package.encode(texts.text(), add_special_tokens=i % 2 > 0).ids
        check_decode(native, package, ids, pick)
        kinds = (range(len(vocab) + 3), some_bytes, spaces)
        check_decode(native, package, [pick.choice(pick.choice(kinds)) for _ in range(pick.randint(0, 12))], pick)


@pytest.mark.parametrize(
    ("place", "change", "reason"),
    [
        (0, {"content": "_"}, "a Replace of something else"),
        (1, {"type": "WordPiece"}, "WordPiece in this place"),
        (3, {"stop": 1}, "a Strip that is not native"),
        (3, {"content": "x"}, "a Strip that is not native"),
    ],
)
def test_decoders_that_are_not_native(place: int, change: dict[str, Any], reason: str) -> None:
    file = json.loads(content("llama2"))
    file["decoder"]["decoders"][place] |= change
    with pytest.raises(ValueError, match=reason):
        Detokenizer(json.dumps(file))
