"""Damaged files are refused in one line with exit code 4, in bounded memory and time. ``bad_files.py`` says how each is
damaged, and what the limits are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers as tr
from bad_files import SECONDS, write_tensors
from checkpoints import write_checkpoint, write_sentence_modules
from decoders import write_byte_tokenizer, write_decoder
from nightly import nightly
from paths import SUPPORT, python_path
from peft import LoraConfig, get_peft_model
from safetensors.numpy import save_file
from static_models import table, word_pieces

from fastqps.models import ModelError
from fastqps.models.files.tensors import read_tensors

pytestmark = pytest.mark.compute
# Damages after which the files are those of another model, or of the same one. Anything else has to be refused.
VALID = {
    ("config_sentence_transformers.json", "all "): "keys about comparing embeddings",
    ("sentence_bert_config.json", "all None"): "no limit",
    ("sentence_bert_config.json", f"all {1 << 62}"): "a limit above the model's own",
    ("1_Pooling/config.json", "all []"): "the default, the mean",
    ("1_Pooling/config.json", "all {}"): "the same",
    ("1_Pooling/config.json", "all 0"): "the same",
    ("1_Pooling/config.json", "all None"): "the same",
    ("tokenizer_config.json", "all 'x'"): "a special token",
    ("generation_config.json", "all []"): "no option",
    ("generation_config.json", "all 0"): "the same",
    ("generation_config.json", "all None"): "the same",
    ("static/config.json", "all "): "normalize, which model2vec takes by its truth",
}


def write_bert(root: Path) -> list[str]:
    """Written by sentence-transformers, with a projection."""
    path = root / "bert"
    write_checkpoint(path, "bert", vocab_size=400, num_hidden_layers=1)
    write_sentence_modules(path, dense=True)
    word_pieces().save(str(path / "tokenizer.json"))
    texts = {"sentence_bert_config.json": {"max_seq_length": 32}, "tokenizer_config.json": {"cls_token": "[CLS]"}}
    for name, value in {**texts, "config_sentence_transformers.json": {"similarity_fn_name": "cosine"}}.items():
        (path / name).write_text(json.dumps(value))
    return ["--model", str(path)]


def write_tuned(root: Path) -> list[str]:
    """An adapter, whose base is whole."""
    base, path = root / "base", root / "adapter"
    write_checkpoint(base, "bert", vocab_size=400, num_hidden_layers=1)
    word_pieces().save(str(base / "tokenizer.json"))
    tuned = get_peft_model(tr.AutoModel.from_pretrained(base), LoraConfig(r=2, target_modules=["query"]))
    tuned.save_pretrained(path)
    (path / "README.md").unlink()
    return ["--model", str(base), "--adapter", str(path)]


def write_generator(root: Path) -> list[str]:
    """A decoder in shards."""
    path = root / "decoder"
    sizes = {"vocab_size": 300, "max_position_embeddings": 512, "eos_token_id": 257, "num_hidden_layers": 1}
    write_decoder(path, "llama", max_shard_size="50KB", **sizes)
    write_byte_tokenizer(path)
    return ["--model", str(path)]


def write_static(root: Path) -> list[str]:
    """A table of model2vec."""
    path = root / "static"
    path.mkdir()
    word_pieces().save(str(path / "tokenizer.json"))
    (path / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True}))
    save_file({"embeddings": table(400, 16)}, path / "model.safetensors")
    return ["--model", str(path)]


WRITERS: dict[str, Callable[[Path], list[str]]] = {
    "bert": write_bert,
    "adapter": write_tuned,
    "decoder": write_generator,
    "static": write_static,
}


@pytest.mark.parametrize(
    "models",
    # The same functions read the files of all models.
    [["static"], *nightly(["adapter"], ["bert"], ["decoder"])],
    ids=",".join,
)
def test_damaged_files_are_refused(tmp_path: Path, models: list[str]) -> None:
    (tmp_path / "models.json").write_text(json.dumps({name: WRITERS[name](tmp_path) for name in models}))
    child = subprocess.run(
        [sys.executable, str(SUPPORT / "models/bad_files.py"), str(tmp_path), *models],
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    found = [json.loads(line) for line in child.stdout.splitlines()]
    assert {each["model"] for each in found} == set(models) and len(found) > 80
    wrong = [each for each in found if not refused(each) and not valid(each)]
    assert not wrong, "\n".join(map(str, wrong))
    assert max(each["s"] for each in found) < SECONDS


def refused(found: dict[str, Any]) -> bool:
    """In one line that names the folder, with exit code 4."""
    return found["code"] == 4 and found["lines"] == 1 and f"/{found['model']}" in found["said"][0]


def valid(found: dict[str, Any]) -> bool:
    """Whether the damage makes other files that are right."""
    at = (found["file"], f"{found['model']}/{found['file']}")
    return found["code"] == 0 and any(name in at and found["damage"].startswith(how) for name, how in VALID)


@pytest.mark.parametrize("place", ['"shape":[1e999],"data_offsets":[0,4]', '"shape":[1.5],"data_offsets":[0,4]'])
def test_what_is_no_size_is_refused_with_the_tensors_name(tmp_path: Path, place: str) -> None:
    write_tensors(tmp_path / "x", f'{{"table":{{"dtype":"F32",{place}}}}}'.encode(), bytes(4))
    beyond = r"\['table'\]\['shape'\]\[0\] is no number that a float holds"
    with pytest.raises(ModelError, match=rf"tensor table: shape has 1\.5, which is no possible size|{beyond}"):
        read_tensors(tmp_path / "x")


@pytest.mark.parametrize("shape", [[0], [2], [1, 2], [1 << 31, 1 << 31]])
def test_a_tensor_has_the_bytes_of_its_shape(tmp_path: Path, shape: list[int]) -> None:
    write_tensors(
        tmp_path / "x", json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}}).encode(), bytes(4)
    )
    with pytest.raises(ModelError, match=r"tensor a of shape .* does not have 4 bytes"):
        read_tensors(tmp_path / "x")


def test_an_unreadable_folder_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fastqps.cli import main

    write_static(tmp_path)
    for name in ("x" * 300, "a\0b"):
        assert main(["predict", "--model", str(tmp_path / name), "x"]) == 4
    shutil.rmtree(tmp_path / "static")
    (tmp_path / "static").symlink_to("static")
    assert main(["predict", "--model", str(tmp_path / "static"), "x"]) == 4
    assert len(capsys.readouterr().err.splitlines()) == 3
