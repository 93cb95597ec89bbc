"""The safetensors files of a checkpoint."""

from __future__ import annotations

from pathlib import Path

from fastqps.errors import ModelError
from fastqps.models.files.json_files import read_object
from fastqps.models.files.regular import has_file
from fastqps.models.files.ways_out import about_weights

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


def weight_files(root: Path, encoder: Path) -> list[Path]:
    """The files in the folder ``encoder`` of the checkpoint ``root``: one, or the shards that the index names.

    As in transformers, the index has no effect beside a whole file. ``ModelError`` if there are none.
    """
    single = encoder / WEIGHTS
    if has_file(single):
        return [single]
    index = encoder / INDEX
    if not has_file(index):
        raise ModelError(f"{root}: no model.safetensors{about_weights(encoder)}")
    listed = read_object(index).get("weight_map")
    if not isinstance(listed, dict) or not listed or not all(isinstance(name, str) for name in listed.values()):
        raise ModelError(f"{index}: weight_map has to name the file of each tensor")
    return [_shard(index, name) for name in sorted(set(listed.values()))]


def _shard(index: Path, name: str) -> Path:
    """``ModelError`` for a name that leads out of the folder of its index."""
    if not name or Path(name).name != name:
        raise ModelError(f"{index}: weight_map names {name!r}; a shard has to lie beside the index")
    if not has_file(path := index.parent / name):
        raise ModelError(f"{index}: weight_map names {name!r}, which is no file")
    return path
