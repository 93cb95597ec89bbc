"""Paths and folders that cannot be served as they are name the way out, and the way out works."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import joblib
import numpy as np
import pytest
import transformers as tr
from checkpoints import write_checkpoint, write_sentence_modules
from sklearn.linear_model import LogisticRegression
from tokenizer_checkpoints import wordpiece_file

from fastqps import Engine
from fastqps.models import ModelError, load_card
from fastqps.models.card_tokenizer import load_tokenizer

pytestmark = pytest.mark.compute

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world"]


def bert(folder: Path, task: str = "embed") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_checkpoint(folder, "bert", task, vocab_size=len(wordpiece_file()["model"]["vocab"]))
    return folder


def only(suffix: str, inside: str = "") -> Callable[[Path], Path]:
    """A checkpoint whose weights are of another kind alone."""

    def make(root: Path) -> Path:
        weights = bert(root) / "model.safetensors"
        (root / inside).mkdir(exist_ok=True)
        weights.rename(root / inside / f"model{suffix}")
        return root

    return make


def training(root: Path) -> Path:
    for step in (500, 1000, 90):
        bert(root / f"checkpoint-{step}")
    return root


def file_of(root: Path) -> Path:
    return bert(root) / "model.safetensors"


def beside(name: str) -> Callable[[Path], Path]:
    return lambda root: bert(root / "my-encoder").parent / name


# A path that is refused, the sentence, and what can be served instead: a path below the folder of the test, or a name.
REFUSED: list[tuple[Callable[[Path], Path | str], str, str]] = [
    (
        training,
        "has no config.json: it is the folder of a training; serve its last checkpoint, (.*)$",
        "checkpoint-1000",
    ),
    (lambda root: bert(root / "inner").parent, "serve the one inside, (.*)$", "inner"),
    (lambda root: root, "has no config.json: a checkpoint is a Hugging Face directory$", ""),
    (file_of, "model.safetensors is a file: name its folder, (.*)$", "."),
    (beside("my-encodr"), "did you mean '(.*)'\\?; OWNER/NAME downloads one of the hub$", "my-encoder"),
    (lambda _: "grammer", "did you mean '(.*)'\\?; OWNER/grammer downloads one of the hub$", "grammar"),
    (lambda _: "./nothing", "^no model './nothing': neither .*; OWNER/NAME downloads one of the hub$", ""),
    (lambda root: root / "model.gguf", "model.gguf is llama.cpp's, which is not read: serve OWNER/NAME, the", ""),
    (only(".onnx"), "no model.safetensors, and model.onnx is ONNX's, which is not read: serve the checkpoint that", ""),
    (only(".onnx", "onnx"), "and onnx/model.onnx is ONNX's, which is not read", ""),
    (only(".gguf"), "and model.gguf is llama.cpp's, which is not read", ""),
    (only(".h5"), "and model.h5 is TensorFlow's, which is not read", ""),
    (only(".bin"), "and model.bin is never read, because such a file can run any code; load it with transformers", ""),
    (only(".other"), "no model.safetensors; no other weights are read$", ""),
]


@pytest.mark.parametrize("row", range(len(REFUSED)), ids=lambda row: REFUSED[row][1][:40])
def test_what_is_refused_names_what_is_served(tmp_path: Path, row: int) -> None:
    make, said, instead = REFUSED[row]
    with pytest.raises(ModelError) as caught:
        load_card(str(make(tmp_path)))
    found = re.search(said, str(caught.value))
    assert found, caught.value
    if instead:
        served = found[1]
        assert Path(served) == tmp_path / instead or served == instead
        assert load_card(served).name


def command_of(warning: str) -> str:
    found = re.search(r"run in this folder: (.*?)(?: and serve .*)?$", warning)
    assert found, warning
    return found[1]


def follow(folder: Path, command: str) -> None:
    """Runs it in the folder, as a user does."""
    here = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{here}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"}
    subprocess.run(command, shell=True, cwd=folder, check=True, capture_output=True, env=environment)


def slow_vocabulary(root: Path) -> Path:
    (root / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    told = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 64}
    (root / "tokenizer_config.json").write_text(json.dumps(told))
    return bert(root)


def without_its_tokenizer(root: Path) -> Path:
    (root / "tokenizer.json").write_text(json.dumps(wordpiece_file()))
    (root / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    return bert(root / "checkpoint-500")


@pytest.mark.parametrize("make", [slow_vocabulary, without_its_tokenizer])
def test_a_folder_without_a_tokenizer_says_what_to_run(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    folder = make(tmp_path)
    (warning,) = (each for each in load_card(str(folder)).warnings if "There is no tokenizer.json" in each)
    assert str(tmp_path) not in warning, "clients see it"
    follow(folder, command_of(warning))
    card = load_card(str(folder))
    tokenizer = load_tokenizer(card)
    assert tokenizer and not any("no tokenizer.json" in each for each in card.warnings)
    assert tokenizer.encode("Hello world") == tr.AutoTokenizer.from_pretrained(folder)("Hello world")["input_ids"]


def test_a_folder_without_any_tokenizer_says_so(tmp_path: Path) -> None:
    warnings = load_card(str(bert(tmp_path / "alone"))).warnings
    assert any("Copy the tokenizer's files of the model" in each for each in warnings)


def test_splade_without_its_modules_says_what_to_run(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(wordpiece_file()))
    bert(tmp_path, "embed_sparse")
    card = load_card(str(tmp_path))
    (warning,) = (each for each in card.warnings if "SPLADE" in each)
    python, option, code = shlex.split(command_of(warning))
    assert (python, option) == ("python", "-c")
    with contextlib.chdir(tmp_path):
        exec(code, {})  # this process has imported the package already; a shell runs the commands for tokenizers
    assert (card.task, load_card(str(tmp_path / "splade")).task) == ("embed", "embed_sparse")
    shutil.rmtree(tmp_path / "splade")
    write_sentence_modules(tmp_path)
    assert not any("SPLADE" in each for each in load_card(str(tmp_path)).warnings), "it says how it embeds"


def test_the_head_of_setfit_is_left_out_and_can_be_applied(tmp_path: Path) -> None:
    bert(tmp_path)
    write_sentence_modules(tmp_path)
    vectors = np.random.default_rng(0).normal(size=(20, 32))
    joblib.dump(LogisticRegression().fit(vectors, [0, 1] * 10), tmp_path / "model_head.pkl")
    engine = Engine(str(tmp_path), dtype="float32")
    (warning,) = (each for each in engine.card.warnings if "SetFit" in each)
    code = warning.partition("classify its embeddings: ")[2].replace(
        "'model_head.pkl'", repr(str(tmp_path / "model_head.pkl"))
    )
    load, score = code.rsplit("; ", 1)
    known: dict[str, object] = {"vectors": engine.embed([[5, 6], [7]])}
    exec(load, known)
    assert eval(score, known).shape == (2, 2)
