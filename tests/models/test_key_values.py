"""Values of config.json's keys: the answers equal the reference's, or the model is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tr
from checkpoints import TASKS, write_checkpoint, write_sentence_modules
from decoders import write_decoder
from key_values import differing, other_values
from model_runs import random_items, run

from fastqps.devices import make_runner
from fastqps.engine.generator import Generator
from fastqps.models import ModelError, load_card
from fastqps.models.families import FAMILIES, DecoderFamily
from fastqps.models.families.llama_encoder import encoder_of

pytestmark = pytest.mark.compute

TOLERANCE = 1e-4
ITEMS = random_items(np.random.default_rng(0), 3, 40)
PROMPTS = [[7], [9, 4, 6], list(range(5, 45))]
NEW = 6  # tokens
AUTO: dict[str, Any] = {
    "embed": tr.AutoModel,
    "classify": tr.AutoModelForSequenceClassification,
    "classify_tokens": tr.AutoModelForTokenClassification,
    "generate": tr.AutoModelForCausalLM,
}
# What makes another model, and how its numbers are kept.
SETTLED = {"model_type", "architectures", "auto_map", "dtype", "torch_dtype", "quantization_config"}
WALKED = [
    *((kind, task) for kind, task in TASKS if kind not in ("jina_bert", "new")),  # transformers has no such classes
    *((kind, "generate") for kind, family in FAMILIES.items() if isinstance(family, DecoderFamily)),
]
Row = tuple[str, str, str]  # family, task, key


def rows(kind: str, task: str) -> list[Row]:
    family: Any = FAMILIES[kind]
    if isinstance(family, DecoderFamily) and task != "generate":
        family = encoder_of(family)
    rules = family.rules()
    names = family.aliases.keys() | family.older.keys()
    keys = (rules.honoured | rules.irrelevant | rules.refused.keys() | names) - SETTLED
    return [(kind, task, key) for key in sorted(keys)]


def write(path: Path, kind: str, task: str) -> None:
    if task == "generate":
        write_decoder(path, kind)
        (path / "generation_config.json").unlink()
    else:
        write_checkpoint(path, kind, task)
    if task == "embed":
        write_sentence_modules(path)


def change(path: Path, changes: dict[str, Any]) -> None:
    file = path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def reference(path: Path, task: str) -> np.ndarray | None:
    """The rows of transformers, or its tokens; None where it makes up weights that the file does not have."""
    encoder = json.loads((path / "config.json").read_text())["model_type"] == "t5"
    auto = tr.T5EncoderModel if encoder else AUTO[task]
    model, report = auto.from_pretrained(path, attn_implementation="eager", output_loading_info=True)
    if report["missing_keys"] or report["mismatched_keys"]:
        return None
    with torch.inference_mode():
        if task == "generate":
            how: dict[str, Any] = {"do_sample": False, "max_new_tokens": NEW, "pad_token_id": 0}
            made = [model.eval().generate(torch.tensor([ids]), torch.ones(1, len(ids)), **how)[0] for ids in PROMPTS]
            return np.concatenate([tokens[len(ids) :] for tokens, ids in zip(made, PROMPTS, strict=True)])
        found = [model.eval()(input_ids=torch.tensor([ids]))[0] for ids, _ in ITEMS]
    return np.concatenate([(rows.mean(1) if task == "embed" else rows.reshape(-1, rows.shape[-1])) for rows in found])


def answers(path: Path, task: str) -> np.ndarray:
    """Those of fastqps; ``ModelError`` where it refuses the model, or an item as too long for it."""
    card = load_card(str(path), None if task != "generate" else 40, max_output_tokens=NEW)
    if task == "generate":
        made = Generator(card, dtype="float32").generate(PROMPTS, max_tokens=NEW)
        return np.concatenate([each.token_ids for each in made])
    if card.max_input_tokens < max(len(ids) for ids, _ in ITEMS):
        raise ModelError("too long")
    return run(make_runner("cpu", card, 8, 256, dtype="float32", threads=1), ITEMS)


def differences(folder: Path, row: Row) -> list[str]:
    """The other values of a key that are served and give other answers than transformers."""
    kind, task, key = row
    if not folder.exists():
        write(folder, kind, task)
    file = folder / "config.json"
    text, defaults = file.read_text(), tr.CONFIG_MAPPING[kind]().to_dict()

    def write_value(value: Any) -> None:
        file.write_text(text)
        change(folder, {key: value})

    def equals(wanted: np.ndarray | None) -> bool:
        got = answers(folder, task)
        return wanted is not None and got.shape == wanted.shape and np.allclose(got, wanted, atol=TOLERANCE)

    values = other_values(json.loads(text).get(key, defaults.get(key)))
    found = differing(values, write_value, lambda: reference(folder, task), equals)
    file.write_text(text)
    return [f"{kind}, {task}: {key} {value!r}" for value in found]


@pytest.mark.nightly  # a sample of the same rows runs always
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("kind", "task"), WALKED)
def test_every_key_is_as_in_the_reference(kind: str, task: str, tmp_path: Path) -> None:
    """Every key of docs/config-keys.md: another value of it gives the reference's answers, or is refused."""
    assert [each for row in rows(kind, task) for each in differences(tmp_path / "model", row)] == []


def test_some_keys_are_as_in_the_reference(tmp_path: Path) -> None:
    every = [row for walked in WALKED for row in rows(*walked)]
    assert [each for i, row in enumerate(every[::397]) for each in differences(tmp_path / str(i), row)] == []


@pytest.mark.parametrize(
    ("kind", "task", "changes"),
    [
        ("t5", "embed", {"dense_act_fn": "relu"}),
        ("t5", "embed", {"dense_act_fn": "gelu", "feed_forward_proj": "gated-silu"}),
        ("t5", "embed", {"dense_act_fn": "silu", "feed_forward_proj": "gelu", "is_gated_act": True}),
        *(
            ("mistral", task, {"layer_types": [f"{kind}_attention" for kind in kinds]})
            for task, kinds in (
                ("embed", ("full", "sliding", "full")),
                ("classify", ("full", "full", "full")),
                ("classify_tokens", ("sliding", "full", "full")),
            )
        ),
        ("mistral", "classify", {"layer_types": None}),
        *((kind, "classify_tokens", {"token_classification_bias": False}) for kind in ("llama", "mistral", "qwen3")),
    ],
)
def test_equal_to_the_reference(kind: str, task: str, changes: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, kind, task)
    change(tmp_path, changes)
    wanted = reference(tmp_path, task)
    assert wanted is not None
    np.testing.assert_allclose(answers(tmp_path, task), wanted, atol=TOLERANCE)
