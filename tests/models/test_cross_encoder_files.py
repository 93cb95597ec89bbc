"""A cross-encoder's files are honoured as sentence-transformers' CrossEncoder does it, or refused by name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_files import BASES, MODEL_FILE, add, write, write_base, write_modules
from sentence_transformers import CrossEncoder, SentenceTransformer

from fastqps.engine.engine import Engine
from fastqps.models import ModelError, load_card

pytestmark = pytest.mark.compute

PAIRS = [("a b", "c d a"), ("c", "b"), ("d c b a b c d", "a b c")]
OWN = {"transformer_task": "sequence-classification"}
CROSS = {"model_type": "CrossEncoder"}
IDENTITY, SIGMOID = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """A classifier for each number of labels."""
    found = {labels: tmp_path_factory.mktemp(f"labels{labels}") for labels in (1, 3)}
    for labels, path in found.items():
        write_base(path, "classify", num_labels=labels)
    return found


@pytest.fixture(params=[1, 3])
def model(request: pytest.FixtureRequest, bases: dict[int, Path], tmp_path: Path) -> Path:
    """A cross-encoder with modules.json; tests add to it."""
    path = tmp_path / "model"
    shutil.copytree(bases[request.param], path)
    write_modules(path, [(f"{BASES[0]}.transformer.Transformer", "")])
    write(path / "sentence_bert_config.json", OWN)
    write(path / MODEL_FILE, CROSS)
    return path


def check_equal(path: Path) -> None:
    """Every pair's scores, cut where it is too long, as CrossEncoder gives them: each label's, by its number."""
    theirs = CrossEncoder(str(path), device="cpu").predict(PAIRS).reshape(len(PAIRS), -1)
    found = Engine(str(path), dtype="float32").predict(PAIRS, truncate=True)
    by_label = [[score for _, score in sorted(scores)] for scores in found]
    np.testing.assert_allclose(by_label, theirs, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("file", "value"),
    [
        (MODEL_FILE, {}),  # sigmoid for one label, nothing for more
        (MODEL_FILE, {"activation_fn": IDENTITY}),
        (MODEL_FILE, {"activation_fn": "torch.nn.Sigmoid"}),
        (MODEL_FILE, {"activation_fn": "torch.nn.modules.activation.Softmax"}),
        (MODEL_FILE, {"model_type": "SentenceTransformer", "activation_fn": IDENTITY}),  # built anew: not read
        (MODEL_FILE, {"default_prompt_name": "q", "prompts": {"q": "a "}}),
        (MODEL_FILE, {"model_type": None, "default_prompt_name": "p", "prompts": {"p": "a "}}),
        ("config.json", {"problem_type": "regression"}),
        ("config.json", {"problem_type": "multi_label_classification"}),
        ("config.json", {"sentence_transformers": {"version": "4.1.0"}}),
        ("config.json", {"sentence_transformers": {"activation_fn": SIGMOID}}),
        (
            "config.json",
            {"sentence_transformers": {"activation_fn": None}, "sbert_ce_default_activation_function": SIGMOID},
        ),
        ("config.json", {"sbert_ce_default_activation_function": SIGMOID}),
        ("sentence_bert_config.json", {"max_seq_length": 5}),
        ("sentence_bert_config.json", {"processor_kwargs": {"model_max_length": 12}}),
    ],
)
@pytest.mark.parametrize("listed", [True, False])
def test_honoured(model: Path, file: str, value: dict[str, Any], listed: bool) -> None:
    add(model / "tokenizer_config.json", {"model_max_length": 9})
    add(model / file, value)
    if value.get("model_type", "") is None:
        write(model / file, {key: said for key, said in value.items() if said is not None})
    if not listed:
        (model / "modules.json").unlink()
    if load_card(str(model)).pairs_only:
        check_equal(model)
    else:  # nothing calls it a cross-encoder: another classifier, whose scores are transformers'
        assert not listed and "model_type" in value


@pytest.mark.parametrize("listed", [True, False])
def test_a_file_that_is_not_read_is_warned_of(model: Path, listed: bool) -> None:
    write(model / MODEL_FILE, {"activation_fn": IDENTITY} | ({} if listed else CROSS))
    if not listed:
        (model / "modules.json").unlink()
    warnings = " ".join(load_card(str(model)).warnings)
    assert f"{MODEL_FILE} is not read" in warnings and "activation_fn" in warnings
    check_equal(model)


def test_a_transformer_alone_in_a_folder_is_refused_without_its_type(model: Path) -> None:
    """sentence-transformers builds such a cross-encoder from the checkpoint's root."""
    (model / MODEL_FILE).unlink()
    shutil.copytree(model, model / "0_Transformer")
    write_modules(model, [(f"{BASES[0]}.transformer.Transformer", "0_Transformer")])
    with pytest.raises(ModelError, match=r"modules\.json: the path '0_Transformer'"):
        load_card(str(model))


@pytest.mark.parametrize("file", ["tokenizer_config.json", "chat_template.jinja"])
@pytest.mark.parametrize("task", ["classify", "embed"])
def test_a_chat_template_without_modules_is_refused(task: str, file: str, tmp_path: Path) -> None:
    """sentence-transformers puts every input through it, of an embedder too; a plain classifier's pipeline does not."""
    write_base(tmp_path, task, **({"num_labels": 1} if task == "classify" else {}))
    template = "{% for each in messages %}d {{ each['content'] }}{% endfor %}"
    if file.endswith(".json"):
        add(tmp_path / file, {"chat_template": template})
    else:
        (tmp_path / file).write_text(template)
    if task == "classify":
        assert load_card(str(tmp_path)).task == task
        add(tmp_path / "config.json", {"sentence_transformers": {"version": "4.1.0"}})
    made = CrossEncoder if task == "classify" else SentenceTransformer
    assert "message" in made(str(tmp_path), device="cpu").modalities
    with pytest.raises(ModelError, match=f"{file} has a chat template"):
        load_card(str(tmp_path))
