"""docs/config-keys.md: what becomes of each key of config.json, by family, and of the files beside it.

``python -m fastqps.models.config_document`` prints the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from fastqps.models.adapters.adapter import ADAPTER_KEYS
from fastqps.models.families import FAMILIES, DecoderFamily
from fastqps.models.families.family import Family
from fastqps.models.families.llama_encoder import encoder_of
from fastqps.models.files.keys import Rules
from fastqps.models.sentence_transformers import keys

_HEAD = """# Keys of config.json

Written by `python -m fastqps.models.config_document > docs/config-keys.md`; change
`fastqps/models/files/config_keys.py` or the module of a family in `fastqps/models/families` instead. The files of
[sentence-transformers, PyLate and PEFT](#files-of-sentence-transformers-pylate-and-peft) have their rules in
`fastqps/models/sentence_transformers/keys.py` and `fastqps/models/adapters/adapter.py`.

A key is **honoured** (it does what it does in transformers), **refused** (the model is not served where the key has
another value than those named; null and absence are always allowed) or **irrelevant** (it changes no answer, or it is
an option of requests). A key that is in none of these lists has no effect, as in transformers, and the server warns of
it.
`roberta` is also the family of `xlm-roberta` and `camembert`.

`tests/models/test_config_keys.py` compares the lists with those of transformers and with what the code reads;
`tests/models/test_key_values.py` compares answers under other values of every key with those of transformers;
`tests/models/test_published_configs.py` compares the answers of published configurations with transformers';
`tests/models/test_file_keys.py` compares the files beside config.json with the packages that write them.
"""
_FILES_HEAD = """## Files of sentence-transformers, PyLate and PEFT

Values of honoured keys that are not supported are rejected by name, too. A key that is in none of these lists has no
effect in `config_sentence_transformers.json`, `modules.json` and the files of Dense and Normalize, as in
sentence-transformers. In `adapter_config.json` it is rejected if it is switched on, in the other files always.
"""
_FILES = (
    ("modules.json, each module", keys.MODULE),
    ("config_sentence_transformers.json", keys.MODEL),
    ("config_sentence_transformers.json, of a model with a vector for each token", keys.MULTI_MODEL),
    ("sentence_bert_config.json and its other names", keys.TRANSFORMER),
    ("sentence_bert_config.json, of a model with a vector for each token", keys.MULTI_TRANSFORMER),
    ("query_expansion", keys.EXPANSION),
    ("model_kwargs, model_args, config_kwargs, config_args", keys.LOADING),
    ("processor_kwargs, tokenizer_args", keys.TOKENIZER_LOADING),
    ("Pooling", keys.POOLING),
    ("Dense", keys.DENSE),
    ("Dense, of the vectors of tokens", keys.TOKEN_DENSE),
    ("Normalize", keys.NORMALIZE),
    ("Normalize, of the vectors of tokens", keys.TOKEN_NORMALIZE),
    ("SpladePooling", keys.SPLADE_POOLING),
    ("LogitScore", keys.LOGIT_SCORE),
    ("MultiVectorMask", keys.TOKEN_MASK),
    ("adapter_config.json", ADAPTER_KEYS),
)


def page() -> str:
    """The whole page, in Markdown."""
    by_name = {family.name: family for family in FAMILIES.values()}
    files = ["\n\n".join(_lists(f"### {name}", known)) + "\n" for name, known in _FILES]
    return "\n".join([_HEAD, *map(_section, by_name.values()), _FILES_HEAD, *files])


def _lists(heading: str, known: Rules) -> list[str]:
    """A heading, and what is not empty of three lists."""
    lines = [heading]
    if known.honoured:
        lines.append(f"**Honoured**: {_names(known.honoured)}.")
    if known.refused:
        refused = [f"| `{key}` | {_values(rule.neutral)} | {rule.why} |" for key, rule in sorted(known.refused.items())]
        lines.append("| refused | unless it is | because |\n|---|---|---|\n" + "\n".join(refused))
    if known.irrelevant:
        lines.append(f"**Irrelevant**: {_names(known.irrelevant)}.")
    return lines


def _section(family: Family) -> str:
    rules = family.rules()
    lines = _lists(f"## {family.name}", rules)
    if isinstance(family, DecoderFamily):
        lines.append(
            "A `generation_config.json` alone says how to generate where there is one: such keys are irrelevant then, "
            "and so is `eos_token_id`, even if the `generation_config.json` names none."
        )
        if family.encodes:
            encodes = _names(encoder_of(family).keys.honoured - rules.honoured)
            lines.append(
                f"Where such a checkpoint embeds (by its `modules.json`) or gives scores, {encodes} are honoured, too, "
                "and keys that say how to generate are irrelevant."
            )
    for names, what in ((family.older, "is read"), (family.aliases, "holds")):
        if names:
            lines.append(f"By another name: {', '.join(f'`{key}` {what} as `{name}`' for key, name in names.items())}.")
    return "\n\n".join(lines) + "\n"


def _names(keys: Iterable[str]) -> str:
    return ", ".join(f"`{key}`" for key in sorted(keys))


def _values(neutral: tuple[object, ...]) -> str:
    return " or ".join(f"`{json.dumps(value)}`" for value in neutral) or "absent"


if __name__ == "__main__":
    print(page(), end="")
