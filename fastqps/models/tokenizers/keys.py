"""The keys of tokenizer_config.json and special_tokens_map.json, as transformers' tokenizer classes read them.

tests/tokenizers/test_tokenizer_files.py compares answers under these rules with transformers' ``AutoTokenizer``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.files.keys import Keys, Refused, Rules, rules

CONFIG = "tokenizer_config.json"
CHAT_TEMPLATE = "chat_template.jinja"
SPECIAL_MAP = "special_tokens_map.json"
NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

# A file's own class: tokenizer.json as it is, with the tokens that tokenizer_config.json adds.
BACKEND = "TokenizersBackend"
# Classes for which transformers reads no tokenizer.json, if config.json alone names them and the family has no class.
WITHOUT_FILE = ("PreTrainedTokenizer", "PythonBackend", "PythonBackendFast")
# Class names that transformers takes for another. The first group reads tokenizer.json as it is.
_ALIASES = {
    **dict.fromkeys(("PreTrainedTokenizer", "PythonBackend"), BACKEND),
    **dict.fromkeys(
        ("ElectraTokenizer", "MobileBertTokenizer", "LayoutLMTokenizer", "SqueezeBertTokenizer"), "BertTokenizer"
    ),
    **dict.fromkeys(("BartTokenizer", "LongformerTokenizer"), "RobertaTokenizer"),
}

_COMMON = rules(
    honoured=(
        *("tokenizer_class", "model_max_length", "max_len", "model_input_names", "truncation_side", "padding_side"),
        *("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens", *NAMED),
    ),
    # Keys for saving, padding, chats and decoding. Beside a tokenizer.json transformers ignores add_bos_token, too.
    irrelevant=(
        *("name_or_path", "_name_or_path", "_commit_hash", "special_tokens_map_file", "tokenizer_file", "vocab_file"),
        *("merges_file", "full_tokenizer_file", "is_local", "local_files_only", "backend", "files_loaded"),
        *("processor_class", "verbose", "use_fast", "from_slow", "legacy", "device_map", "device", "dtype"),
        *("padding", "pad_to_multiple_of", "pad_token_type_id", "max_length", "stride", "truncation"),
        *("truncation_strategy", "return_token_type_ids", "return_tensors", "return_attention_mask"),
        *("chat_template", "response_template", "response_schema", "chat_control_tokens", "tool_parser_type"),
        *("use_default_system_prompt", "sp_model_kwargs", "do_basic_tokenize", "never_split", "errors", "trim_offsets"),
        *("add_bos_token", "add_eos_token", "keep_accents", "remove_space", "fix_mistral_regex", "unk_id"),
        *("clean_up_tokenization_spaces", "spaces_between_special_tokens", "vocab_size", "default_prompt_name"),
        *("add_prefix_space", "do_lower_case", "strip_accents", "tokenize_chinese_chars"),
        *("max_model_input_sizes", "tokenizer_type", "unsloth_fixed", "vocab", "merges"),
    ),
    refused={
        "split_special_tokens": Refused((False,), "special tokens that are spelled in a text are always found"),
        "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": Refused(
            (False,), "text is given out as the tokens spell it"
        ),
        "auto_map": Refused((), "a tokenizer in foreign code is not run"),
        "fast_tokenizer_files": Refused(([], ["tokenizer.json"]), "only tokenizer.json is read"),
        "init_inputs": Refused(([],), "only named options of a tokenizer are read"),
        "model_specific_special_tokens": Refused(({},), "name such tokens in extra_special_tokens"),
        "tokenizer_truncation": Refused((), "truncation is read from tokenizer.json"),
        "tokenizer_padding": Refused((), "padding is read from tokenizer.json"),
        "post_processor": Refused((), "the post-processor is read from tokenizer.json"),
        "tokenizer_object": Refused((), "the tokenizer is read from tokenizer.json"),
        "gguf_file": Refused((), "the tokenizer is read from tokenizer.json"),
    },
)
_BERT = _COMMON | rules(honoured=("do_lower_case", "strip_accents", "tokenize_chinese_chars"))
_BYTES = _COMMON | rules(honoured=("add_prefix_space",))

# By the classes that a checkpoint may name. All but the first build the tokenizer anew from the vocabulary.
CLASS_RULES: Mapping[str, Rules] = {
    BACKEND: _COMMON,
    "BertTokenizer": _BERT,
    "DistilBertTokenizer": _BERT,
    "MPNetTokenizer": _BERT,
    "AlbertTokenizer": _BYTES | rules(honoured=("do_lower_case", "keep_accents")),
    "RobertaTokenizer": _BYTES | rules(honoured=("trim_offsets",)),
    "GPT2Tokenizer": _BYTES,
    "GPTNeoXTokenizer": _BYTES | rules(irrelevant=("trim_offsets",)),
    "Qwen2Tokenizer": _BYTES,
    "GemmaTokenizer": _COMMON,
    "LlamaTokenizer": _BYTES | rules(honoured=("legacy",)),
    "XLMRobertaTokenizer": _BYTES,
    "CamembertTokenizer": _BYTES,
    "DebertaV2Tokenizer": _BYTES
    | rules(honoured=("do_lower_case", "split_by_punct", "unk_id"), irrelevant=("vocab_type",)),
    "T5Tokenizer": _COMMON | rules(honoured=("extra_ids",)),
}


def known_class(name: str) -> str:
    """The class that transformers takes for ``name``: without "Fast", and by its aliases."""
    short = name.removesuffix("Fast")
    return _ALIASES.get(short, short)


def tokenizer_class(stated: Any, family_class: str, family_decides: bool, byte_level: bool) -> str:
    """The class that ``AutoTokenizer`` takes; one that is not a key of ``CLASS_RULES`` cannot be served.

    ``family_class`` is that of files that state none; with ``family_decides``, of all. ``byte_level``: tokenizer.json
    has a part of that kind.
    """
    if stated is None or family_decides:
        return family_class
    name = known_class(str(stated))
    return BACKEND if name == "LlamaTokenizer" and byte_level else name


def config_keys(file: str, values: Mapping[str, Any], kind: str) -> Keys:
    """The object of ``file`` by the rules of the class ``kind``; ``ModelError`` names a key that is refused.

    transformers takes every key that ends in ``_token`` and has text for a special token.
    """
    own = CLASS_RULES[kind]
    listed = own.honoured | own.irrelevant | own.refused.keys()
    tokens = (key for key, value in values.items() if key.endswith("_token") and isinstance(value, (str, dict)))
    return Keys(file, values, own | rules(honoured=(key for key in tokens if key not in listed)))
