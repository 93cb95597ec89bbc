"""Reads sentence-transformers' files beside modules.json: limits, preprocessing, a cross-encoder's function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.files.keys import Keys, Rules, read_keys, rules
from fastqps.models.files.reading import has_file, optional_object
from fastqps.models.sentence_transformers.keys import (
    LOADING,
    MODEL,
    MODEL_FILE,
    MULTI_MODEL,
    MULTI_TRANSFORMER,
    TOKENIZER_LOADING,
    TRANSFORMER,
    TRANSFORMER_FILES,
)
from fastqps.models.sentence_transformers.multi_vector import (
    MULTI_TYPES,
    MultiVector,
    SkipList,
    read_multi_vector,
    with_prefixes,
)
from fastqps.models.sentence_transformers.prompts import EMBEDDER_PROMPTS, NO_PROMPTS, Prompts, read_prompts

# For each kind of model: the Transformer module's task, the model's output that it reads, and its own output.
_EMBED = ("feature-extraction", "last_hidden_state", "token_embeddings")
_SCORE = ("sequence-classification", "logits", "scores")
_LOGITS = ("text-generation", "logits", "causal_logits")
_FILL_MASKS = ("fill-mask", "logits", "token_embeddings")
_MODEL_TYPES = ("SentenceTransformer", "CrossEncoder", "SparseEncoder")
_MESSAGE_FORMS = ("auto", "flat", "structured")
# Arguments of the tokenizer that a file can pass on with those of its chat template.
_OF_TOKENIZER = ("padding", "truncation", "max_length", "return_tensors", "return_dict", "tokenize", "restore_suffix")
# Arguments that the file passes on: the older and the newer key, and their rules. The older key wins where both stand.
_ARGUMENTS = (
    ("model_args", "model_kwargs", LOADING),
    ("config_args", "config_kwargs", LOADING),
    ("tokenizer_args", "processor_kwargs", TOKENIZER_LOADING),
)


@dataclass(frozen=True)
class SentenceConfig:
    """Settings that decide an answer. ``max_tokens`` is 0 where no file sets a limit, and replaces the tokenizer's."""

    max_tokens: int = 0
    lower_case: bool = False
    cross_encoder: bool = False
    activation: str = ""  # of a cross-encoder: a class name of torch.nn with its module; "": no file says it
    prompts: Prompts = NO_PROMPTS
    max_active_dims: int | None = None  # of a sparse embedding; None: the file sets no limit
    multi: MultiVector | None = None  # of a model with a vector for each token
    messages: str = ""  # texts are messages of a chat template, in this of _MESSAGE_FORMS; "": they are texts
    template_variables: Mapping[str, Any] = field(default_factory=dict)  # more of the chat template
    warnings: tuple[str, ...] = ()  # of keys that nobody knows, and of a file that is not read


def read_sentence_config(
    root: Path, encoder: Path, scores: bool, pads_anywhere: bool = False, *, logits: bool = False
) -> SentenceConfig:
    """The files in ``root`` and in the transformer's folder ``encoder``.

    They are read where there is a modules.json, and a cross-encoder's where ``model_type`` calls it one: else
    sentence-transformers builds the model anew from config.json and the weights.
    ``scores``: whether the model is to give scores, not embeddings. ``pads_anywhere``: its answers do not depend on the
    side on which sentence-transformers pads. ``logits``: a LogitScore makes scores of a decoder's logits. Raises
    ``ModelError`` for what is not supported.
    """
    model = _model(root)
    kind = model.get("model_type", _MODEL_TYPES[0])
    if kind not in _MODEL_TYPES:
        raise ModelError(
            f"{model.file}: model_type {kind!r} is not supported; supported: {', '.join((*_MODEL_TYPES, *MULTI_TYPES))}"
        )
    cross, listed = kind == "CrossEncoder", has_file(root / "modules.json")
    if listed and kind != _MODEL_TYPES[0] and not scores:
        why = "which lists more than a Transformer" if cross else "which lists no SpladePooling"
        raise ModelError(f"{model.file}: model_type {kind!r} does not fit modules.json, {why}")
    if logits and not cross:
        raise ModelError(f"{model.file}: model_type {kind!r} does not fit modules.json; LogitScore scores pairs")
    if not listed or cross != scores:
        return _unread(root, encoder, model, listed, cross, scores)
    own = _first(root, encoder)
    if not cross:
        return _read(model, own, _EMBED, pads_anywhere)
    if logits and "transformer_task" not in own:
        raise ModelError(f"{own.file}: transformer_task is missing; before a LogitScore it has to be {_LOGITS[0]}")
    sentence = _read(model, own, _LOGITS if logits else _SCORE, pads_anywhere, ())
    return replace(
        sentence,
        cross_encoder=True,
        activation=str(model.get("activation_fn") or ""),
        messages="auto" if logits and "modality_config" not in own else _messages(own),
        template_variables=_template_variables(own),
    )


def read_sparse_config(root: Path, encoder: Path, fills_masks: bool) -> SentenceConfig:
    """The files of a model with sparse embeddings, as ``read_sentence_config`` reads those of others.

    ``fills_masks``: whether the transformer's class says that it is a masked language model; else its file has to.
    """
    model, own = _model(root), _first(root, encoder)
    if (kind := model.get("model_type", _MODEL_TYPES[0])) != "SparseEncoder":
        raise ModelError(
            f"{model.file}: model_type {kind!r} does not fit modules.json; SpladePooling is of a SparseEncoder"
        )
    if not fills_masks and "transformer_task" not in own:
        raise ModelError(
            f"{own.file}: transformer_task is missing; a Transformer before SpladePooling has to fill-mask"
        )
    most = model.get("max_active_dims")
    if most is not None and (type(most) is not int or most < 1):
        raise ModelError(
            f"{model.file}: max_active_dims {most!r} is impossible; it has to be a positive number, or absent"
        )
    return replace(_read(model, own, _FILL_MASKS), max_active_dims=most)


def read_multi_config(root: Path, encoder: Path, skip_list: SkipList | None) -> SentenceConfig:
    """The same files of a model with a vector for each token."""
    model, own = _model(root, MULTI_MODEL), _first(root, encoder, MULTI_TRANSFORMER)
    sentence = _read(model, own, _EMBED)
    multi = read_multi_vector(model, own, skip_list)
    return replace(sentence, prompts=with_prefixes(model, sentence.prompts), multi=multi)


def read_static_config(root: Path) -> SentenceConfig:
    """Prompts and warnings of the file of a static model in ``root``; ``ModelError`` where it is not of one."""
    model = _model(root)
    if model.get("model_type", _MODEL_TYPES[0]) != _MODEL_TYPES[0]:
        raise ModelError(f"{model.file}: model_type {model['model_type']!r} does not fit a static model; it embeds")
    return SentenceConfig(prompts=read_prompts(model, EMBEDDER_PROMPTS), warnings=model.warnings())


def _model(root: Path, known: Rules = MODEL) -> Keys:
    return read_keys(root / MODEL_FILE, known, optional=True)


def _read(
    model: Keys,
    own: Keys,
    task: tuple[str, str, str],
    pads_anywhere: bool = False,
    named: tuple[str, ...] = EMBEDDER_PROMPTS,
) -> SentenceConfig:
    """The settings that all kinds of models have. ``own``: the transformer's file."""
    _check_task(own, task)
    return SentenceConfig(
        max_tokens=_max_tokens(own, pads_anywhere),
        lower_case=bool(own.get("do_lower_case")),
        prompts=read_prompts(model, named),
        warnings=model.warnings(),
    )


def _unread(root: Path, encoder: Path, model: Keys, listed: bool, cross: bool, scores: bool) -> SentenceConfig:
    """The settings of a checkpoint whose files sentence-transformers does not read."""
    if encoder != root:
        raise ModelError(
            f"{root / 'modules.json'}: the path {encoder.name!r} of a Transformer alone is not supported unless "
            f"{MODEL_FILE} says model_type CrossEncoder"
        )
    set_keys = [key for key in ("activation_fn", "default_prompt_name") if model.get(key)]
    prompts = NO_PROMPTS if scores else Prompts(tuple((name, "") for name in EMBEDDER_PROMPTS))
    if not set_keys:
        return SentenceConfig(cross_encoder=cross, prompts=prompts)
    lacks = "its model_type is not CrossEncoder" if listed else "there is no modules.json"
    warning = f"{model.file} is not read, because {lacks}: {' and '.join(set_keys)} have no effect."
    return SentenceConfig(cross_encoder=cross, prompts=prompts, warnings=(warning,))


def lower_cases(normalizer: Any) -> bool:
    """Whether this normalizer of a tokenizer.json gives what it gives behind another that lower-cases.

    That is how sentence-transformers honours ``do_lower_case``. It adds none where a Lowercase stands alone or in the
    outermost sequence. A BertNormalizer that lower-cases first makes another one idle.
    """
    steps = normalizer.get("normalizers") or [] if isinstance(normalizer, Mapping) else []
    steps = steps or [normalizer or {}]
    first = steps[0]
    if first.get("type") == "BertNormalizer" and first.get("lowercase") is True:
        return True
    return any(step.get("type") == "Lowercase" for step in steps)


def _first(root: Path, folder: Path, known: Rules = TRANSFORMER) -> Keys:
    """The first of the transformer's files that says anything."""
    for name in TRANSFORMER_FILES:
        if values := optional_object(folder / name):
            own = Keys(str(folder / name), values, known)
            own.check_known()
            return own
    return Keys(str(root), {}, known)


def _check_task(own: Keys, expected: tuple[str, str, str]) -> None:
    (task, output, feature), where = expected, own.file
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
    message = modalities.get("message")
    if message is not None and task not in (_SCORE[0], _LOGITS[0]):
        raise ModelError(
            f"{where}: message in modality_config is not supported: only what gives scores goes through a chat template"
        )
    plain = {key: value for key, value in message.items() if key != "format"} if isinstance(message, dict) else message
    if message is not None and (plain != text or message.get("format", "auto") not in _MESSAGE_FORMS):
        raise ModelError(f"{where}: modality_config says {message!r} of messages; they have to be as texts are")
    if own.get("module_output_name") != feature:
        output_name = own.get("module_output_name")
        raise ModelError(f"{where}: module_output_name {output_name!r} is not supported; this model's is {feature!r}")


def _messages(own: Keys) -> str:
    message = (own.get("modality_config") or {}).get("message")
    return "" if message is None else str(message.get("format", "auto"))


def _template_variables(own: Keys) -> Mapping[str, Any]:
    """The variables of the chat template that the file sets."""
    variables = (own.get("processing_kwargs") or {}).get("chat_template") or {}
    _check_object(own.file, "chat_template in processing_kwargs", variables)
    if tokenizing := next((key for key in variables if key in _OF_TOKENIZER), None):
        raise ModelError(f"{own.file}: {tokenizing} in processing_kwargs.chat_template is not supported")
    return variables


def _max_tokens(own: Keys, pads_anywhere: bool) -> int:
    """The tokenizer's argument, else the file's own limit. Other arguments that decide an answer are refused."""
    limit, named, where = own.get("max_seq_length"), False, own.file
    for older, newer, known in _ARGUMENTS:
        key = older if older in own else newer
        passed = own.get(key) or {}
        _check_object(where, key, passed)
        tokenizes = known is TOKENIZER_LOADING
        known = known | rules(irrelevant=("padding_side",)) if tokenizes and pads_anywhere else known
        arguments = Keys(f"{where}: {key}", passed, known)
        if arguments.unknown:
            raise ModelError(f"{where}: {arguments.unknown[0]} in {key} is not supported")
        if tokenizes and "model_max_length" in arguments:
            limit, named = arguments["model_max_length"], True
    processing = own.get("processing_kwargs") or {}
    _check_object(where, "processing_kwargs", processing)
    templated = own.get("modality_config") is None or bool(_messages(own))
    if any(value for key, value in processing.items() if key != "chat_template" or not templated):
        raise ModelError(f"{where}: processing_kwargs {processing!r} is not supported")
    if (named or limit is not None) and (type(limit) is not int or limit < 1):
        raise ModelError(f"{where}: a limit of {limit!r} tokens is impossible")
    return limit or 0


def _check_object(where: str, key: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise ModelError(f"{where}: {key} is no object")
