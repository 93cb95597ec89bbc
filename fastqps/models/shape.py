"""The shape of a model: all that decides how fast it computes, and nothing else of it."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.files.json_files import optional_object
from fastqps.models.files.tensors import read_tensors

_DIGITS = 12
_NAMES_ONLY = ("transformers_version", "id2label", "label2id", "finetuning_task")  # keys of a configuration


def shape_of(root: Path) -> str:
    """12 hex digits, equal for two checkpoints whose steps take the same time: the versions of one that was trained on.

    A digest over the configuration without names, and the kind and shape of each tensor, not its numbers. Reads the
    headers of the weights in the folder ``root``. A file that cannot be read is none that the model loads.
    """
    tensors: list[tuple[str, str, tuple[int, ...]]] = []
    for file in root.rglob("*.safetensors"):
        with suppress(ModelError):
            tensors += [(tensor.name, tensor.kind, tensor.shape) for tensor in read_tensors(file).values()]
    config = _shape_keys(optional_object(root / "config.json"))
    digested = json.dumps([config, sorted(tensors)], sort_keys=True)
    return hashlib.sha256(digested.encode()).hexdigest()[:_DIGITS]


def _shape_keys(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if not key.startswith("_") and key not in _NAMES_ONLY}
