"""``fastqps card``: the folder that it writes gives the card of the checkpoint, and nothing else."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers as tr
from generators import write_generator
from multi_vectors import write_multi
from peft import LoraConfig, get_peft_model
from rerankers import write_qwen
from sparse_encoders import write_sparse_encoder
from static_models import classifier, model2vec
from token_classifiers import write_token_classifier
from tokenized_classifiers import IDENTITY, classifier_at

from fastqps.cli import main
from fastqps.config import Config, decide
from fastqps.engine.engine import Engine
from fastqps.models import ModelCard, ModelError, load_card
from fastqps.models.card_folder import CARD_FILE
from fastqps.models.card_tokenizer import load_tokenizer
from fastqps.models.cards import check_files, default_input_limit
from fastqps.models.names import resolve
from fastqps.models.sentence_transformers.pipeline import read_pipeline
from fastqps.supervisor.plan import make_plan
from fastqps.supervisor.reload.next_model import next_model

pytestmark = pytest.mark.compute

PREFIX = "Say what the cat did. "


def write_adapter(folder: Path, base: str) -> str:
    """One of LoRA, for a classifier."""
    model = tr.AutoModelForSequenceClassification.from_pretrained(base)
    config = LoraConfig(task_type="SEQ_CLS", target_modules=["query"], r=2, init_lora_weights=False)
    get_peft_model(model, config).save_pretrained(folder)
    return str(folder)


def _generator(folder: Path) -> str:
    (folder.parent / "prefix").write_text(PREFIX)
    return str(write_generator(folder))


WRITERS: dict[str, Callable[[Path], Any]] = {
    "minilm": lambda folder: None,
    "wordllama": lambda folder: None,
    "cross-encoder": lambda folder: classifier_at(folder, 1, **IDENTITY),
    "token-classifier": lambda folder: write_token_classifier(folder, "xlm-roberta"),
    "sparse": lambda folder: write_sparse_encoder(folder, "bert"),
    "multi": write_multi,
    "generator": _generator,
    "labels": lambda folder: write_qwen(folder) and None,
    "model2vec": model2vec,
    "static-classifier": classifier,
}
# Flags of the card, and what load_card is asked for the same.
OPTIONS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "cross-encoder": (
        ("--max-input-tokens=64", "--allow-single-texts"),
        {"max_input_tokens": 64, "allow_single_texts": True},
    ),
    "generator": (
        ("--max-output-tokens=24", "--prefix={parent}/prefix"),
        {"max_output_tokens": 24, "prefix_text": PREFIX},
    ),
    "labels": (
        ("--labels=yes,no", "--template=qwen3-reranker"),
        {"labels": ["yes", "no"], "template": "qwen3-reranker"},
    ),
    "model2vec": (("--max-input-tokens=32",), {"max_input_tokens": 32}),
}


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("card") / "minilm-card"
    assert main(["card", "minilm", f"--out={out}"]) == 0
    return out


def _texts(card: ModelCard) -> list[Any]:
    tokenizer = load_tokenizer(card)
    assert tokenizer
    return [tokenizer.encode(text) for text in ("A cat sat.", "été \N{SLIGHTLY SMILING FACE}")]


@pytest.mark.parametrize("kind", WRITERS)
def test_the_card_of_every_kind_of_model(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = str(WRITERS[kind](tmp_path / "model") or tmp_path / "model"), tmp_path / "out"
    if kind in ("minilm", "wordllama"):
        model = kind
    elif not Path(model).is_dir():
        model = str(tmp_path / "model")
    flags, asked = OPTIONS.get(kind, ((), {}))
    assert main(["card", f"served={model}", f"--out={out}", *(flag.format(parent=tmp_path) for flag in flags)]) == 0
    whole, alone = load_card(model, name="served", **asked), load_card(str(out))
    assert f"of served@{whole.version}" in capsys.readouterr().out
    assert not [path for path in out.rglob("*") if path.suffix == ".safetensors"], "no weights"
    elsewhere = {"path": str(out), "tokenizer": alone.tokenizer, "stamp": alone.stamp}
    assert alone == dataclasses.replace(whole, **elsewhere)
    assert _texts(alone) == _texts(whole)
    assert default_input_limit(str(out)) == whole.max_input_tokens
    assert resolve(str(out)) == ("served", out)
    if not whole.static:
        assert read_pipeline(out).pooling == read_pipeline(Path(whole.path)).pooling
    check_files(alone)
    with pytest.raises(ModelError, match="it holds a card and no weights"):
        Engine(str(out), device="cpu")
    Engine(str(out), device="null")


def test_an_edge_is_planned_from_it(minilm: Path) -> None:
    config = decide(Config(device="remote", upstream=("a:1",), model=(str(minilm),)))
    plan = make_plan(config)
    card = plan.cards[0]
    assert (card.name, card.version, config.slots) == ("minilm", load_card("minilm").version, 8192)
    assert next_model(plan, card, str(minilm)).card == card
    with pytest.raises(ModelError, match="needs; it is for --device remote"):
        make_plan(decide(Config(device="cpu", model=(str(minilm),))))


def test_an_adapter_is_in_the_version(tmp_path: Path) -> None:
    base = classifier_at(tmp_path / "base", 3)
    adapter = write_adapter(tmp_path / "adapter", base)
    assert main(["card", base, f"--adapter={adapter}", f"--out={tmp_path / 'out'}"]) == 0
    found = load_card(str(tmp_path / "out"))
    assert found.version == load_card(base, adapter=str(adapter)).version != load_card(base).version
    assert found.adapter == ""


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"max_input_tokens": 128}, "--max-input-tokens (it takes 256); write it again: fastqps card MODEL --out DIR"),
        ({"prefix_text": "x"}, "without this --prefix; write it again"),
        ({"adapter": "here"}, "without this --adapter; write it again"),
        ({"labels": ["yes"]}, "without this --labels; write it again"),
        ({"template": "x"}, "without this --template; write it again"),
        ({"allow_single_texts": True, "max_input_tokens": 256}, ""),  # it takes them in any case
    ],
)
def test_what_has_to_be_said_when_it_is_written(
    minilm: Path, asked: dict[str, Any], message: str, tmp_path: Path
) -> None:
    if "adapter" in asked:
        write_adapter(tmp_path, classifier_at(tmp_path / "base", 3))
        asked = {"adapter": str(tmp_path)}
    if not message:
        assert load_card(str(minilm), **asked) == load_card(str(minilm))
        return
    with pytest.raises(ModelError, match=re.escape(message)):
        load_card(str(minilm), **asked)


def test_a_generator_may_answer_with_less(tmp_path: Path) -> None:
    assert main(["card", str(write_generator(tmp_path / "model")), f"--out={tmp_path / 'out'}"]) == 0
    limits = [load_card(str(tmp_path / "out"), max_output_tokens=most).max_output_tokens for most in (16, 8192, None)]
    assert limits == [16, 1024, 1024]


@pytest.fixture
def copy(minilm: Path, tmp_path: Path) -> Path:
    for path in minilm.rglob("*"):
        if path.is_file():
            to = tmp_path / "copy" / path.relative_to(minilm)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(path.read_bytes())
    return tmp_path / "copy"


@pytest.mark.parametrize("name", ["tokenizer.json", "1_Pooling/config.json"])
def test_a_file_that_has_changed_is_named(copy: Path, name: str) -> None:
    card = load_card(str(copy))
    (copy / name).write_text((copy / name).read_text() + "\n")
    for look in (lambda: load_card(str(copy)), lambda: check_files(card)):
        with pytest.raises(ModelError, match=rf"{name}: it has changed since {CARD_FILE} was written") as refused:
            look()
        assert refused.value.exit_code == 4 and "\n" not in str(refused.value)
    (copy / name).unlink()
    with pytest.raises(ModelError, match=f"{name}: it is missing"):
        load_card(str(copy))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "its format is 2, not 1"),
        ({"format": None, "files": None}, "its format is None, not 1"),
        ({"card": {"name": "minilm"}}, "KeyError: 'logit_options'"),
        ({"files": {"../tokenizer.json": "0"}}, "'../tokenizer.json' leads out of the folder"),
        ({"files": {"/etc/passwd": "0"}}, "'/etc/passwd' leads out of the folder"),
        ({"files": {}}, "no digest of its tokenizer, 'tokenizer.json'"),
        ({"files": []}, "AttributeError"),
        ({"fastqps": "0.0.9", "format": 0}, "fastqps 0.0.9 has written it, and this is "),
    ],
)
def test_a_card_that_cannot_be_used(copy: Path, change: dict[str, Any], message: str) -> None:
    path = copy / CARD_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ModelError, match=re.escape(message)) as refused:
        load_card(str(copy))
    assert str(path) in str(refused.value) and "fastqps card" in str(refused.value)


def test_only_a_checkpoint_gives_one_and_only_an_empty_folder_takes_it(
    minilm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for arguments, code, message in (
        (
            [str(minilm), f"--out={tmp_path / 'new'}"],
            4,
            f"{minilm}: it holds a card and no weights; take the checkpoint",
        ),
        (["minilm", f"--out={tmp_path}"], 4, f"{tmp_path}: it is not empty; name a new folder with --out"),
        (["minilm", f"--out={tmp_path / 'file'}"], 4, f"{tmp_path / 'file'}: File exists"),
        (["minilm", "--prefix", str(tmp_path / "none"), "--out=x"], 2, "--prefix "),
        (["nothing", "--out=x"], 4, "no model 'nothing'"),
        (["minilm"], 2, "--out"),
    ):
        assert main(["card", *arguments]) == code
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and message in error
