"""The tokens that a checkpoint's files name beside tokenizer.json, in the order in which transformers adds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.files.keys import Keys
from fastqps.models.files.reading import has_file, read_object
from fastqps.models.tokenizers.added_tokens import Token, read_token, settled, text_of, token
from fastqps.models.tokenizers.classes import extra_default, mask_of, named_defaults
from fastqps.models.tokenizers.keys import CONFIG, NAMED, SPECIAL_MAP, config_keys

ADDED = "added_tokens.json"
_EXTRA, _OLD_EXTRA, _DECODER = "extra_special_tokens", "additional_special_tokens", "added_tokens_decoder"


@dataclass(frozen=True)
class SpecialTokens:
    """``named``: by their names, the usual names first. ``extra``: without names. ``added``: by index."""

    named: Mapping[str, str | Token | None]
    extra: tuple[str | Token, ...]
    added: Mapping[int, Token]
    explicit: frozenset[str]  # the names for which a file has a token
    unknown: tuple[str, ...]  # keys of special_tokens_map.json that no rule names

    def to_add(self, present: set[str]) -> list[Token]:
        """The tokens to add to a tokenizer that has the added tokens ``present``."""
        tokens: list[str | Token] = [self.added[i] for i in sorted(self.added)]
        known = present | {each["content"] for each in self.added.values()}
        for each in (*self.named.values(), *self.extra):
            if each is not None and text_of(each) not in known and not any(_same(each, other) for other in tokens):
                tokens.append(each)
        names = {text_of(each) for each in self.named.values()}
        return [_marked(each, names) for each in tokens]

    def contents(self) -> list[str]:
        """The contents of all named special tokens, and of the extra ones."""
        texts = (text_of(each) for each in (*self.named.values(), *self.extra))
        return list(dict.fromkeys(each for each in texts if each is not None))


def read_special_tokens(folder: Path, keys: Keys, kind: str, file: Mapping[str, Any]) -> SpecialTokens:
    """Reads tokenizer_config.json, and the older files where it has no added_tokens_decoder.

    ``kind``: the tokenizer class; ``file``: tokenizer.json. ``ModelError`` for what transformers cannot read either.
    """
    stated, specific = dict(keys), {}
    if _OLD_EXTRA in stated and not stated.get(_EXTRA):
        stated[_EXTRA] = stated.pop(_OLD_EXTRA)
    for key in [key for key in stated if _is_name(key) and isinstance(stated[key], str)]:
        specific[key] = stated.pop(key)
    specific |= _named_extra(stated)
    added: list[tuple[int, Token]] = []
    unknown: tuple[str, ...] = ()
    if _DECODER in stated:
        decoder = _checked(stated[_DECODER], dict, CONFIG, _DECODER)
        added = [(_index(CONFIG, i), read_token(f"{CONFIG}: {_DECODER}", each)) for i, each in decoder.items()]
    else:
        unknown = _read_map(folder, kind, stated)
        added = [*_read_added(folder, stated), *_tokens_of(file)]
    return _of_class(kind, stated, specific | _named_extra(stated), added, file, unknown)


def _named_extra(stated: dict[str, Any]) -> dict[str, Any]:
    """Takes out the extra tokens where they have names."""
    return stated.pop(_EXTRA) if isinstance(stated.get(_EXTRA), dict) else {}


def _of_class(
    kind: str,
    stated: dict[str, Any],
    specific: dict[str, Any],
    added: list[tuple[int, Token]],
    file: Mapping[str, Any],
    unknown: tuple[str, ...],
) -> SpecialTokens:
    named = {name: _spelled(name, stated[name]) for name in NAMED if name in stated}
    flags = {each["content"]: each for _, each in added}
    named = {name: flags.get(text_of(each) or "", each) for name, each in named.items()}
    explicit = frozenset(name for name, each in named.items() if each is not None)
    defaults = named_defaults(kind)
    if not defaults and (pad := (file.get("padding") or {}).get("pad_token")):
        defaults = {"pad_token": pad}
    filled = defaults | named
    named = {name: filled[name] for name in NAMED if name in filled}
    if "mask_token" in named:
        named["mask_token"] = mask_of(kind, named["mask_token"])
    late = {name: _spelled(name, each) for name, each in stated.items() if _is_name(name)}
    named |= late | {name: _spelled(name, each) for name, each in specific.items()}
    return SpecialTokens(named, _extra(kind, stated), dict(added), explicit, unknown)


def _extra(kind: str, stated: Mapping[str, Any]) -> tuple[str | Token, ...]:
    key = _EXTRA if _EXTRA in stated else _OLD_EXTRA
    value = stated.get(key)
    if value is None:
        return () if _EXTRA in stated else tuple(extra_default(kind, stated))
    spelled = (_spelled(key, each) for each in _checked(value, list, CONFIG, key))
    return tuple(each for each in spelled if each is not None)


def _read_map(folder: Path, kind: str, stated: dict[str, Any]) -> tuple[str, ...]:
    """Puts what special_tokens_map.json says over ``stated``; returns the keys that no rule names."""
    path = folder / SPECIAL_MAP
    if not has_file(path):
        return ()
    keys = config_keys(SPECIAL_MAP, read_object(path), kind)
    for key, value in keys.items():
        if key == _EXTRA and isinstance(value, list):
            read = [_special_in_list(each) if isinstance(each, dict) else each for each in value]
            both = [*(stated.get(_EXTRA) or []), *read]
            stated[key] = [each for i, each in enumerate(both) if each not in both[:i]]
        elif key in (_EXTRA, _OLD_EXTRA):
            stated[key] = value
        elif key in NAMED or _is_name(key):
            stated[key] = _special(value) if isinstance(value, dict) else value
        else:
            raise ModelError(f"{SPECIAL_MAP}: {key} is not supported: only tokens are read from this file")
    return keys.unknown


def _read_added(folder: Path, stated: Mapping[str, Any]) -> list[tuple[int, Token]]:
    path = folder / ADDED
    if not has_file(path):
        return []
    spelled = (*(stated.get(name) for name in NAMED), *(stated.get(_EXTRA) or ()))
    special = {text_of(each) for each in spelled if isinstance(each, (str, Token))}
    return [
        (_index(ADDED, index), token(content, special=content in special, normalized=content not in special))
        for content, index in read_object(path).items()
    ]


def _tokens_of(file: Mapping[str, Any]) -> list[tuple[int, Token]]:
    where = "tokenizer.json: added_tokens"
    return [(_index(where, each["id"]), read_token(where, each)) for each in file.get("added_tokens") or ()]


def _is_name(key: str) -> bool:
    return key.endswith("_token") and key not in NAMED


def _special(value: Mapping[str, Any]) -> Token:
    return Token(read_token(SPECIAL_MAP, {key: value[key] for key in value if key != "special"}), special=True)


def _special_in_list(value: Mapping[str, Any]) -> Token:
    if "special" in value:
        raise ModelError(f"{SPECIAL_MAP}: {_EXTRA}: transformers cannot read 'special' of {dict(value)}; delete it")
    return _special(value)


def _spelled(name: str, value: Any) -> str | Token | None:
    if value is None or isinstance(value, (str, Token)):
        return value
    if isinstance(value, dict) and value.get("__type") == "AddedToken":
        return read_token(f"{CONFIG}: {name}", value)
    raise ModelError(f"{CONFIG}: {name} {value!r} is not supported: a token is text, or an object of __type AddedToken")


def _checked(value: Any, kind: type, where: str, key: str) -> Any:
    if not isinstance(value, kind):
        raise ModelError(f"{where}: {key} {value!r} is not a {kind.__name__}")
    return value


def _index(where: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ModelError(f"{where}: {value!r} is not the id of an added token") from None


def _same(each: str | Token, other: str | Token) -> bool:
    if isinstance(each, Token) and isinstance(other, Token):
        return settled(each) == settled(other)
    return each == other


def _marked(each: str | Token, names: set[str | None]) -> Token:
    if isinstance(each, str):
        return token(each, special=True)
    return Token(each, special=True) if each["content"] in names else each
