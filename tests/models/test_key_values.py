"""Values of config.json's keys: the answers equal the reference's, or the model is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tr
from checkpoints import write_checkpoint, write_sentence_modules
from model_runs import random_items, run

from fastqps.devices import make_runner
from fastqps.models import ModelError, load_card

pytestmark = pytest.mark.compute

TOLERANCE = 1e-4
ITEMS = random_items(np.random.default_rng(0), 3, 40)
AUTO: dict[str, Any] = {
    "embed": tr.AutoModel,
    "classify": tr.AutoModelForSequenceClassification,
    "classify_tokens": tr.AutoModelForTokenClassification,
}


def change(path: Path, changes: dict[str, Any]) -> None:
    file = path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def reference(path: Path, task: str) -> np.ndarray | None:
    """The rows of transformers; None where it makes up weights that the file does not have."""
    encoder = json.loads((path / "config.json").read_text())["model_type"] == "t5"
    auto = tr.T5EncoderModel if encoder else AUTO[task]
    model, report = auto.from_pretrained(path, attn_implementation="eager", output_loading_info=True)
    if report["missing_keys"] or report["mismatched_keys"]:
        return None
    with torch.inference_mode():
        found = [model.eval()(input_ids=torch.tensor([ids]))[0] for ids, _ in ITEMS]
    return np.concatenate([(rows.mean(1) if task == "embed" else rows.reshape(-1, rows.shape[-1])) for rows in found])


def answers(path: Path) -> np.ndarray:
    """Those of fastqps; ``ModelError`` where it refuses the model."""
    return run(make_runner("cpu", load_card(str(path)), 8, 256, dtype="float32", threads=1), ITEMS)


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
    write_checkpoint(tmp_path, kind, task)
    if task == "embed":
        write_sentence_modules(tmp_path)
    change(tmp_path, changes)
    wanted = reference(tmp_path, task)
    assert wanted is not None
    np.testing.assert_allclose(answers(tmp_path), wanted, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("kind", "task", "changes", "said"),
    [
        ("t5", "embed", {"is_gated_act": False}, r"no tensor .*wi\.weight"),
    ],
)
def test_refused(kind: str, task: str, changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, kind, task)
    change(tmp_path, changes)
    assert reference(tmp_path, task) is None
    with pytest.raises(ModelError, match=said):
        answers(tmp_path)
