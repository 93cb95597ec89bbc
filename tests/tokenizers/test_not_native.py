"""What of a tokenizer.json has no native form is refused with the reason: such a file goes through the package."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import spaced_files
import unigram_files
from bpe_files import ADDED, changed, trained
from tokenizer_texts import SPECIAL, tokenizer_json
from tokenizers import AddedToken
from twins import Twins
from unigram_files import metaspace, replace, sequence

from fastqps._core import Detokenizer, NativeTokenizer

pytestmark = pytest.mark.compute

UNCASED = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
BASES: dict[str, Callable[[], str]] = {
    "wordpiece": lambda: tokenizer_json([*SPECIAL, "a", "##a"], normalizer=UNCASED, added=[AddedToken("b")]),
    "bpe": lambda: trained("gpt2", 400),
    "llama2": lambda: spaced_files.content("llama2"),
    "xlm-r": lambda: unigram_files.content("xlm-r"),
}
CUT = {"max_length": 8, "strategy": "LongestFirst", "stride": 0}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
DIGITS = {"type": "Digits", "individual_digits": False}


@pytest.mark.parametrize(
    ("base", "change", "reason"),
    [
        ("wordpiece", {"model": {"type": "Unigram"}}, "model: no vocab"),
        ("wordpiece", {"model": {"type": "WordLevel"}}, "WordLevel is not native"),
        ("wordpiece", {"normalizer": {"type": "NFC"}}, "only BertNormalizer"),
        ("wordpiece", {"normalizer": {"type": "BertNormalizer", "lowercase": True}}, "normalizer: no clean_text"),
        ("wordpiece", {"normalizer": UNCASED | {"type": "BertNormalizer", "more": 1}}, "unknown key more"),
        ("wordpiece", {"pre_tokenizer": {"type": "Whitespace"}}, "only BertPreTokenizer"),
        ("wordpiece", {"pre_tokenizer": None}, "only BertPreTokenizer"),
        ("wordpiece", {"post_processor": {"type": "RobertaProcessing"}}, "post_processor"),
        ("wordpiece", {"truncation": CUT | {"strategy": "OnlyFirst"}}, "LongestFirst"),
        ("wordpiece", {"truncation": CUT | {"direction": "Up"}}, "direction"),
        ("wordpiece", {"truncation": CUT | {"max_length": 3}}, "no room"),
        ("wordpiece", {"version": "2.0"}, "version"),
        ("wordpiece", {"extra": 1}, "unknown key extra"),
        ("wordpiece", {"added": {"id": 99}}, "another id"),
        ("wordpiece", {"added": {"content": " b"}}, "white space"),
        ("wordpiece", {"added": {"fresh": 1}}, "unknown key"),
        ("bpe", {"normalizer": {"type": "NFKC"}}, "only NFC"),
        ("bpe", {"normalizer": sequence({"type": "NFC"}, {"type": "Lowercase"})}, "only NFC"),
        ("bpe", {"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer"),
        ("bpe", {"pre_tokenizer": BYTE_LEVEL | {"use_regex": False}}, "use_regex"),
        ("bpe", {"pre_tokenizer": sequence(DIGITS, BYTE_LEVEL, kind="pretokenizers")}, "add_prefix_space"),
        ("bpe", {"model": {"vocab": {"a": 0, "b": 1}, "merges": [], "unk_token": "a"}}, "lacks a byte"),
        ("bpe", {"model": {"dropout": 0.5}}, "dropout"),
        ("llama2", {"model": {"ignore_merges": True}}, "ignore_merges"),
        ("llama2", {"lost": "<0x0A>"}, "lacks <0x0A>"),
        ("llama2", {"normalizer": {"type": "BertNormalizer"}}, "BertNormalizer is not native"),
        ("llama2", {"normalizer": None}, "spaces are not written"),
        ("llama2", {"normalizer": {"type": "Prepend", "prepend": "x"}}, "spaces are not written"),
        ("llama2", {"normalizer": {"type": "Prepend", "prepend": 1}}, "something else than text"),
        (
            "llama2",
            {"pre_tokenizer": {"type": "Split", "pattern": {"String": "x"}, "behavior": "Isolated", "invert": False}},
            "a Split",
        ),
        ("llama2", {"normalizer": None, "pre_tokenizer": metaspace() | {"replacement": "_"}}, "another character"),
        ("llama2", {"normalizer": None, "pre_tokenizer": metaspace() | {"prepend_scheme": "x"}}, "prepend_scheme"),
        ("xlm-r", {"model": {"unk_id": None}}, "no unk_id"),
        ("xlm-r", {"model": {"unk_id": 10**6}}, "unk_id is not in the vocabulary"),
        ("xlm-r", {"model": {"vocab": [["a"]]}}, "not a piece and its score"),
        ("xlm-r", {"model": {"alpha": 0.1}}, "unknown key alpha"),
        ("xlm-r", {"normalizer": {"type": "BertNormalizer"}}, "BertNormalizer is not native"),
        ("xlm-r", {"normalizer": replace({"Regex": "a+"}, "")}, "a Replace of the regular expression a"),
        ("xlm-r", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAA"}}, "not base64"),
        ("xlm-r", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "cut off"),
        ("xlm-r", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAEAAA="}}, "leads out of"),
        ("xlm-r", {"pre_tokenizer": None}, "spaces are not written"),
        ("xlm-r", {"pre_tokenizer": {"type": "Whitespace"}}, "only Metaspace and WhitespaceSplit"),
        ("xlm-r", {"pre_tokenizer": {"type": "WhitespaceSplit"}}, "spaces are not written"),
        ("xlm-r", {"pre_tokenizer": sequence(DIGITS, metaspace(), kind="pretokenizers")}, "only Metaspace and White"),
        ("xlm-r", {"pre_tokenizer": metaspace() | {"replacement": "_"}}, "another character"),
        ("xlm-r", {"pre_tokenizer": metaspace() | {"prepend_scheme": "x"}}, "prepend_scheme"),
        ("xlm-r", {"pre_tokenizer": metaspace() | {"add_prefix_space": False}}, "and prepend_scheme differ"),
        ("xlm-r", {"normalizer": {"type": "NFC"}, "pre_tokenizer": metaspace("first")}, "first behind a normal form"),
    ],
)
def test_tokenizers(base: str, change: dict[str, Any], reason: str) -> None:
    """``added``: of the last added token; ``lost``: a piece that the vocabulary lacks. A model of a type is whole."""
    file, change = json.loads(BASES[base]()), dict(change)
    NativeTokenizer(json.dumps(file))
    file["added_tokens"][-1] |= change.pop("added", {})
    if lost := change.pop("lost", ""):
        del file["model"]["vocab"][lost]
    model = change.pop("model", {})
    with pytest.raises(ValueError, match=reason):
        NativeTokenizer(json.dumps(file | {"model": model if "type" in model else file["model"] | model} | change))


STEPS = [{"type": "Fuse"}, metaspace()]


@pytest.mark.parametrize(
    ("base", "place", "decoder", "reason"),
    [
        ("bpe", None, {"type": "WordPiece", "prefix": "##", "cleanup": True}, "only ByteLevel"),
        ("llama2", 0, {"content": "_"}, "a Replace of something else"),
        ("llama2", 1, {"type": "WordPiece"}, "WordPiece in this place"),
        ("llama2", 3, {"stop": 1}, "a Strip that is not native"),
        ("llama2", 3, {"content": "x"}, "a Strip that is not native"),
        ("xlm-r", None, None, "one without a type is not native"),
        ("xlm-r", None, {"type": "WordPiece", "prefix": "##", "cleanup": True}, "WordPiece is not native"),
        ("xlm-r", None, metaspace() | {"replacement": "_"}, "another character"),
        ("xlm-r", None, sequence(*STEPS, kind="decoders"), "Metaspace in this place"),
    ],
)
def test_decoders(base: str, place: int | None, decoder: dict[str, Any] | None, reason: str) -> None:
    """``place``: of the step that is changed, in a sequence."""
    file = json.loads(BASES[base]())
    if place is None:
        file["decoder"] = decoder
    else:
        file["decoder"]["decoders"][place] |= decoder
    with pytest.raises(ValueError, match=reason):
        Detokenizer(json.dumps(file))


def test_a_normalizer_that_would_change_what_added_tokens_decode_to() -> None:
    file = json.loads(changed(trained("gpt2", 400), [AddedToken(t.content, normalized=True) for t in ADDED]))
    twins = Twins(json.dumps(file))
    assert twins.detokenizer.decode(twins.check("solo x")) == "solo x"
    file["normalizer"] = UNCASED | {"type": "BertNormalizer"}
    with pytest.raises(ValueError, match="BertNormalizer is not native"):
        Detokenizer(json.dumps(file))
