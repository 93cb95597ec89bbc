"""Holds the counts of a configuration against the tensors' headers, before memory is planned or taken by them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fastqps.errors import ModelError
from fastqps.models.checkpoint import Checkpoint
from fastqps.models.families.decoder import DecoderConfig
from fastqps.models.families.encoder import BertConfig, EncoderConfig
from fastqps.models.files.config_keys import CONFIG
from fastqps.models.files.tensors import WEIGHTS, Tensor, read_tensors

# Fields that some side of a tensor is as long as.
_WIDTHS = ("hidden", "inner", "heads", "kv_heads", "head_size", "head_dim", "types", "buckets", "relative_buckets")


def check_counts(checkpoint: Checkpoint, config: EncoderConfig | DecoderConfig, labels: int = 0) -> None:
    """``ModelError`` where the weights are not as large as ``config``, a head with ``labels`` and projections need.

    Only what memory is planned by has to be exact here: architectures look at each tensor.
    """
    tensors = _tensors(checkpoint.weight_files())
    if checkpoint.adapter:
        tensors += checkpoint.adapter.replaced.values()
    if isinstance(config, DecoderConfig):
        _check_keys(tensors, config)
    elif config.layers > len(tensors) and not (isinstance(config, BertConfig) and config.shared_layers):
        raise ModelError(f"{CONFIG} says {config.layers} layers, and the weights have {len(tensors)} tensors")
    embedding_width = getattr(config, "embedding", None) or config.hidden
    _check_shape("words", tensors, config.vocab, embedding_width)
    if embedding_width != config.hidden:
        _check_shape("hidden states", tensors, config.hidden, embedding_width)
    if labels:
        _check_shape("labels", tensors, labels, config.hidden)
    longest = max(side for tensor in tensors for side in tensor.shape)
    counts = {name: getattr(config, name, 0) for name in _WIDTHS}
    if isinstance(config, BertConfig) and config.tensors.positions:
        counts["positions"] = config.positions
    for name, number in counts.items():
        if number > longest:
            raise ModelError(f"{CONFIG} says {number} ({name}), and no tensor has a side of more than {longest}")
    width = config.hidden
    for dense in checkpoint.pipeline.dense:
        if dense.in_features != width:
            raise ModelError(
                f"{dense.folder}/{CONFIG} says in_features {dense.in_features}, and {width} numbers come from before it"
            )
        own = _tensors([checkpoint.root / dense.folder / WEIGHTS])
        _check_shape(f"outputs of {dense.folder}", own, dense.out_features, dense.in_features)
        width = dense.out_features


def _check_keys(tensors: Iterable[Tensor], config: DecoderConfig) -> None:
    """The tensors that hold keys, alone or with queries and values."""
    names, width = config.tensors, config.kv_heads * config.head_dim
    joined = len(names.qkv) == 1
    shape = (config.heads * config.head_dim + 2 * width if joined else width), config.hidden
    keys = [tensor for tensor in tensors if tensor.name.endswith(f"{names.qkv[0 if joined else 1]}.weight")]
    _check_shape("rows of keys", keys, *(shape[::-1] if names.transposed else shape), config.layers)


def _tensors(files: Iterable[Path]) -> list[Tensor]:
    """The tensors that hold a number: without one, a header can state any size."""
    return [tensor for file in files for tensor in read_tensors(file).values() if 0 not in tensor.shape]


def _check_shape(what: str, tensors: Iterable[Tensor], rows: int, width: int, times: int = 1) -> None:
    """``times``: as many tensors have it."""
    count = sum(tensor.shape == (rows, width) for tensor in tensors)
    if count < times:
        who = "no tensor has it" if times == 1 else f"{count} tensors have it, and {times} layers need it"
        raise ModelError(f"{CONFIG} says {rows} {what} of {width} numbers, the shape [{rows}, {width}]: {who}")
