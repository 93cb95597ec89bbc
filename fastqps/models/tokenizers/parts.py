"""Helpers of tokenizer classes for building parts of a tokenizer.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.tokenizers.added_tokens import Token
from fastqps.models.tokenizers.keys import CONFIG

Part = dict[str, Any]
Named = Mapping[str, str | Token | None]  # special tokens by their names


def text_of(token: str | Token | None) -> str | None:
    return token["content"] if isinstance(token, dict) else token


def template(single: list[str], pair: list[str], ids: Mapping[str, int]) -> Part:
    def piece(spelled: str) -> Part:
        name, _, kind = spelled.partition(":")
        sequence = name.startswith("$")
        return {"Sequence" if sequence else "SpecialToken": {"id": name.lstrip("$"), "type_id": int(kind or 0)}}

    return {
        "type": "TemplateProcessing",
        "single": [piece(each) for each in single],
        "pair": [piece(each) for each in pair],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in ids.items()},
    }


def flag(options: Mapping[str, Any], key: str, default: bool) -> bool:
    value = options.get(key, default)
    if not isinstance(value, bool):
        raise ModelError(f"{CONFIG}: {key} {value!r} is neither true nor false")
    return value
