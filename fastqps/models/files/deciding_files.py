"""The identity of a model: a digest over the files that decide its answers, a stamp that shows a change, and
the shape that decides how fast it computes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.files.reading import bytes_max, open_regular, optional_object
from fastqps.models.files.tensors import read_tensors

_SAMPLE_BLOCKS, _BLOCK_BYTES = 32, 4096
_NAMES_ONLY = ("transformers_version", "id2label", "label2id", "finetuning_task")  # keys of a configuration


def digest(root: Path, files: Sequence[Path]) -> str:
    """12 hex digits of SHA-256 over the names, relative to ``root``, and the contents of ``files``.

    ``ModelError`` where one cannot be read, or is cut off or longer than its header says: that is seen before reading.
    """
    total = hashlib.sha256()
    for path in files:
        if path.suffix == ".safetensors":
            read_tensors(path)
    for path in files:
        with open_regular(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            if path.suffix == ".json" and size > bytes_max(path):  # one that nothing else reads
                raise ModelError(f"{path}: it has {size} bytes; {bytes_max(path)} are the most of such a file")
            total.update(f"{path.relative_to(root).as_posix()}\0{size}\0".encode())
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()[:12]


def stamp(files: Sequence[Path]) -> str:
    """Stays the same while none of ``files`` is written or replaced. Of each it reads a sample: who copies over a file
    can keep its size and set its time."""
    facts = []
    for path in files:
        with open_regular(path) as stream:
            status = os.fstat(stream.fileno())
            facts.append(
                (str(path), status.st_ino, status.st_size, status.st_mtime_ns, _sample(stream, status.st_size))
            )
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


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
    return hashlib.sha256(digested.encode()).hexdigest()[:12]


def _shape_keys(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if not key.startswith("_") and key not in _NAMES_ONLY}


def _sample(stream: BufferedReader, size: int) -> str:
    """SHA-256 of blocks that are evenly spread over a file, its first and last bytes included."""
    total = hashlib.sha256()
    for i in range(_SAMPLE_BLOCKS):
        stream.seek(max(0, size - _BLOCK_BYTES) * i // (_SAMPLE_BLOCKS - 1))
        total.update(stream.read(_BLOCK_BYTES))
    return total.hexdigest()
