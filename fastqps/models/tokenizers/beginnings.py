"""Whether a long text can be cut to its beginning before it is tokenized."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

KEEPS_THE_END = "the model's tokenizer keeps the end of a text"
NO_SPLITS = "the model's tokenizer is not known to split texts at spaces"
_SPLITTING = ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")


def why_uncut(file: Mapping[str, Any]) -> str:
    """Why the beginning of a text does not decide its ids after the cut; "" if it does.

    It does where the tokens in front of a space are the same whatever follows. ``file``: of a tokenizer.json.
    """
    if str((file.get("truncation") or {}).get("direction")) == "Left":
        return KEEPS_THE_END
    replaced = any(
        each.get("type") == "Replace" and each.get("pattern") == {"String": " "}
        for each in _steps(file.get("normalizer"), "normalizers")
    )
    steps = _steps(file.get("pre_tokenizer"), "pretokenizers")
    return "" if any(_splits(step, replaced) for step in steps) else NO_SPLITS


def _steps(part: Any, members: str) -> Iterator[Mapping[str, Any]]:
    if not isinstance(part, dict):
        return
    if part.get("type") != "Sequence":
        yield part
    for each in part.get(members) or ():
        yield from _steps(each, members)


def _splits(step: Mapping[str, Any], replaced: bool) -> bool:
    """Whether this step of a pre-tokenizer splits at every space. ``replaced``: the normalizer left none of them."""
    kind = step.get("type")
    if kind == "Metaspace":
        mark = step.get("replacement", "▁") == "▁"
        return step.get("split") is not False and (mark or not replaced)
    if replaced:
        return False
    return kind in _SPLITTING or (kind == "ByteLevel" and step.get("use_regex") is not False)
