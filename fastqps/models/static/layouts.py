"""How the files of static models lie: model2vec's directory, sentence-transformers' and WordLlama's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.files.config_keys import CONFIG
from fastqps.models.files.config_values import LABELS_MAX, Activation, architectures
from fastqps.models.files.keys import Keys, rules
from fastqps.models.files.reading import has_file, optional_object
from fastqps.models.files.tensors import read_tensors
from fastqps.models.sentence_transformers.config import read_static_config
from fastqps.models.sentence_transformers.keys import MODEL_FILE
from fastqps.models.sentence_transformers.pipeline import Pipeline, read_pipeline
from fastqps.models.static.model import Head, StaticModel

MODEL2VEC = rules(
    honoured=("model_type", "architectures", "normalize", "max_length", "head_config"),
    irrelevant=(
        *("tokenizer_name", "apply_pca", "apply_zipf", "sif_coefficient", "hidden_dim", "seq_length", "pooling"),
        *("embedding_dtype", "vocabulary_quantization", "token_remove_pattern", "base_model_name", "language"),
        *("cache_dir", "transformers_version", "torch_dtype", "dtype"),
    ),
)
HEAD_CONFIG = rules(honoured=("n_layers", "activation", "classes"))
MODEL2VEC_TOKENS = 512  # its own default
_WEIGHTS = "model.safetensors"
_PICKLES = (".skops", ".pkl", ".pickle", ".joblib")
_ACTIVATIONS: dict[str, Activation] = {"softmax": "softmax", "sigmoid": "sigmoid", "identity": "identity"}


def open_static(root: Path) -> StaticModel | None:
    """The static model in ``root``, or None where there is another one. ``ModelError`` where it cannot be served."""
    if (root / "weights").is_dir() and (root / "tokenizers").is_dir() and not has_file(root / CONFIG):
        return _word_llama(root)
    listing = root / "modules.json"
    pipeline = read_pipeline(root) if has_file(listing) else Pipeline()
    config = optional_object(root / CONFIG)
    is_model2vec = config.get("model_type") == "model2vec" or "StaticModel" in architectures(config)
    if not pipeline.static and (has_file(listing) or not is_model2vec):
        return None
    folder = root / pipeline.transformer
    for name in (_WEIGHTS, "tokenizer.json"):
        if not has_file(folder / name):
            raise ModelError(f"{folder}: no {name}; a static model has its table and its tokenizer there")
    if "embeddings" in read_tensors(folder / _WEIGHTS):
        return _model2vec(root, folder, pipeline, config)
    return _sentence_transformers(root, folder, pipeline)


def _sentence_transformers(root: Path, folder: Path, pipeline: Pipeline) -> StaticModel:
    sentence = read_static_config(root)
    model = StaticModel(
        root=root,
        table_file=folder / _WEIGHTS,
        table_name="embedding.weight",
        tokenizer_file=folder / "tokenizer.json",
        files=_files(root, folder, pipeline),
        dense=pipeline.dense,
        normalize=pipeline.normalize,
        cuts_as_file_says=True,
        prompts=sentence.prompts,
        warnings=(*sentence.warnings, *pipeline.warnings),
    )
    return _with_limit(model, model.file_truncation())


def _model2vec(root: Path, folder: Path, pipeline: Pipeline, config: dict[str, Any]) -> StaticModel:
    keys = Keys(str(root / CONFIG), config, MODEL2VEC)
    limit = keys["max_length"] if "max_length" in config else MODEL2VEC_TOKENS
    sentence = read_static_config(root)
    if name := sentence.prompts.default:
        raise ModelError(
            f"{root / MODEL_FILE}: default_prompt_name {name!r} is not supported: model2vec puts nothing before a text"
        )
    model = StaticModel(
        root=root,
        table_file=folder / _WEIGHTS,
        table_name="embeddings",
        tokenizer_file=folder / "tokenizer.json",
        files=_files(root, folder, pipeline),
        dense=pipeline.dense,
        normalize=bool(keys.get("normalize", pipeline.normalize)),
        head=_head(root, keys),
        drops_unknown=True,
        cuts_characters=True,
        warnings=(*keys.warnings(), *sentence.warnings, *pipeline.warnings),
    )
    return _with_limit(model, None if limit is None else int(limit))


def _with_limit(model: StaticModel, limit: int | None) -> StaticModel:
    if limit is not None and limit < 1:
        raise ModelError(f"{model.root}: the input limit is {limit} tokens; it must be at least 1")
    return replace(model, max_tokens=limit)


def _head(root: Path, keys: Keys) -> Head | None:
    file, config = root / "head.safetensors", keys.get("head_config")
    if not has_file(file):
        if pickles := sorted(path.name for path in root.iterdir() if path.suffix in _PICKLES):
            raise ModelError(
                f"{root}: the classifier in {pickles[0]} is not read, because a pickle can run any code; save the "
                "pipeline with model2vec 0.10 or newer, which writes head.safetensors"
            )
        return None
    if not isinstance(config, dict):
        raise ModelError(f"{keys.file}: no head_config beside {file.name}")
    own = Keys(f"{keys.file}: head_config", config, HEAD_CONFIG)
    activation, classes, layers = own.get("activation"), own.get("classes"), own.get("n_layers")
    if activation not in _ACTIVATIONS:
        raise ModelError(
            f"{own.file}: activation {activation!r} is not supported; supported: {', '.join(_ACTIVATIONS)}"
        )
    if not isinstance(layers, int) or layers < 1:
        raise ModelError(f"{own.file}: n_layers {layers!r} is not a number of at least 1")
    if classes is None:
        last = read_tensors(file).get(f"head.{layers - 1}.bias")
        rows = last.shape[0] if last and last.shape else 0
        if rows > LABELS_MAX:
            raise ModelError(f"{own.file}: the classifier has {rows} labels; at most {LABELS_MAX} are supported")
        labels = tuple(f"LABEL_{i}" for i in range(rows))
    else:
        labels = tuple(map(str, classes))
    if not labels:
        raise ModelError(f"{own.file}: the classifier has no labels")
    return Head(file, layers, labels, _ACTIVATIONS[activation])


def _word_llama(root: Path) -> StaticModel:
    tables = sorted((root / "weights").glob("*.safetensors"))
    tokenizers = sorted((root / "tokenizers").glob("*_tokenizer_config.json"))
    if len(tables) != 1 or len(tokenizers) != 1:
        raise ModelError(
            f"{root}: {len(tables)} tables in weights and {len(tokenizers)} tokenizers in tokenizers; a WordLlama "
            "model has one of each"
        )
    return StaticModel(
        root=root,
        table_file=tables[0],
        table_name="embedding.weight",
        tokenizer_file=tokenizers[0],
        files=(tables[0], tokenizers[0]),
    )


def _files(root: Path, folder: Path, pipeline: Pipeline) -> tuple[Path, ...]:
    paths = {root / name for name in (CONFIG, "modules.json", MODEL_FILE, "head.safetensors")}
    paths |= {folder / name for name in (_WEIGHTS, "tokenizer.json")}
    paths |= {root / dense.folder / name for dense in pipeline.dense for name in (CONFIG, _WEIGHTS)}
    return tuple(path for path in sorted(paths) if has_file(path))
