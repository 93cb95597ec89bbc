"""The identity of a model: a digest over the files that decide its answers, and a stamp that shows a change."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path

from fastqps.errors import ModelError
from fastqps.models.files.json_files import bytes_max
from fastqps.models.files.regular import open_regular
from fastqps.models.files.tensors import read_tensors

_SAMPLE_BLOCKS, _BLOCK_BYTES = 32, 4096


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


def _sample(stream: BufferedReader, size: int) -> str:
    """SHA-256 of blocks that are evenly spread over a file, its first and last bytes included."""
    total = hashlib.sha256()
    for i in range(_SAMPLE_BLOCKS):
        stream.seek(max(0, size - _BLOCK_BYTES) * i // (_SAMPLE_BLOCKS - 1))
        total.update(stream.read(_BLOCK_BYTES))
    return total.hexdigest()
