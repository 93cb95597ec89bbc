"""Whether a long text can be cut to its beginning before the `tokenizers` package sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_SPLITTING = ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")
_BY_CHARACTER = ("BertPreTokenizer", "ByteLevel", "Digits", "Metaspace", "Punctuation", "Whitespace", "WhitespaceSplit")
_LOCAL = ("BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "StripAccents")


def beginning_decides(file: Mapping[str, Any]) -> bool:
    """Whether the tokens in front of a space are the same whatever follows. ``file``: of a tokenizer.json.

    True only where that is certain: nothing but the space itself decides where a token ends in front of it.
    """
    if str((file.get("truncation") or {}).get("direction")) == "Left":
        return False
    if any(any(map(str.isspace, each["content"])) for each in file.get("added_tokens") or ()):
        return False
    normal = list(_steps(file.get("normalizer"), "normalizers"))
    steps = list(_steps(file.get("pre_tokenizer"), "pretokenizers"))
    replaced = any(_replaces_spaces(each) for each in normal)
    if not all(each.get("type") in _LOCAL or _replaces_spaces(each) for each in normal):
        return False
    return all(step.get("type") in _BY_CHARACTER for step in steps) and any(_splits(step, replaced) for step in steps)


def cut_at_space(text: str, length_max: int) -> str:
    """The text up to the last space behind a word within its first ``length_max`` characters; "" if there is none.

    Line ends do not count, because one may belong to the token before it.
    """
    end = text.rfind(" ", 0, length_max)
    while end > 0 and text[end - 1].isspace():
        end = text.rfind(" ", 0, end)
    return text[: max(end, 0)]


def _steps(part: Any, members: str) -> Iterator[Mapping[str, Any]]:
    if not isinstance(part, dict):
        return
    if part.get("type") != "Sequence":
        yield part
    for each in part.get(members) or ():
        yield from _steps(each, members)


def _replaces_spaces(step: Mapping[str, Any]) -> bool:
    return step.get("type") == "Replace" and step.get("pattern") == {"String": " "}


def _splits(step: Mapping[str, Any], replaced: bool) -> bool:
    """Whether this step of a pre-tokenizer splits at every space. ``replaced``: the normalizer left none of them."""
    kind = step.get("type")
    if kind == "Metaspace":
        mark = step.get("replacement", "▁") == "▁"
        return step.get("split") is not False and (mark or not replaced)
    if replaced:
        return False
    return kind in _SPLITTING or (kind == "ByteLevel" and step.get("use_regex") is not False)
