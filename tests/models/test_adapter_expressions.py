"""The modules that an adapter's configuration names are those that PEFT finds, and no expression takes long."""

from __future__ import annotations

from typing import Any

import peft
import pytest
from peft.tuners.tuners_utils import check_target_module_exists
from peft.utils.other import get_pattern_key

from fastqps.models import ModelError
from fastqps.models.adapters import patterns
from fastqps.models.adapters.patterns import Targets, first_matches

LINEAR = ("self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj", "mlp.gate")
STEMS = [f"{stem}.{layer}" for stem in ("model.layers", "layers", "visual.blocks") for layer in (0, 1, 11)]
MODULES = [
    *(f"{stem}.{end}" for stem in [*STEMS, "model.language_model.layers.0"] for end in LINEAR),
    *(f"encoder.layer.{layer}.attention.self.{end}" for layer in (0, 1) for end in ("query", "value", "my_query")),
    *("model.layers.1.mlp.experts.0.up_proj", "encoder.layers.2.blocks.1.wo", "modelXlayers.0.mlp.up_proj"),
    *("lm_head", "query", "query.0", "0.query", "model.layers.q_proj", "model.layers.10", "embed_tokens"),
]  # fmt: skip
_PARTS, _ENDS = "self_attn|attention|attn|mlp|feed_forward|ffn|dense", "q_proj|v_proj|up_proj"
# What peft's documentation and unsloth, axolotl, LLaMA-Factory and ms-swift write, and what lies next to it.
_LAYERS = r"\bmodel\.layers\.[\d]{1,}"
EXPRESSIONS = [
    *(r".*\.(q_proj|v_proj)", r".*(query|value)$", r".*layer.*(self|mlp).(query|up_proj)$", "query", r"(.*)proj", ""),
    rf".*?(?:language|text).*?(?:{_PARTS}).*?(?:{_ENDS}).*?",
    rf"(?:.*?(?:language|text).*?(?:{_PARTS}).*?(?:{_ENDS}).*?)|(?:{_LAYERS}\.(?:{_PARTS})\.(?:(?:{_ENDS})))",
    rf"(?:.*?(?:text).*?(?:{_PARTS}).*?\.(?:{_ENDS}))|(?:{_LAYERS}(?!.*\.experts\.\d)\..*?\.(?:(?:{_ENDS})))",
    r"model.layers.[\d]+.(_checkpoint_wrapped_module.)?(mlp|self_attn).(up|down|gate|q|k|v|o)_proj",
    rf"^(?!.*visual).*(?:{_ENDS}).*",
    rf"^(model)(?=\.).*\.({_ENDS})$",
    *(r"(?i).*Q_PROJ", r"(?x) .* query  # all", r"(.*)\.(?:0|1)\.(.*)(?<!_)query", "all-linear"),
]  # fmt: skip
LAYERS: list[dict[str, Any]] = [
    {"layers_to_transform": layers, "layers_pattern": pattern}
    for layers in (0, 1, [0, 11], [2])
    for pattern in (None, "", "layers", "l.*s", ["blocks", "layer"], [])
]
CONFIGS: list[dict[str, Any]] = [
    *({"target_modules": text} for text in EXPRESSIONS if text != "all-linear"),
    *({"target_modules": ["query", "up_proj", "lm_head"], "exclude_modules": text} for text in EXPRESSIONS),
    {"target_modules": ["q_proj", "mlp.gate", "0.query", "proj"], "layers_to_transform": []},
    {"target_modules": ["up_proj", "query"], "exclude_modules": ["mlp.up_proj", "query"]},
    *({"target_modules": ["up_proj", "wo", "query", "model.layers.1.mlp.gate"], **layers} for layers in LAYERS),
]


@pytest.mark.parametrize("options", CONFIGS, ids=str)
def test_targets_are_those_of_peft(options: dict[str, Any]) -> None:
    config, found = peft.LoraConfig(**options), Targets(options.get, MODULES)
    expected = [module for module in MODULES if check_target_module_exists(config, module)]
    assert [module for module in MODULES if module in found] == expected


def test_patterns_are_matched_in_order_as_peft_does() -> None:
    keys = ["self_attn.q_proj", r"layers\.[01]\..*proj", "^model.*e", "layers.11.mlp", "query", "^query.*", "e|d"]
    found = first_matches("rank_pattern", [rf"(.*\.)?({key})" for key in keys], MODULES)
    expected = {module: get_pattern_key(keys, module) for module in MODULES}
    assert {module: keys[found[module][0]] if module in found else module for module in MODULES} == expected
    assert len(set(expected.values()) & set(keys)) == 5, "those that no other one precedes"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(a+)+b", "target_modules: its regular expressions are not matched within 1 s; name the modules in a list"),
        ("(?:a|a|.)*b", "are not matched within 1 s"),
        ("(" * 9000 + ")" * 9000, "is no regular expression"),
        ("a**", "multiple repeat"),
        ("a{99999999999999999999}", "is no regular expression: the repetition number is too large"),
        (7, "something else than names and regular expressions"),
    ],
)
def test_refused(monkeypatch: pytest.MonkeyPatch, text: Any, message: str) -> None:
    monkeypatch.setattr(patterns, "_CPU_SECONDS_MAX", 1)
    with pytest.raises(ModelError, match=message):
        first_matches("target_modules", ["b", text], ["b", "a" * 60])
