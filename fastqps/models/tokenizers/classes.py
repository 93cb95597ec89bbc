"""The parts that transformers' tokenizer classes build from the vocabulary of a tokenizer.json.

Each function takes the options of tokenizer_config.json that its class has, with the class's defaults, and gives the
parts that replace those of the file. A post-processor needs the ids of special tokens, and so is made later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.files.config_values import count
from fastqps.models.tokenizers import unigram_classes
from fastqps.models.tokenizers.added_tokens import Named, Part, Token, flag, template, text_of, token
from fastqps.models.tokenizers.keys import CONFIG

QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CAMEMBERT_EXTRA = ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]

# The special tokens that a class has where its configuration does not name them.
_BERT = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
_ROBERTA = {"bos": "<s>", "eos": "</s>", "sep": "</s>", "cls": "<s>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>"}
_SPACE = "\u2581"
_END = "<|endoftext|>"
_DEBERTA = _BERT | {"bos": "[CLS]", "eos": "[SEP]"}
_GEMMA = {"unk": "<unk>", "bos": "<bos>", "eos": "<eos>", "pad": "<pad>", "mask": "<mask>"}
_TOKEN_TYPES = ("BertTokenizer", "DebertaV2Tokenizer")  # their model_input_names hold token_type_ids


def named_defaults(kind: str) -> dict[str, str]:
    defaults = _CLASSES[kind][2] if kind in _CLASSES else {}
    return {f"{name}_token": content for name, content in defaults.items()}


def has_token_types(kind: str) -> bool:
    return kind in _TOKEN_TYPES


def extra_default(kind: str, options: Mapping[str, Any]) -> list[str]:
    """The special tokens without names that a class has where no file says any."""
    if kind == "T5Tokenizer":
        return [f"<extra_id_{i}>" for i in range(count(options, "extra_ids", 100, smallest=0, where=CONFIG))]
    return _CAMEMBERT_EXTRA if kind == "CamembertTokenizer" else []


def mask_of(kind: str, mask: str | Token | None) -> str | Token | None:
    """The mask token as the class makes it of its text."""
    eats_spaces = kind in ("CamembertTokenizer", "MPNetTokenizer")
    return token(mask, special=True, lstrip=True) if eats_spaces and isinstance(mask, str) else mask


def built(kind: str, file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    """Model (without its vocabulary), normalizer, pre-tokenizer and decoder of the class.

    ``ModelError`` where its options are of a wrong type, or where the file has another kind of model.
    """
    model, build, _ = _CLASSES[kind]
    stated = file["model"].get("type", model)
    if stated != model:
        raise ModelError(
            f"{CONFIG}: tokenizer_class {kind} needs the model {model}, and that of tokenizer.json is {stated}"
        )
    return build(file, options, named)


def post_processor(
    kind: str, options: Mapping[str, Any], named: Named, find: Callable[[str], int | None]
) -> Part | None:
    """The class's own; None where it takes the file's."""
    if kind in ("BertTokenizer", "DistilBertTokenizer", "DebertaV2Tokenizer"):
        (cls, cls_id), (sep, sep_id) = (_whole(named, name, find) for name in ("cls_token", "sep_token"))
        return template([cls, "$A", sep], [cls, "$A", sep, "$B:1", f"{sep}:1"], {cls: cls_id, sep: sep_id})
    if kind in ("RobertaTokenizer", "MPNetTokenizer"):
        ends = {name: list(_content(named, f"{name}_token", find)) for name in ("sep", "cls")}
        own = options if kind == "RobertaTokenizer" else {}
        trims, prefix = flag(own, "trim_offsets", True), flag(own, "add_prefix_space", False)
        return {"type": "RobertaProcessing", **ends, "trim_offsets": trims, "add_prefix_space": prefix}
    if kind in ("XLMRobertaTokenizer", "CamembertTokenizer"):
        (bos, bos_id), (eos, eos_id) = (_whole(named, name, find) for name in ("bos_token", "eos_token"))
        return template([bos, "$A", eos], [bos, "$A", eos, eos, "$B", eos], {bos: bos_id, eos: eos_id})
    if kind == "GPTNeoXTokenizer":  # whatever tokenizer.json says
        return template(["$A"], ["$A", "$B:1"], {})
    if kind == "T5Tokenizer":
        _, eos_id = _content(named, "eos_token", find)
        return template(["$A", "</s>"], ["$A", "</s>", "$B", "</s>"], {"</s>": eos_id})
    return None


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


def _bert(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    unknown = text_of(named.get("unk_token"))
    if unknown not in file["model"]["vocab"]:
        raise ModelError(f"{CONFIG}: unk_token {unknown!r} is not in the vocabulary of tokenizer.json")
    strip = None if options.get("strip_accents") is None else flag(options, "strip_accents", False)
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
            "handle_chinese_chars": flag(options, "tokenize_chinese_chars", True),
            "strip_accents": strip,
            "lowercase": flag(options, "do_lower_case", True),
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
        "pre_tokenizer": _byte_level(flag(options, "add_prefix_space", False)),
        "decoder": _byte_level(prefix=True),
    }


def _gpt_neox(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    return {**_bpe(file, options, named), "normalizer": {"type": "NFC"}}


def _qwen2(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    stated = options.get("add_prefix_space")
    prefix = False if stated is None else flag(options, "add_prefix_space", False)
    split = {"type": "Split", "pattern": {"Regex": QWEN2_PATTERN}, "behavior": "Isolated", "invert": False}
    return {
        **_bpe(file, {}, named),
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, _byte_level(prefix, use_regex=False)]},
    }


def _gemma(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    split = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    return {
        **_byte_fallback(file, named, str(text_of(named.get("unk_token")))),
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE},
        "pre_tokenizer": split,
    }


def _llama(file: Mapping[str, Any], options: Mapping[str, Any], named: Named) -> dict[str, Part | None]:
    """As in transformers, the model has no unknown token. Without ``legacy``, only the first word gets a space."""
    prefix = True if options.get("add_prefix_space") is None else flag(options, "add_prefix_space", True)
    legacy = False if options.get("legacy") is None else flag(options, "legacy", False)
    scheme = ("always" if legacy else "first") if prefix else "never"
    strip: list[Part] = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    return {
        **_byte_fallback(file, named, None, *strip),
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": scheme, "split": False},
    }


def _byte_fallback(file: Mapping[str, Any], named: Named, unknown: str | None, *last: Part) -> dict[str, Part | None]:
    """Model and decoder of sentencepiece's byte-pair encoding. ``last``: what the decoder does to the whole text."""
    own = {"unk_token": unknown, "fuse_unk": True, "byte_fallback": True}
    replaced = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
    return {
        "model": {**(_bpe(file, {}, named)["model"] or {}), **own},
        "decoder": {"type": "Sequence", "decoders": [replaced, {"type": "ByteFallback"}, {"type": "Fuse"}, *last]},
    }


# The kind of each class's model, what builds its parts, and the special tokens that a configuration need not name.
_CLASSES: Mapping[str, tuple[str, Callable[..., dict[str, Part | None]], Mapping[str, str]]] = {
    "BertTokenizer": ("WordPiece", _bert, _BERT),
    "DistilBertTokenizer": ("WordPiece", _bert, _BERT),
    "RobertaTokenizer": ("BPE", _bpe, _ROBERTA),
    "GPT2Tokenizer": ("BPE", _bpe, {"unk": _END, "bos": _END, "eos": _END}),
    "GPTNeoXTokenizer": ("BPE", _gpt_neox, {"unk": _END, "bos": _END, "eos": _END, "pad": "<|padding|>"}),
    "Qwen2Tokenizer": ("BPE", _qwen2, {"unk": _END, "eos": _END, "pad": _END}),
    "GemmaTokenizer": ("BPE", _gemma, _GEMMA),
    "LlamaTokenizer": ("BPE", _llama, {"unk": "<unk>", "bos": "<s>", "eos": "</s>"}),
    "MPNetTokenizer": ("WordPiece", _bert, _ROBERTA | {"unk": "[UNK]"}),
    "AlbertTokenizer": ("Unigram", unigram_classes.albert, _DEBERTA | {"unk": "<unk>", "pad": "<pad>"}),
    "XLMRobertaTokenizer": ("Unigram", unigram_classes.xlm_roberta, _ROBERTA),
    "CamembertTokenizer": ("Unigram", unigram_classes.camembert, _ROBERTA),
    "DebertaV2Tokenizer": ("Unigram", unigram_classes.deberta_v2, _DEBERTA),
    "T5Tokenizer": ("Unigram", unigram_classes.t5, {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}),
}
