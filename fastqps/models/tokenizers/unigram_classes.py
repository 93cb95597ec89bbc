"""The parts that transformers' tokenizer classes of sentencepiece's Unigram models build; see classes.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.files.config_values import size
from fastqps.models.tokenizers.added_tokens import Named, Part, flag, template, text_of
from fastqps.models.tokenizers.keys import CONFIG

_SPACE = "\u2581"


def _unigram(unk_id: int, file: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Part | None]:
    scheme = "always" if flag(options, "add_prefix_space", True) else "never"
    space: Part = {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": scheme, "split": True}
    return {
        "model": {"type": "Unigram", "unk_id": unk_id, "byte_fallback": False},
        "normalizer": precompiled(file.get("normalizer")),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]},
        "decoder": space,
    }


def precompiled(normalizer: Any) -> Part | None:
    """The first table of a sentencepiece model that a tokenizer.json has as its normalizer, or in a list of them."""
    normalizers = normalizer["normalizers"] if (normalizer or {}).get("type") == "Sequence" else [normalizer]
    return next((each for each in normalizers if each and each.get("type") == "Precompiled"), None)


def xlm_roberta(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    if len(file["model"]["vocab"]) <= 3:
        raise ModelError("tokenizer.json: the vocabulary of an XLMRobertaTokenizer needs more than 3 entries")
    return _unigram(3, file, options)


def albert(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    vocab = [each for each, _ in file["model"]["vocab"]]
    ids = {}
    for mark, name in (("[CLS]", "cls_token"), ("[SEP]", "sep_token")):
        content = str(text_of(named.get(name)))
        if content not in vocab:
            raise ModelError(f"{CONFIG}: {name} {content!r} is not in the vocabulary of tokenizer.json")
        ids[mark] = vocab.index(content)
    steps: list[Part] = [{"type": "Replace", "pattern": {"String": mark}, "content": '"'} for mark in ("``", "''")]
    if not flag(options, "keep_accents", False):
        steps += [{"type": "NFKD"}, {"type": "StripAccents"}]
    if flag(options, "do_lower_case", True):
        steps.append({"type": "Lowercase"})
    if table := precompiled(file.get("normalizer")):
        steps.append(table)
    parts = _unigram(1, file, options) | {"normalizer": {"type": "Sequence", "normalizers": steps}}
    if not file.get("post_processor"):
        parts["post_processor"] = template(["[CLS]", "$A", "[SEP]"], ["[CLS]", "$A", "[SEP]", "$B:1", "[SEP]:1"], ids)
    return parts


def deberta_v2(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    """Without the file's table, as in transformers."""
    unknown, vocab = str(text_of(named.get("unk_token"))), [tuple(each) for each in file["model"]["vocab"]]
    stated = size(options, "unk_id", 1, smallest=0, where=CONFIG)
    unk_id = vocab.index((unknown, 0.0)) if (unknown, 0.0) in vocab else stated
    scheme = "always" if flag(options, "add_prefix_space", True) else "first"
    space: Part = {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": scheme, "split": True}
    punctuation: list[Part] = [{"type": "Punctuation", "behavior": "Isolated"}]
    normalizers: list[Part] = [
        *([{"type": "Lowercase"}] if flag(options, "do_lower_case", False) else []),
        {"type": "Replace", "pattern": {"Regex": r"\s{2,}|[\n\r\t]"}, "content": " "},
        {"type": "NFC"},
        {"type": "Strip", "strip_left": False, "strip_right": True},
    ]
    before = punctuation if flag(options, "split_by_punct", False) else []
    return {
        "model": {"type": "Unigram", "unk_id": unk_id, "byte_fallback": False},
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*before, space]},
        "decoder": space,
    }


def t5(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    return _unigram(2, file, {})


def camembert(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    unknown = str(text_of(named.get("unk_token")))  # as in transformers, null is the token "None"
    number = next((i for i, (each, _) in enumerate(file["model"]["vocab"]) if each == unknown), 0)
    return _unigram(number, file, options)
