"""Which files of a repository are served: those that a checkpoint's reader opens, and never a pickle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from fastqps.errors import ModelError
from fastqps.models.adapters.adapter import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from fastqps.models.files.config_keys import CONFIG
from fastqps.models.files.reading import read_json
from fastqps.models.files.tensors import INDEX, WEIGHTS
from fastqps.models.files.ways_out import pickled
from fastqps.models.sentence_transformers.keys import DECIDING
from fastqps.models.sentence_transformers.listing import read_listing

_MODULES = "modules.json"
_STATIC_HEAD = "head.safetensors"  # of model2vec's classifiers


class Source(Protocol):
    """A repository at one commit, or what the cache holds of it. ``names``: of its files, with their folders."""

    title: str
    names: frozenset[str]

    def take(self, name: str) -> Path:
        """The checked file, in the folder of the commit; ``ModelError`` where it cannot be had."""
        ...


def small_files(source: Source, adapter: bool) -> list[str]:
    """Takes what says which weights there are. Returns the names of those, the model's own last.

    A download that is interrupted therefore leaves a folder without weights, which nobody serves.
    """
    if adapter:
        return _adapter(source)
    if not source.names & {CONFIG, _MODULES, ADAPTER_CONFIG}:
        raise ModelError(f"{source.title} has no config.json: it is no model of the kinds that are served")
    listed = _modules(source)
    encoder = listed[0] if listed else ""
    if (adapter_config := _in(encoder, ADAPTER_CONFIG)) in source.names:
        source.take(adapter_config)  # whoever reads the folder refuses it, and says how an adapter is served
        return []
    for folder in dict.fromkeys(("", encoder)):
        for name in DECIDING:
            _take_if_there(source, _in(folder, name))
    weights: list[str] = []
    for folder in listed[1:]:
        _take_if_there(source, _in(folder, CONFIG))
        if folder not in ("", encoder):
            weights += _weights(source, folder, needed=False)
    if _STATIC_HEAD in source.names:
        weights.append(_STATIC_HEAD)
    return [*weights, *_weights(source, encoder, needed=True)]


def _adapter(source: Source) -> list[str]:
    if ADAPTER_CONFIG not in source.names:
        raise ModelError(f"{source.title} has no {ADAPTER_CONFIG}: it is no adapter of PEFT")
    for name in (ADAPTER_CONFIG, _MODULES):
        _take_if_there(source, name)
    if ADAPTER_WEIGHTS not in source.names:
        raise ModelError(_without_weights(source, "", ADAPTER_WEIGHTS))
    return [ADAPTER_WEIGHTS]


def _modules(source: Source) -> list[str]:
    """The folders that modules.json names, in order."""
    if _MODULES not in source.names:
        return []
    return [module.folder for module in read_listing(source.take(_MODULES))]


def _weights(source: Source, folder: str, needed: bool) -> list[str]:
    """The names of the weights in a folder. As in transformers, an index has no effect beside a whole file."""
    if (single := _in(folder, WEIGHTS)) in source.names:
        return [single]
    if (index := _in(folder, INDEX)) in source.names:
        return list(_shards(source, folder, source.take(index)))
    if needed or pickled(_beside(source, folder)):
        raise ModelError(_without_weights(source, folder, WEIGHTS))
    return []


def _shards(source: Source, folder: str, index: Path) -> Iterator[str]:
    content: Any = read_json(index)
    listed = content.get("weight_map") if isinstance(content, dict) else None
    shards = listed.values() if isinstance(listed, dict) else ()
    for shard in sorted({shard for shard in shards if isinstance(shard, str)}):
        if (name := _in(folder, shard)) not in source.names:
            raise ModelError(f"{source.title}: {INDEX} names {shard[:200]!r}, which is not there")
        yield name


def _without_weights(source: Source, folder: str, name: str) -> str:
    pickles = pickled(_beside(source, folder))
    why = f", and {pickles}" if pickles else ""
    return f"{source.title} has no {_in(folder, name)}{why}"


def _beside(source: Source, folder: str) -> Iterable[str]:
    at = f"{folder}/" if folder else ""
    return (name[len(at) :] for name in source.names if name.startswith(at) and "/" not in name[len(at) :])


def _in(folder: str, name: str) -> str:
    return str(PurePosixPath(folder) / name) if folder else name


def _take_if_there(source: Source, name: str) -> None:
    if name in source.names:
        source.take(name)
