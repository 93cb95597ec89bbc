"""Checks that an adapter and its base model fit together."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.adapters.adapter import ADAPTER_CONFIG, Adapter
from fastqps.models.files.compressed_tensors import QUANTIZATION_KEYS
from fastqps.models.files.reading import has_file, read_object
from fastqps.models.sentence_transformers.pipeline import Pipeline, read_pipeline


def refuse_adapter(folder: Path) -> None:
    """``ModelError`` where a folder that is to be served as a model holds an adapter: it says how that is served."""
    path = folder / ADAPTER_CONFIG
    if has_file(path):
        base = read_object(path).get("base_model_name_or_path")
        of = f" of {base[:200]}" if isinstance(base, str) and base else ""
        raise ModelError(f"{path}: an adapter{of} is no model: serve its base with --model, and add --adapter {folder}")


def check_base(adapter: Adapter | None, root: Path, config: Mapping[str, Any], pipeline: Pipeline) -> None:
    """``ModelError`` where the ``adapter`` cannot be merged into the model in ``root``, or is one of another kind."""
    if adapter is None:
        return
    if any(config.get(key) is not None for key in QUANTIZATION_KEYS):
        raise ModelError(
            f"{root}: its weights are quantised, and an adapter is merged into floats alone, not to round twice; "
            "serve the base that is not quantised, with --quantization"
        )
    if has_file(adapter.root / "modules.json"):
        own = dataclasses.replace(read_pipeline(adapter.root), transformer="", warnings=())
        if own.dense or own != dataclasses.replace(pipeline, transformer="", warnings=()):
            raise ModelError(
                f"{adapter.root}: its modules.json has other modules behind the transformer than {root}; load it with "
                "sentence-transformers, merge the adapter (merge_and_unload), and save it as one model"
            )
    if adapter.architecture and not pipeline.scores:
        raise ModelError(
            f"{adapter.root}: its task_type makes a classifier, and the modules.json of {root} makes embeddings"
        )


def check_tied(adapter: Adapter | None, tied: Collection[str]) -> None:
    """``ModelError`` where an adapter changes a tensor of a module that has one of these names.

    ``tied``: modules that share one tensor in the base.
    """
    changed = [*adapter.updates, *adapter.replaced] if adapter else ()
    if name := next((name for name in changed if name.split(".")[-2] in tied), ""):
        raise ModelError(
            f"{adapter.root if adapter else ''}: the adapter changes {name}, which is one tensor with another of its "
            "base (tie_word_embeddings): versions of PEFT change the other, too, or do not"
        )


def with_adapter(version: str, adapter: Adapter | None) -> str:
    """The version of a model whose own files have ``version``."""
    if adapter is None:
        return version
    return hashlib.sha256(f"{version}\0{adapter.digest()}".encode()).hexdigest()[:12]
