"""The parts that transformers' tokenizer classes build from the vocabulary of a tokenizer.json.

Each function takes the options of tokenizer_config.json that its class has, with the class's defaults, and gives the
parts that replace those of the file. A post-processor needs the ids of special tokens, and so is made later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastqps.models.card import ModelError
from fastqps.models.tokenizers.added_tokens import Token, token
from fastqps.models.tokenizers.keys import CONFIG

Part = dict[str, Any]
Named = Mapping[str, str | Token | None]  # special tokens by their names

QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPACE = "\u2581"
_CAMEMBERT_EXTRA = ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]

# The special tokens that a class has where its configuration does not name them.
_BERT = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
_ROBERTA = {"bos": "<s>", "eos": "</s>", "sep": "</s>", "cls": "<s>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>"}
_END = "<|endoftext|>"
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "BertTokenizer": _BERT,
    "DistilBertTokenizer": _BERT,
    "RobertaTokenizer": _ROBERTA,
    "XLMRobertaTokenizer": _ROBERTA,
    "CamembertTokenizer": _ROBERTA,
    "GPT2Tokenizer": {"unk": _END, "bos": _END, "eos": _END},
    "MPNetTokenizer": _ROBERTA | {"unk": "[UNK]"},
    "AlbertTokenizer": _BERT | {"bos": "[CLS]", "eos": "[SEP]", "unk": "<unk>", "pad": "<pad>"},
    "Qwen2Tokenizer": {"unk": _END, "eos": _END, "pad": _END},
}
_TOKEN_TYPES = ("BertTokenizer",)  # their model_input_names hold token_type_ids


def named_defaults(kind: str) -> dict[str, str]:
    return {f"{name}_token": content for name, content in _DEFAULTS.get(kind, {}).items()}


def has_token_types(kind: str) -> bool:
    return kind in _TOKEN_TYPES


def extra_default(kind: str) -> list[str]:
    """The special tokens without names that a class has where no file says any."""
    return _CAMEMBERT_EXTRA if kind == "CamembertTokenizer" else []


def mask_of(kind: str, mask: str | Token | None) -> str | Token | None:
    """The mask token as the class makes it of its text."""
    eats_spaces = kind in ("CamembertTokenizer", "MPNetTokenizer")
    return token(mask, special=True, lstrip=True) if eats_spaces and isinstance(mask, str) else mask


def built(kind: str, file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    """Model (without its vocabulary), normalizer, pre-tokenizer and decoder of the class.

    ``ModelError`` where its options are of a wrong type, or where the file has another kind of model.
    """
    model, build = _BUILDERS[kind]
    stated = file["model"].get("type", model)
    if stated != model:
        raise ModelError(
            f"{CONFIG}: tokenizer_class {kind} needs the model {model}, and that of tokenizer.json is {stated}"
        )
    return build(file, options, named)


def post_processor(kind: str, named: Named, find: Callable[[str], int | None]) -> Part | None:
    """The class's own; None where it takes the file's."""
    if kind in ("BertTokenizer", "DistilBertTokenizer"):
        (cls, cls_id), (sep, sep_id) = (_whole(named, name, find) for name in ("cls_token", "sep_token"))
        return _template([cls, "$A", sep], [cls, "$A", sep, "$B:1", f"{sep}:1"], {cls: cls_id, sep: sep_id})
    if kind in ("RobertaTokenizer", "MPNetTokenizer"):
        ends = {name: list(_content(named, f"{name}_token", find)) for name in ("sep", "cls")}
        return {"type": "RobertaProcessing", **ends, "trim_offsets": True, "add_prefix_space": False}
    if kind in ("XLMRobertaTokenizer", "CamembertTokenizer"):
        (bos, bos_id), (eos, eos_id) = (_whole(named, name, find) for name in ("bos_token", "eos_token"))
        return _template([bos, "$A", eos], [bos, "$A", eos, eos, "$B", eos], {bos: bos_id, eos: eos_id})
    return None


def text_of(found: str | Token | None) -> str | None:
    return found["content"] if isinstance(found, dict) else found


def _content(named: Named, name: str, find: Callable[[str], int | None]) -> tuple[str, int]:
    content = text_of(named.get(name))
    number = find(content) if content else None
    if not content or number is None:
        raise ModelError(f"{CONFIG}: {name} {content!r} is not supported: the tokenizer class puts it around texts")
    return content, number


def _whole(named: Named, name: str, find: Callable[[str], int | None]) -> tuple[str, int]:
    """A token that transformers writes into a template, in which white space, ``:`` and ``$`` have a meaning."""
    content, number = _content(named, name, find)
    if ":" in content or "$" in content or len(content.split()) != 1 or content.split()[0] != content:
        raise ModelError(f"{CONFIG}: {name} {content!r} is not supported: it cannot stand in a template")
    return content, number


def _template(single: list[str], pair: list[str], ids: Mapping[str, int]) -> Part:
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


def _flag(options: Mapping[str, Any], key: str, default: bool) -> bool:
    value = options.get(key, default)
    if not isinstance(value, bool):
        raise ModelError(f"{CONFIG}: {key} {value!r} is neither true nor false")
    return value


def _bert(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    unknown = text_of(named.get("unk_token"))
    if unknown not in file["model"]["vocab"]:
        raise ModelError(f"{CONFIG}: unk_token {unknown!r} is not in the vocabulary of tokenizer.json")
    strip = None if options.get("strip_accents") is None else _flag(options, "strip_accents", False)
    return {
        "model": {
            "type": "WordPiece",
            "unk_token": unknown,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
        },
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": _flag(options, "tokenize_chinese_chars", True),
            "strip_accents": strip,
            "lowercase": _flag(options, "do_lower_case", True),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    }


def _byte_level(prefix: bool, use_regex: bool = True) -> Part:
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": use_regex}


def _bpe(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    return {
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
        },
        "normalizer": None,
        "pre_tokenizer": _byte_level(_flag(options, "add_prefix_space", False)),
        "decoder": _byte_level(prefix=True),
    }


def _qwen2(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    stated = options.get("add_prefix_space")
    prefix = False if stated is None else _flag(options, "add_prefix_space", False)
    split = {"type": "Split", "pattern": {"Regex": QWEN2_PATTERN}, "behavior": "Isolated", "invert": False}
    return {
        **_bpe(file, {}, named),
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, _byte_level(prefix, use_regex=False)]},
    }


def _unigram(unk_id: int, file: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Part | None]:
    scheme = "always" if _flag(options, "add_prefix_space", True) else "never"
    space: Part = {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": scheme, "split": True}
    return {
        "model": {"type": "Unigram", "unk_id": unk_id, "byte_fallback": False},
        "normalizer": precompiled(file.get("normalizer")),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]},
        "decoder": space,
    }


def precompiled(normalizer: Any) -> Part | None:
    """The first table of a sentencepiece model that a tokenizer.json has as its normalizer, or in a list of them."""
    found = normalizer["normalizers"] if (normalizer or {}).get("type") == "Sequence" else [normalizer]
    return next((each for each in found if each and each.get("type") == "Precompiled"), None)


def _xlm_roberta(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    if len(file["model"]["vocab"]) <= 3:
        raise ModelError("tokenizer.json: the vocabulary of an XLMRobertaTokenizer needs more than 3 entries")
    return _unigram(3, file, options)


def _albert(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    vocab = [each for each, _ in file["model"]["vocab"]]
    ids = {}
    for mark, name in (("[CLS]", "cls_token"), ("[SEP]", "sep_token")):
        content = str(text_of(named.get(name)))
        if content not in vocab:
            raise ModelError(f"{CONFIG}: {name} {content!r} is not in the vocabulary of tokenizer.json")
        ids[mark] = vocab.index(content)
    steps: list[Part] = [{"type": "Replace", "pattern": {"String": mark}, "content": '"'} for mark in ("``", "''")]
    if not _flag(options, "keep_accents", False):
        steps += [{"type": "NFKD"}, {"type": "StripAccents"}]
    if _flag(options, "do_lower_case", True):
        steps.append({"type": "Lowercase"})
    if table := precompiled(file.get("normalizer")):
        steps.append(table)
    parts = _unigram(1, file, options) | {"normalizer": {"type": "Sequence", "normalizers": steps}}
    if not file.get("post_processor"):
        parts["post_processor"] = _template(["[CLS]", "$A", "[SEP]"], ["[CLS]", "$A", "[SEP]", "$B:1", "[SEP]:1"], ids)
    return parts


def _camembert(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    unknown = str(text_of(named.get("unk_token")))  # as in transformers, null is the token "None"
    number = next((i for i, (each, _) in enumerate(file["model"]["vocab"]) if each == unknown), 0)
    return _unigram(number, file, options)


_BUILDERS = {
    "BertTokenizer": ("WordPiece", _bert),
    "DistilBertTokenizer": ("WordPiece", _bert),
    "RobertaTokenizer": ("BPE", _bpe),
    "GPT2Tokenizer": ("BPE", _bpe),
    "Qwen2Tokenizer": ("BPE", _qwen2),
    "MPNetTokenizer": ("WordPiece", _bert),
    "AlbertTokenizer": ("Unigram", _albert),
    "XLMRobertaTokenizer": ("Unigram", _xlm_roberta),
    "CamembertTokenizer": ("Unigram", _camembert),
}
