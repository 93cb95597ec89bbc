"""The card of an encoder: what it gives, how long its inputs may be, how its scores are read."""

from __future__ import annotations

from typing import Any

from fastqps._core import TASKS
from fastqps.errors import ModelError
from fastqps.models.card import InputRole, ModelCard, shorter
from fastqps.models.checkpoint import Checkpoint
from fastqps.models.counts import check_counts
from fastqps.models.families.encoder import EncoderConfig
from fastqps.models.files.config_values import LABELS_MAX, Activation, size
from fastqps.models.input_roles import input_roles
from fastqps.models.scoring import Scoring
from fastqps.models.sentence_transformers.keys import MODEL_FILE, torch_class
from fastqps.models.sentence_transformers.prompts import NO_PROMPTS
from fastqps.models.tokenizers.files import with_post_processor

_ACTIVE_DIMS_MAX = 512  # weights of a sparse embedding: a slot holds 8 bytes for each, and texts rarely have half of it
_FLOAT_IDS_MAX = 1 << 24  # token ids that a float32 of an output row holds exactly
_INPUT_TOKENS_DEFAULT_MAX = 8192  # of a model that takes more: a step must hold its longest input
_MULTI_TOKENS_DEFAULT_MAX = 512  # of one with a vector for each token: a front door has 64 MiB for long answers


def encoder_card(
    checkpoint: Checkpoint,
    name: str,
    max_input_tokens: int | None,
    allow_single_texts: bool,
    *,
    scoring: Scoring,
) -> ModelCard:
    """The card of ``checkpoint`` under ``name``; ``ModelError`` if its numbers are impossible."""
    tokens, templates = scoring.tokens, scoring.templates
    traits = TASKS[checkpoint.task]
    try:
        config = checkpoint.encoder_config()
        labels = tokens.names if tokens else _labels(checkpoint) if traits.form == "labels" else ()
        active = _active_dims(checkpoint, config) if traits.form == "sparse" else 0
        check_counts(checkpoint, config, 0 if tokens else len(labels))
        if tokens and (id := max(*tokens.ids, tokens.against_id)) >= config.vocab:
            raise ModelError(f"a label is token {id}, and config.json says vocab_size {config.vocab}")
    except ModelError as error:
        raise ModelError(f"{checkpoint.root}: {error}") from error
    if traits.by_token and not checkpoint.tokenizer():  # answers are parts of a text, or depend on its words
        what = "a token classifier" if labels else "a model with a vector for each token"
        raise ModelError(f"{checkpoint.root}: {what} needs a tokenizer.json")
    dense = checkpoint.pipeline.dense
    width = dense[-1].out_features if dense else config.hidden
    if active:
        width = 2 * active + 1
    special = _special_ids(checkpoint)
    prompts = NO_PROMPTS if traits.spans else checkpoint.sentence.prompts
    own = _own_limit(checkpoint, config)
    limit_max = _default_max(checkpoint) if max_input_tokens is None else max_input_tokens
    limit = min(own, limit_max)
    roles: tuple[InputRole, ...] = ()
    warnings: tuple[str, ...] = ()
    if checkpoint.task == "embed_multi":
        roles, warnings = input_roles(
            checkpoint, limit, limit_max if config.input_limit is None else min(limit_max, config.input_limit)
        )
    return ModelCard(
        name=name,
        path=str(checkpoint.root),
        version="",  # with what the card has from elsewhere, by ``load_card``
        task=checkpoint.task,
        family=checkpoint.family.name,
        dimensions=len(labels) or width,
        max_input_tokens=max([limit, *(max(role.max_tokens, role.expanded_to) for role in roles)]),
        vocab_size=config.vocab,
        tokenizer=checkpoint.tokenizer(),
        cuts_left=checkpoint.tokenizer_files.cuts_left,
        labels=labels,
        label_ids=tokens.ids if tokens else (),
        against_id=tokens.against_id if tokens else -1,
        normalize=traits.form == "vector" and checkpoint.pipeline.normalize,
        activation=_activation(checkpoint, len(labels)),
        position_offset=config.position_offset,
        second_segment_type=int(checkpoint.tokenizer_files.token_types and config.types > 1),
        pad_id=special["pad"] if special["pad"] >= 0 else 0,
        cls_id=special["cls"],
        sep_id=special["sep"],
        max_active_dims=active,
        unknown_id=checkpoint.tokenizer_files.unknown_id if traits.spans else -1,
        pairs_only=checkpoint.cross_encoder and not allow_single_texts,
        templates=templates.forms if templates else (),
        tokenizer_parts=with_post_processor(checkpoint.tokenizer_files.parts, templates.post_processor)
        if templates
        else "",
        prompts=prompts.texts,
        default_prompt=prompts.default,
        roles=roles,
        warnings=(
            *shorter(limit, own),
            *_cut(checkpoint, active),
            *warnings,
            *checkpoint.warnings,
            *(templates.warnings if templates else ()),
        ),
    )


def _cut(checkpoint: Checkpoint, active: int) -> tuple[str, ...]:
    own = checkpoint.sentence.max_active_dims or 0
    return (f"Sparse embeddings have at most {active} weights, the checkpoint allows {own}.",) if own > active else ()


def _active_dims(checkpoint: Checkpoint, config: EncoderConfig) -> int:
    """The most weights of a sparse embedding: the file's, unless it says more than an answer has room for."""
    checkpoint.vocabulary_head()
    if config.vocab > _FLOAT_IDS_MAX:
        raise ModelError(f"config.json says vocab_size {config.vocab}; a sparse embedding has at most {_FLOAT_IDS_MAX}")
    return min(checkpoint.sentence.max_active_dims or _ACTIVE_DIMS_MAX, _ACTIVE_DIMS_MAX, config.vocab)


def _labels(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Labels as transformers names them: where ``num_labels`` differs from the names' number, they have none.

    An adapter has as many as the rows of its head, and no names of its own.
    """
    config, adapter = checkpoint.config, checkpoint.adapter
    rows = adapter.replaced_rows(f"{checkpoint.labels_name}.weight") if adapter else None
    names, ids = config.get("id2label"), config.get("label2id")
    if names is None:
        return _unnamed(rows or size(config, "num_labels", 2, largest=LABELS_MAX))
    if not isinstance(names, dict) or not names or {str(i) for i in range(len(names))} != names.keys():
        raise ModelError("config.json: id2label has to name the labels 0, 1, 2 and so on, each once")
    count = rows or size(config, "num_labels", len(names), largest=LABELS_MAX)
    if count != len(names):
        return _unnamed(count)
    labels = tuple(str(names[str(i)]) for i in range(count))
    if checkpoint.task == "classify" and isinstance(ids, dict):
        _check_entailment(labels, ids)
    return labels


def _check_entailment(labels: tuple[str, ...], ids: dict[str, Any]) -> None:
    """``ModelError`` where label2id has entailment elsewhere: transformers' zero-shot classification finds it there."""
    named, stated = (
        next((i for name, i in pairs if name.lower().startswith("entail")), None)
        for pairs in (((name, i) for i, name in enumerate(labels)), ids.items())
    )
    if named is not None and stated is not None and named != stated:
        raise ModelError(f"config.json: label2id says that entailment is {stated!r}, and id2label that it is {named}")


def _unnamed(count: int) -> tuple[str, ...]:
    return tuple(f"LABEL_{i}" for i in range(count))


def _activation(checkpoint: Checkpoint, labels: int) -> Activation:
    """A cross-encoder's as sentence-transformers has it, another's as a pipeline of transformers."""
    if checkpoint.task == "classify_tokens":
        return "softmax"  # whatever problem_type says
    if checkpoint.task != "classify":
        return "identity"
    if checkpoint.cross_encoder:
        return _cross_encoder_activation(checkpoint, labels)
    problem = checkpoint.config.get("problem_type")
    if problem == "regression":
        return "identity"
    if problem == "multi_label_classification" or labels == 1:
        return "sigmoid"
    return "softmax"


def _cross_encoder_activation(checkpoint: Checkpoint, labels: int) -> Activation:
    """The activation, by the first key that is present; if that names no function, by the number of labels."""
    own = checkpoint.config.get("sentence_transformers")
    if not isinstance(own, dict):
        own = {}
    key = f"{MODEL_FILE}: activation_fn"
    named: Any = checkpoint.sentence.activation
    if not named and "activation_fn" in own:
        key, named = "config.json: activation_fn in sentence_transformers", own["activation_fn"]
    elif not named:
        key = "config.json: sbert_ce_default_activation_function"
        named = checkpoint.config.get("sbert_ce_default_activation_function")
    if not named:
        return "sigmoid" if labels == 1 else "identity"
    known: dict[str, Activation] = {"Identity": "identity", "Sigmoid": "sigmoid", "Softmax": "softmax"}
    activation = known.get(torch_class(named))
    if activation is None:
        raise ModelError(
            f"{checkpoint.root}: {key} {named!r} is not supported; supported are torch.nn's {', '.join(known)}"
        )
    return activation


def default_encoder_limit(checkpoint: Checkpoint) -> int:
    """The longest input where no setting says it."""
    return min(_own_limit(checkpoint, checkpoint.encoder_config()), _default_max(checkpoint))


def _default_max(checkpoint: Checkpoint) -> int:
    return _MULTI_TOKENS_DEFAULT_MAX if checkpoint.task == "embed_multi" else _INPUT_TOKENS_DEFAULT_MAX


def _own_limit(checkpoint: Checkpoint, config: EncoderConfig) -> int:
    """The model's own limit: by its positions, and by the sentence configuration, else by the tokenizer."""
    limits = [checkpoint.sentence.max_tokens or checkpoint.tokenizer_files.input_limit, config.input_limit]
    lowest = min((int(limit) for limit in limits if limit is not None), default=_INPUT_TOKENS_DEFAULT_MAX)
    if lowest < 1:
        raise ModelError(f"{checkpoint.root}: the input limit is {lowest} tokens; it must be at least 1")
    return lowest


def _special_ids(checkpoint: Checkpoint) -> dict[str, int]:
    """Ids of the padding, first and separating token: by the tokenizer's names, else from config.json; -1 if none."""

    def find(*names: str) -> int:
        named = checkpoint.named_token(*names)
        keys = [f"{name}_token_id" for name in names if isinstance(checkpoint.config.get(f"{name}_token_id"), int)]
        if named >= 0 or not keys or checkpoint.config[keys[0]] < 0:
            return named
        return size(checkpoint.config, keys[0], smallest=0)

    return {"pad": find("pad"), "cls": find("cls", "bos"), "sep": find("sep", "eos")}
