"""What follows the transformer in a sentence-transformers checkpoint: pooling, projections, normalisation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fastqps.models.card import ModelError

Pooling = Literal["mean", "cls", "max"]
POOLINGS: tuple[Pooling, ...] = ("mean", "cls", "max")

# The boolean keys of older pooling configurations.
_POOLING_KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_DENSE_ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid")


@dataclass(frozen=True)
class Dense:
    """One projection after pooling: its folder, sizes and activation (a class name of torch.nn)."""

    folder: str
    in_features: int
    out_features: int
    bias: bool
    activation: str


@dataclass(frozen=True)
class Pipeline:
    """Pooling, then projections in order, then L2 normalisation or not. ``transformer`` is the encoder's folder.

    ``scores`` means that the transformer gives scores itself, as in a cross-encoder: then nothing follows it.
    """

    transformer: str = ""
    scores: bool = False
    pooling: Pooling = "mean"
    dense: tuple[Dense, ...] = ()
    normalize: bool = False


def read_json(path: Path) -> Any:
    """A JSON file's value; ``ModelError`` names the file if it is not readable or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: {error}") from error


def read_object(path: Path) -> dict[str, Any]:
    """A JSON file's object; ``ModelError`` names the file if it holds none."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise ModelError(f"{path}: not a JSON object")
    return found


def _pooling(path: Path) -> Pooling:
    config = read_json(path)
    chosen = config.get("pooling_mode")
    if chosen is None:
        chosen = [mode for key, mode in _POOLING_KEYS.items() if config.get(key)] or ["mean"]
    modes = [chosen] if isinstance(chosen, str) else list(chosen)
    for mode in POOLINGS:
        if modes == [mode]:
            return mode
    raise ModelError(
        f"{path}: pooling {' + '.join(modes)} is not supported; supported is one of: {', '.join(POOLINGS)}"
    )


def _dense(root: Path, folder: str) -> Dense:
    path = root / folder / "config.json"
    config = read_json(path)
    activation = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    name = activation.rpartition(".")[2]
    if not activation.startswith("torch.nn.") or name not in _DENSE_ACTIVATIONS:
        raise ModelError(
            f"{path}: activation {activation} is not supported; supported: {', '.join(_DENSE_ACTIVATIONS)}"
        )
    for key in ("module_input_name", "module_output_name"):
        if config.get(key) not in (None, "sentence_embedding"):
            raise ModelError(
                f"{path}: {key} {config[key]!r} is not supported; only projections of the pooled vector are"
            )
    if config.get("use_residual"):
        raise ModelError(f"{path}: a residual projection is not supported")
    return Dense(folder, config["in_features"], config["out_features"], config.get("bias", True), name)


def read_pipeline(root: Path) -> Pipeline:
    """The pipeline that ``modules.json`` describes; without that file mean pooling, as sentence-transformers does.

    Raises ``ModelError`` for a module, order or option that is not supported.
    """
    listing = root / "modules.json"
    if not listing.is_file():
        return Pipeline(scores=True)
    modules = [(str(m["type"]).rpartition(".")[2], str(m.get("path", ""))) for m in read_json(listing)]
    kinds = [kind for kind, _ in modules]
    if kinds == ["Transformer"]:
        return Pipeline(transformer=modules[0][1], scores=True)
    rest = kinds[2:]
    dense = [kind for kind in rest if kind == "Dense"]
    if kinds[:2] != ["Transformer", "Pooling"] or rest not in (dense, [*dense, "Normalize"]):
        raise ModelError(
            f"{listing}: modules {', '.join(kinds)} are not supported; supported are: Transformer, Pooling, "
            "then any number of Dense, then Normalize or nothing; or, in a cross-encoder, Transformer alone"
        )
    return Pipeline(
        transformer=modules[0][1],
        pooling=_pooling(root / modules[1][1] / "config.json"),
        dense=tuple(_dense(root, folder) for kind, folder in modules if kind == "Dense"),
        normalize=rest[-1:] == ["Normalize"],
    )
