"""Checkpoints with sentence-transformers' files around them, plain or with chosen oddities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from checkpoints import write_checkpoint
from word_files import write_words

WORDS = {"[PAD]": 5, "c": 6, "d": 7, "C": 8}
BASES = "sentence_transformers.base.modules", "sentence_transformers.sentence_transformer.modules"
TEXTS = ["a b c d a", "C", "d c b a b c d a b c d"]

# The spellings under which sentence-transformers has published each module.
SPELLINGS = {
    kind: [
        f"sentence_transformers.models.{kind}",
        f"sentence_transformers.models.{kind}.{kind}",
        f"{BASES[own]}.{kind}",
        f"{BASES[own]}.{file}.{kind}",
    ]
    for kind, file, own in (
        ("Transformer", "transformer", 0),
        ("Pooling", "pooling", 1),
        ("Dense", "dense", 0),
        ("Normalize", "normalize", 0),
        ("Dropout", "dropout", 1),
    )
}


def write_base(path: Path, task: str = "embed", **options: Any) -> None:
    """A BERT with a tokenizer of words, as transformers saves it."""
    write_checkpoint(path, "bert", task, num_hidden_layers=1, vocab_size=16, **options)
    write_words(path, WORDS)
    told = {"tokenizer_class": "BertTokenizer", "model_max_length": 60, "pad_token": "[PAD]", "unk_token": "[UNK]"}
    told |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "do_lower_case": False, "strip_accents": None}
    write(path / "tokenizer_config.json", told)


def write(path: Path, value: Any) -> None:
    """``value`` as JSON; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def write_modules(path: Path, modules: list[tuple[str, str]]) -> None:
    """modules.json of (type, folder) in order."""
    entries = [{"idx": i, "name": str(i), "path": folder, "type": kind} for i, (kind, folder) in enumerate(modules)]
    write(path / "modules.json", entries)


def write_dense(path: Path, seed: int = 0, **config: Any) -> None:
    """A random projection, 32 to 8."""
    from safetensors.torch import save_file

    chance = torch.Generator().manual_seed(seed)
    config = {"in_features": 32, "out_features": 8, "bias": True, **config}
    write(path / "config.json", config)
    tensors = {"linear.weight": torch.randn(8, config["in_features"], generator=chance)}
    if config.get("bias", True):
        tensors["linear.bias"] = torch.randn(8, generator=chance)
    save_file(tensors, path / "model.safetensors")


def add(path: Path, values: dict[str, Any]) -> None:
    """Sets keys of a JSON file that is there, or writes it."""
    write(path, (json.loads(path.read_text()) if path.exists() else {}) | values)


MODEL_FILE = "config_sentence_transformers.json"
