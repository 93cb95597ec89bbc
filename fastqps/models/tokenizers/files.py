"""A checkpoint's tokenizer as transformers reads it: tokenizer.json with what the files beside it change."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from fastqps.errors import ModelError
from fastqps.models.files.keys import Keys
from fastqps.models.files.reading import has_file, read_object
from fastqps.models.tokenizers.added_tokens import AddedTokens, read_token, text_of, token
from fastqps.models.tokenizers.classes import built, has_token_types, post_processor
from fastqps.models.tokenizers.keys import (
    BACKEND,
    CLASS_RULES,
    CONFIG,
    WITHOUT_FILE,
    config_keys,
    tokenizer_class,
)
from fastqps.models.tokenizers.special_tokens import SpecialTokens, read_special_tokens
from fastqps.models.tokenizers.unigram_classes import precompiled

Side = Literal["left", "right"]
_FAR = 1 << 30  # tokens: a truncation that states only its side
_PARTS_BYTES_MAX = 96 * 1024  # a card holds them, and has 256 KiB


@dataclass(frozen=True)
class TokenizerFiles:
    """``parts``: JSON of the parts that replace those of tokenizer.json, "" for none. ``ids`` of special tokens by
    name, of those that the files name. ``names``: their texts, with those that the class has.
    ``token_types``: the model gets them. ``input_limit``: special tokens included.
    ``pads_left``: padding stands in front of a text, as do tokens by which a query is expanded.
    ``cuts_left``: an input that is too long keeps its end.
    """

    parts: str = ""
    ids: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    unknown_id: int = -1  # of the token for unknown words, which the class may name; -1: none
    mask_id: int = -1  # of the mask token, else of the one at the end of texts; -1: none
    token_types: bool = False
    input_limit: int | None = None
    pads_left: bool = False
    cuts_left: bool = False
    warnings: tuple[str, ...] = ()


def without_tokenizer(config: Mapping[str, Any], usual_side: Side) -> TokenizerFiles:
    """The files of a checkpoint that takes only token ids. ``config``: its tokenizer_config.json, which may set a
    limit and a side."""
    keys = Keys(CONFIG, config, CLASS_RULES[BACKEND])
    cuts_left = _side(None, keys, usual_side) == "left"
    return TokenizerFiles(token_types=True, input_limit=_limit(keys), cuts_left=cuts_left)


def tokenizer_source(path: str, parts: str) -> str:
    """The argument of ``Tokenizer.from_source``: the path of the tokenizer.json, or its JSON with ``parts`` replaced.

    Raises ``ModelError`` if a file that has to be read cannot be.
    """
    if not parts:
        return path
    file, new = read_object(Path(path)), json.loads(parts)
    if new.get("normalizer"):
        new["normalizer"] = _with_table(new["normalizer"], precompiled(file.get("normalizer")))
    if "model" in new:
        new["model"] |= {key: file["model"][key] for key in ("vocab", "merges") if key in file["model"]}
    return json.dumps(file | new)


def with_post_processor(parts: str, post_processor: dict[str, Any]) -> str:
    """The ``parts``, with this post-processor."""
    return json.dumps({**json.loads(parts or "{}"), "post_processor": post_processor})


def read_tokenizer_files(
    path: Path,
    family_class: str,
    family_decides: bool,
    config_class: Any,
    *,
    usual_side: Side = "right",
    markers: tuple[str, ...] = (),
) -> TokenizerFiles:
    """Reads the tokenizer.json at ``path``. ``config_class``: the tokenizer class that config.json names, or None.

    ``family_class`` and ``family_decides`` as ``tokenizer_class``. ``usual_side``: the one that is cut where the files
    name none. ``markers``: special tokens that are added last.

    Raises ``ModelError``, naming file, key and value, for what transformers cannot read, or fastqps not as it does.
    """
    file, config = read_object(path), path.parent / CONFIG
    config_values = read_object(config) if has_file(config) else {}
    stated = config_values.get("tokenizer_class")
    if stated is None and family_class == BACKEND and config_class in WITHOUT_FILE:
        raise ModelError(
            f"{path.parent}: tokenizer_class {config_class!r} of config.json is not supported: transformers reads no "
            f"tokenizer.json for it; set tokenizer_class PreTrainedTokenizerFast in {CONFIG}"
        )
    kind = tokenizer_class(config_class if stated is None else stated, family_class, family_decides, _byte_level(file))
    if kind not in CLASS_RULES:
        said_class = json.dumps(config_class if stated is None else stated)
        known = ", ".join(CLASS_RULES)
        raise ModelError(f"{path.parent}: tokenizer_class {said_class} is not supported; supported: {known}")
    try:
        return _read(
            path.parent, file, config_keys(CONFIG, config_values, kind), kind, family_decides, usual_side, markers
        )
    except ModelError as error:
        raise ModelError(f"{path.parent}: {error}") from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:  # a value is not of its kind
        raise ModelError(f"{path.parent}: tokenizer.json cannot be used with the files beside it: {error!r}") from error


def _read(
    folder: Path,
    file: dict[str, Any],
    keys: Keys,
    kind: str,
    family_decides: bool,
    usual_side: Side,
    markers: tuple[str, ...],
) -> TokenizerFiles:
    tokens = read_special_tokens(folder, keys, kind, file)
    keys.unknown += tokens.unknown
    parts: dict[str, Any] = {} if kind == BACKEND else built(kind, file, keys, tokens.named)
    added = _added(file, tokens, kind)
    added.add(token(each, special=True, normalized=False) for each in markers)
    if own := post_processor(kind, keys, tokens.named, added.find):
        parts["post_processor"] = own
    anew = tuple(name for name in ("normalizer", "pre_tokenizer") if name in parts and _differs(name, file, parts))
    parts = {name: part for name, part in parts.items() if _differs(name, file, parts)}
    if (listed := added.listed()) != (file.get("added_tokens") or []):
        parts["added_tokens"] = listed
    side = _side(file.get("truncation"), keys, usual_side)
    if (truncation := _truncation(file.get("truncation"), side)) != file.get("truncation"):
        parts["truncation"] = truncation
    names = _input_names(keys, kind)
    if "token_type_ids" in names:
        _check_types(parts.get("post_processor", file.get("post_processor")))
    unknown = added.find(text_of(tokens.named.get("unk_token")) or "")
    mask = [added.find(text_of(tokens.named.get(name)) or "") for name in ("mask_token", "eos_token")]
    ids = {name: added.find(text_of(tokens.named[name]) or "") for name in sorted(tokens.explicit)}
    return TokenizerFiles(
        _encoded(parts),
        {name: i for name, i in ids.items() if i is not None},
        {name: text for name, each in tokens.named.items() if (text := text_of(each)) is not None},
        -1 if unknown is None else unknown,
        next((i for i in mask if i is not None), -1),
        "token_type_ids" in names,
        _limit(keys),
        _pads_left(file.get("padding"), keys),
        side == "left",
        (*keys.warnings(), *_rebuilt(kind, anew, family_decides)),
    )


def _byte_level(file: Any) -> bool:
    return '"ByteLevel"' in json.dumps(file)


def _vocabulary(model: Mapping[str, Any]) -> Callable[[str], int | None]:
    vocab = model["vocab"]
    if isinstance(vocab, list):
        vocab = {each: i for i, (each, _) in enumerate(vocab)}
    id_of: Callable[[str], int | None] = vocab.get
    return id_of


def _added(file: Mapping[str, Any], tokens: SpecialTokens, kind: str) -> AddedTokens:
    model = file["model"]
    added = AddedTokens(_vocabulary(model), len(model["vocab"]))
    if kind == BACKEND:
        added.add(read_token("tokenizer.json: added_tokens", each) for each in file.get("added_tokens") or ())
    added.add(tokens.to_add({each["content"] for each in added.by_id.values()}))
    if kind == "Qwen2Tokenizer":
        added.add(token(each, special=True) for each in tokens.contents())
    return added


def _plain(part: Any) -> Any:
    """The part without what decides no id. A post-processor's options also decide where tokens stand in a text."""
    if isinstance(part, list):
        return [_plain(each) for each in part]
    if not isinstance(part, dict):
        return part
    kind = part.get("type")
    plain = {key: _plain(value) for key, value in part.items()}
    if kind != "ByteLevel":
        return plain
    return {"use_regex": True, **{key: value for key, value in plain.items() if key != "trim_offsets"}}


def _differs(name: str, file: Mapping[str, Any], parts: Mapping[str, Any]) -> bool:
    old, new = file.get(name), parts[name]
    if name == "decoder" and (old or {}).get("type") == (new or {}).get("type") == "ByteLevel":
        return False
    if name == "model":
        old = {key: value for key, value in file["model"].items() if key not in ("vocab", "merges")}
        if new["type"] == "BPE":  # absent, null, empty and false are the same
            old, new = ({key: value or None for key, value in each.items()} for each in (old, new))
            old = {key: old.get(key) for key in old.keys() | new.keys()}
    return bool(_plain(old) != _plain(new))


def _side(stated: Any, keys: Keys, usual: Side) -> Side:
    """The side that is cut of an input that is too long. ``stated``: tokenizer.json's truncation, or None.

    "Right" there says nothing, because every file with a truncation that names no side has it.
    """
    side: Any = keys.get("truncation_side", "left" if (stated or {}).get("direction") == "Left" else usual)
    if side not in get_args(Side):
        raise ModelError(f"{CONFIG}: truncation_side {side!r} is neither left nor right")
    checked: Side = side
    return checked


def _truncation(stated: Any, side: Side) -> Any:
    """The truncation of a served model: the longest first, without a stride. The length is the served model's own."""
    usual = {"direction": side.capitalize(), "strategy": "LongestFirst", "stride": 0}
    if stated and {"direction": "Right", **stated} == {**usual, "max_length": stated.get("max_length")}:
        return stated
    return {**usual, "max_length": _FAR} if side == "left" else None


def _pads_left(stated: Any, keys: Keys) -> bool:
    return str(keys.get("padding_side", (stated or {}).get("direction"))).lower() == "left"


def _input_names(keys: Keys, kind: str) -> list[str]:
    names = keys.get("model_input_names")
    if "model_input_names" not in keys:
        return ["token_type_ids"] if has_token_types(kind) else []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelError(f"{CONFIG}: model_input_names {names!r} is not a list of names")
    return names


def _check_types(part: Any) -> None:
    """A step has type 0, and in a pair type 1 from some token on."""
    for each in (part or {}).get("processors", [part]):
        if not each or each.get("type") != "TemplateProcessing":
            continue
        single, pair = ([next(iter(piece.values()))["type_id"] for piece in each[name]] for name in ("single", "pair"))
        if any(single) or sorted(pair) != pair or not set(pair) <= {0, 1}:
            raise ModelError(
                f"tokenizer.json: post_processor with the token types {single} and {pair} is not supported: all must "
                "be 0, but in a pair 1 from some piece on"
            )


def _limit(keys: Keys) -> int | None:
    limit = keys["model_max_length"] if "model_max_length" in keys else keys.get("max_len")
    return int(limit) if limit else None


def _with_table(normalizer: dict[str, Any], table: dict[str, Any] | None) -> dict[str, Any] | None:
    """The normalizer with ``table`` as its sentencepiece table, of which hundreds of kilobytes stay in the file."""
    if normalizer["type"] == "Precompiled":
        return table
    if normalizer["type"] != "Sequence":
        return normalizer
    steps = [table if each["type"] == "Precompiled" else each for each in normalizer["normalizers"]]
    return normalizer | {"normalizers": steps}


def _encoded(parts: dict[str, Any]) -> str:
    if parts.get("normalizer"):
        parts["normalizer"] = _with_table(parts["normalizer"], {"type": "Precompiled"})
    encoded = json.dumps(parts, separators=(",", ":")) if parts else ""
    if len(encoded) > _PARTS_BYTES_MAX:
        raise ModelError(
            f"{CONFIG}: it changes {', '.join(parts)} of tokenizer.json in {len(encoded)} bytes, and at most "
            f"{_PARTS_BYTES_MAX} are supported; save the tokenizer with transformers, so that both files agree"
        )
    return encoded


def _rebuilt(kind: str, anew: tuple[str, ...], family_decides: bool) -> tuple[str, ...]:
    if not anew:
        return ()
    why = (
        "A model of this type has this class whatever the file names."
        if family_decides
        else "With tokenizer_class PreTrainedTokenizerFast it has."
    )
    return (
        f"As in transformers, the class {kind} builds the {' and the '.join(anew)} anew from {CONFIG}: what "
        f"tokenizer.json says there has no effect. {why}",
    )
