"""What sentence-transformers' files say beside modules.json: limits, preprocessing, a cross-encoder's function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastqps.models.card import ModelError
from fastqps.models.json_files import optional_object
from fastqps.models.keys import Keys
from fastqps.models.sentence_keys import LOADING, MODEL, MODEL_FILE, TRANSFORMER, TRANSFORMER_FILES

# What its Transformer module does for texts, by what the model gives: the task, the model's output, the module's.
_EMBED = ("feature-extraction", "last_hidden_state", "token_embeddings")
_SCORE = ("sequence-classification", "logits", "scores")
# Arguments that its Transformer module passes on to transformers: the old name of each and the new one.
_ARGUMENTS = {
    "model_args": "model_kwargs",
    "config_args": "config_kwargs",
    "tokenizer_args": "processor_kwargs",
}
_MODEL_TYPES = ("SentenceTransformer", "CrossEncoder")


@dataclass(frozen=True)
class SentenceConfig:
    """What of them decides an answer. ``max_tokens`` is 0 where no file sets a limit."""

    max_tokens: int = 0
    lower_case: bool = False
    cross_encoder: bool = False
    activation: str = ""  # of a cross-encoder: a class name of torch.nn with its module; "": no file says it
    warnings: tuple[str, ...] = ()  # of keys that nobody knows


def read_sentence_config(root: Path, encoder: Path, scores: bool) -> SentenceConfig:
    """The files in ``root`` and, where there is a modules.json, in the transformer's folder ``encoder``.

    ``scores``: whether the model is to give scores, not embeddings. Raises ``ModelError`` for what is not supported.
    """
    own = _first(encoder) if (root / "modules.json").is_file() else Keys("", {}, TRANSFORMER)
    model = Keys(str(root / MODEL_FILE), optional_object(root / MODEL_FILE), MODEL)
    where = own.file or str(root)
    _check_task(where, own, _SCORE if scores else _EMBED)
    _check_prompt(str(root / MODEL_FILE), model)
    kind = model.get("model_type", _MODEL_TYPES[0])
    if kind not in _MODEL_TYPES:
        known = ", ".join(_MODEL_TYPES)
        raise ModelError(f"{root / MODEL_FILE}: model_type {kind!r} is not supported; supported: {known}")
    cross = kind == "CrossEncoder"
    return SentenceConfig(
        max_tokens=_max_tokens(where, own),
        lower_case=bool(own.get("do_lower_case")),
        cross_encoder=cross,
        activation=str(model.get("activation_fn") or "") if cross else "",
        warnings=(*own.warnings(), *model.warnings()),
    )


def _first(folder: Path) -> Keys:
    """The first file that says anything."""
    for name in TRANSFORMER_FILES:
        if found := optional_object(folder / name):
            return Keys(str(folder / name), found, TRANSFORMER)
    return Keys("", {}, TRANSFORMER)


def _check_task(where: str, own: Keys, expected: tuple[str, str, str]) -> None:
    task, output, feature = expected
    if own.get("transformer_task", task) != task:
        raise ModelError(
            f"{where}: transformer_task {own['transformer_task']!r} is not supported; this model's is {task!r}"
        )
    modalities = own.get("modality_config")
    if modalities is None:
        return
    text = modalities.get("text") if isinstance(modalities, dict) else None
    if text != {"method": "forward", "method_output_name": output}:
        raise ModelError(
            f"{where}: modality_config says {text!r} of texts; only the output {output} of forward is used"
        )
    if own.get("module_output_name") != feature:
        said = own.get("module_output_name")
        raise ModelError(f"{where}: module_output_name {said!r} is not supported; this model's is {feature!r}")


def _max_tokens(where: str, own: Keys) -> int:
    """The tokenizer's argument, else the file's own limit. Other arguments that decide an answer are refused."""
    limit = own.get("max_seq_length")
    for old, new in _ARGUMENTS.items():
        key = old if own.get(old) is not None else new  # the old name counts where both are there
        passed = own.get(key) or {}
        _check_object(where, key, passed)
        known = Keys(f"{where}: {key}", passed, LOADING)
        if known.unknown or (known.get("model_max_length") is not None and new != "processor_kwargs"):
            name = (*known.unknown, "model_max_length")[0]
            raise ModelError(f"{where}: {name} in {key} is not supported")
        limit = known.get("model_max_length", limit)
    processing = own.get("processing_kwargs") or {}
    _check_object(where, "processing_kwargs", processing)
    if any(processing.values()):
        raise ModelError(f"{where}: processing_kwargs {processing!r} is not supported")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise ModelError(f"{where}: a limit of {limit!r} tokens is impossible")
    return limit or 0


def _check_object(where: str, key: str, found: object) -> None:
    if not isinstance(found, Mapping):
        raise ModelError(f"{where}: {key} is no object")


def _check_prompt(where: str, model: Keys) -> None:
    name = model.get("default_prompt_name")
    if not name:
        return
    prompts: Any = model.get("prompts") or {}
    text = prompts.get(name) if isinstance(prompts, dict) else None
    if text != "":
        raise ModelError(
            f"{where}: default_prompt_name {name!r} is not supported: clients put a prompt in front of their texts"
        )
