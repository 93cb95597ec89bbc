"""The modules behind the transformer in a sentence-transformers checkpoint: pooling, projections, normalisation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fastqps.errors import ModelError
from fastqps.models.files.config_values import size
from fastqps.models.files.keys import Keys, Rules, read_keys
from fastqps.models.files.reading import has_file
from fastqps.models.sentence_transformers.keys import (
    DENSE,
    NORMALIZE,
    POOLING,
    TOKEN_DENSE,
    TOKEN_NORMALIZE,
    torch_class,
)
from fastqps.models.sentence_transformers.listing import read_listing
from fastqps.models.sentence_transformers.logit_score import LogitScore, read_logit_score
from fastqps.models.sentence_transformers.multi_vector import MULTI_TYPES, PYLATE, SkipList, model_type, read_skip_list
from fastqps.models.sentence_transformers.splade import UNSERVED, SpladeActivation, read_splade

Pooling = Literal["mean", "cls", "max", "lasttoken"]
POOLINGS: tuple[Pooling, ...] = ("mean", "cls", "max", "lasttoken")

# The boolean keys of older pooling configurations.
_POOLING_KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
# Every published spelling of a module's class: its package, then the file that it stands in or not, then its name.
_TYPE = re.compile(
    r"sentence_transformers\.(?:(?:sparse_encoder\.)?models|"
    r"(?:base|sentence_transformer|cross_encoder|sparse_encoder|multi_vector_encoder)\.modules)(?:\.(\w+))?\.(\w+)"
)
_MODULES = {"Transformer": "transformer", "Pooling": "pooling", "Dense": "dense"}
_MODULES |= {"MLMTransformer": "mlm_transformer", "SpladePooling": "splade_pooling"}
_MODULES |= {"Normalize": "normalize", "Dropout": "dropout", "StaticEmbedding": "static_embedding"}
_MODULES |= {"LogitScore": "logit_score"}
_MASK, _PYLATE_DENSE = "MultiVectorMask", "pylate.models.Dense.Dense"
_MODULES |= {_MASK: "multi_vector_mask"}
_POOLED = "sentence_embedding"
_DENSE_ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid")


@dataclass(frozen=True)
class Dense:
    """One projection after pooling: its folder, sizes and activation (a class name of torch.nn)."""

    folder: str
    in_features: int
    out_features: int
    bias: bool
    activation: str
    warnings: tuple[str, ...] = ()  # of keys that nobody knows


@dataclass(frozen=True)
class Pipeline:
    """Pooling, then projections in order, then L2 normalisation or not. ``transformer`` is the encoder's folder, or
    that of the table of a ``static`` model, which has no pooling of its own.

    ``scores`` means that the transformer gives scores itself, as in a cross-encoder: then nothing follows it.
    ``splade`` is set where the largest logits of a masked language model are a sparse embedding. ``multi`` means that
    the vector of each token is projected and normalised: then there is no pooling. ``logit_score`` makes scores of a
    decoder's logits.
    """

    transformer: str = ""
    scores: bool = False
    static: bool = False
    multi: bool = False
    skip_list: SkipList | None = None  # of its MultiVectorMask, if there is one
    pooling: Pooling = "mean"
    pools_prompts: bool = True  # the tokens of a prompt are pooled with those of the text
    dense: tuple[Dense, ...] = ()
    normalize: bool = False
    splade: SpladeActivation | None = None
    logit_score: LogitScore | None = None
    fills_masks: bool = False  # by its class, the transformer is a masked language model
    warnings: tuple[str, ...] = ()  # of keys that nobody knows


def _pooling(path: Path) -> tuple[Pooling, bool]:
    """The mode, and whether the tokens of prompts are pooled, too."""
    config = read_keys(path, POOLING)
    config.check_known()
    prompts = config.get("include_prompt", True)
    if not isinstance(prompts, bool):
        raise ModelError(f"{path}: include_prompt {prompts!r} is neither true nor false")
    chosen = config.get("pooling_mode")
    if chosen is None:
        chosen = [mode for key, mode in _POOLING_KEYS.items() if config.get(key)] or ["mean"]
    modes = [chosen] if isinstance(chosen, str) else list(chosen)
    for mode in POOLINGS:
        if modes == [mode]:
            return mode, prompts
    raise ModelError(
        f"{path}: pooling_mode {' + '.join(map(str, modes))} is not supported; supported is one of: "
        f"{', '.join(POOLINGS)}"
    )


def _dense(root: Path, folder: str, known: Rules = DENSE) -> Dense:
    path = root / folder / "config.json"
    config = read_keys(path, known)
    activation = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    name = torch_class(activation)
    if name not in _DENSE_ACTIVATIONS:
        raise ModelError(
            f"{path}: activation_function {activation} is not supported; supported: {', '.join(_DENSE_ACTIVATIONS)}"
        )
    inputs, outputs = (size(config, key, where=str(path)) for key in ("in_features", "out_features"))
    return Dense(folder, inputs, outputs, config.get("bias", True), name, config.warnings())


def _modules(listing: Path) -> list[tuple[str, str]]:
    """The listed modules in order: their kind and their folder. Dropout does nothing at inference and is left out."""
    modules, names = [], set()
    for type, folder, name in read_listing(listing):
        kind = _kind(type)
        if not kind:
            own_name = type.rpartition(".")[2]
            if own_name in UNSERVED:
                raise ModelError(f"{listing}: type {type!r} is not supported: {UNSERVED[own_name]}")
            raise ModelError(
                f"{listing}: type {type!r} is not supported; supported are sentence-transformers' own "
                f"{', '.join(_MODULES)}"
            )
        if name in names:
            raise ModelError(f"{listing}: two modules have the name {name!r}, and one would replace the other")
        names.add(name)
        if kind != "Dropout":
            modules.append((kind, folder))
    return modules


def _kind(type: str) -> str:
    """A module's class, or "" for one that is not supported or not sentence-transformers'."""
    if type == _PYLATE_DENSE:
        return "Dense"
    match = _TYPE.fullmatch(type)
    if match is None or (kind := match[2]) not in _MODULES:
        return ""
    return kind if match[1] in (None, kind, _MODULES[kind]) else ""


def read_pipeline(root: Path) -> Pipeline:
    """The pipeline that ``modules.json`` describes; without that file mean pooling, as sentence-transformers does.

    Raises ``ModelError`` for a module, order or option that is not supported.
    """
    listing = root / "modules.json"
    if not has_file(listing):
        return Pipeline(scores=True)
    modules = _modules(listing)
    kinds = [kind for kind, _ in modules]
    if (kind := model_type(root)) in MULTI_TYPES:
        return _multi_vector(root, modules, kind)
    if kinds == ["Transformer"]:
        return Pipeline(transformer=modules[0][1], scores=True)
    if kinds[1:] == ["SpladePooling"] and kinds[0] in ("MLMTransformer", "Transformer"):
        path = root / modules[1][1] / "config.json"
        return Pipeline(transformer=modules[0][1], splade=read_splade(path), fills_masks=kinds[0] == "MLMTransformer")
    if kinds == ["Transformer", "LogitScore"]:
        score = read_logit_score(root / modules[1][1] / "config.json")
        return Pipeline(transformer=modules[0][1], scores=True, logit_score=score)
    static = kinds[:1] == ["StaticEmbedding"]
    rest = kinds[1 if static else 2 :]
    dense = [kind for kind in rest if kind == "Dense"]
    if (not static and kinds[:2] != ["Transformer", "Pooling"]) or rest not in (dense, [*dense, "Normalize"]):
        raise ModelError(
            f"{listing}: modules {', '.join(kinds)} are not supported; supported are: Transformer, Pooling, or "
            "StaticEmbedding, then any number of Dense, then Normalize or nothing; or, in a cross-encoder, Transformer "
            "alone, or with a LogitScore; or, for sparse embeddings, MLMTransformer (or Transformer for fill-mask), "
            "SpladePooling"
        )
    normalize, warnings = _normalizes(root, modules[-1][1]) if rest[-1:] == ["Normalize"] else (False, ())
    pooling: Pooling = "mean"
    pools_prompts = True
    if not static:
        pooling, pools_prompts = _pooling(root / modules[1][1] / "config.json")
    projections = tuple(_dense(root, folder) for kind, folder in modules if kind == "Dense")
    return Pipeline(
        transformer=modules[0][1],
        static=static,
        pooling=pooling,
        pools_prompts=pools_prompts,
        dense=projections,
        normalize=normalize,
        warnings=(*(sentence for projection in projections for sentence in projection.warnings), *warnings),
    )


def _normalizes(root: Path, folder: str) -> tuple[bool, tuple[str, ...]]:
    """Whether a Normalize scales the pooled vector, and warnings."""
    path = root / folder / "config.json"
    # An empty path means the root, whose config.json is the transformer's.
    config = read_keys(path, NORMALIZE, optional=True) if folder else Keys(str(path), {}, NORMALIZE)
    name = config.get("module_input_name", _POOLED)
    if name not in (_POOLED, None):
        raise ModelError(f"{path}: module_input_name {name!r} is not supported: only the pooled vector is normalised")
    return name is not None, config.warnings()  # null names no vector, and nothing is scaled


def _multi_vector(root: Path, modules: list[tuple[str, str]], kind: str) -> Pipeline:
    """A Transformer and projections. What follows them is in the list too, but PyLate's files say it elsewhere."""
    kinds = [each for each, _ in modules]
    dense = [each for each in kinds if each == "Dense"]
    ends = [[]] if kind == PYLATE else [[], [_MASK], ["Normalize"], [_MASK, "Normalize"], ["Normalize", _MASK]]
    if kinds not in [["Transformer", *dense, *end] for end in ends]:
        more = "" if kind == PYLATE else ", then a MultiVectorMask, a Normalize, both or none"
        raise ModelError(
            f"{root / 'modules.json'}: modules {', '.join(kinds)} of model_type {kind} are not supported; supported "
            f"are: Transformer, then any number of Dense{more}"
        )
    folders = dict(reversed(modules))
    projections = tuple(_dense(root, folder, TOKEN_DENSE) for each, folder in modules if each == "Dense")
    return Pipeline(
        transformer=modules[0][1],
        multi=True,
        skip_list=read_skip_list(root / folders[_MASK]) if _MASK in folders else None,
        dense=projections,
        normalize=kind == PYLATE or ("Normalize" in folders and _normalizes_tokens(root / folders["Normalize"])),
        warnings=tuple(sentence for projection in projections for sentence in projection.warnings),
    )


def _normalizes_tokens(folder: Path) -> bool:
    """Whether a Normalize finds vectors of tokens. Without a name it looks for a pooled vector, and there is none."""
    keys = read_keys(folder / "config.json", TOKEN_NORMALIZE, optional=True)
    return keys.get("module_input_name") == "token_embeddings"
