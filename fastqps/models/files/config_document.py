"""docs/config-keys.md: what becomes of each key of config.json, by family.

``python -m fastqps.models.files.config_document`` prints the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from fastqps.models.families import FAMILIES, DecoderFamily
from fastqps.models.families.family import Family
from fastqps.models.families.llama_encoder import encoder_of

_HEAD = """# Keys of config.json

Written by `python -m fastqps.models.files.config_document > docs/config-keys.md`; change
`fastqps/models/files/config_keys.py` or the module of a family in `fastqps/models/families` instead.

A key is **honoured** (it does what it does in transformers), **refused** (the model is not served where the key has
another value than those named; null and absence are always allowed) or **irrelevant** (it changes no answer, or it is
an option of requests). A key that is in none of these lists has no effect, as in transformers, and the server warns of
it.
`roberta` is also the family of `xlm-roberta` and `camembert`.

`tests/models/test_config_keys.py` compares the lists with those of transformers and with what the code reads;
`tests/models/test_key_values.py` compares answers under other values of every key with those of transformers;
`tests/models/test_published_configs.py` compares the answers of published configurations with transformers'.
"""


def page() -> str:
    """The whole page, in Markdown."""
    by_name = {family.name: family for family in FAMILIES.values()}
    return "\n".join([_HEAD, *map(_section, by_name.values())])


def _section(family: Family) -> str:
    rules = family.rules()
    refused = [f"| `{key}` | {_values(rule.neutral)} | {rule.why} |" for key, rule in sorted(rules.refused.items())]
    lines = [
        f"## {family.name}",
        f"**Honoured**: {_names(rules.honoured)}.",
        "| refused | unless it is | because |\n|---|---|---|\n" + "\n".join(refused),
        f"**Irrelevant**: {_names(rules.irrelevant)}.",
    ]
    if isinstance(family, DecoderFamily):
        lines.append(
            "A `generation_config.json` alone says how to generate where there is one: such keys are irrelevant then, "
            "and so is `eos_token_id`, even if the `generation_config.json` names none."
        )
        encodes = _names(encoder_of(family).keys.honoured - rules.honoured)
        lines.append(
            f"Where such a checkpoint embeds (by its `modules.json`) or gives scores, {encodes} are honoured, too, and "
            "keys that say how to generate are irrelevant."
        )
    return "\n\n".join(lines) + "\n"


def _names(keys: Iterable[str]) -> str:
    return ", ".join(f"`{key}`" for key in sorted(keys))


def _values(neutral: tuple[object, ...]) -> str:
    return " or ".join(f"`{json.dumps(value)}`" for value in neutral) or "absent"


if __name__ == "__main__":
    print(page(), end="")
