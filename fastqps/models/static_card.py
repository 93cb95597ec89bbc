"""The card of a static model."""

from __future__ import annotations

from fastqps.errors import ModelError
from fastqps.models.card import ModelCard, shorter
from fastqps.models.static.model import StaticModel

_INPUT_TOKENS_DEFAULT_MAX = 512  # of a model without a limit of its own


def static_card(model: StaticModel, name: str, max_input_tokens: int | None) -> ModelCard:
    """The card of ``model`` under ``name``. ``ModelError`` where its files do not fit together."""
    width, head = model.table.shape[1], model.head
    largest = max(model.vocabulary().values(), default=-1)
    if largest >= model.n_ids:
        raise ModelError(
            f"{model.table_file}: {model.n_ids} token ids have a vector, and the tokenizer's largest id is {largest}"
        )
    limit = default_static_limit(model) if max_input_tokens is None else max_input_tokens
    if model.max_tokens is not None:
        limit = min(limit, model.max_tokens)
    if model.dense:
        width = model.dense[-1].out_features
    return ModelCard(
        name=name,
        path=str(model.root),
        version=model.digest(),
        task="classify" if head else "embed",
        family="static",
        dimensions=len(head.labels) if head else width,
        max_input_tokens=limit,
        vocab_size=model.n_ids + 1,
        tokenizer=str(model.tokenizer_file),
        tokenizer_parts=model.tokenizer_parts,
        labels=head.labels if head else (),
        normalize=model.normalize and not head,
        activation=head.activation if head else "identity",
        empty_id=model.n_ids,
        max_characters=model.max_characters(limit),
        prompts=model.prompts.texts,
        default_prompt=model.prompts.default,
        warnings=(*(shorter(limit, model.max_tokens) if model.max_tokens else ()), *model.warnings),
    )


def default_static_limit(model: StaticModel) -> int:
    """The longest input where no setting says it."""
    return min(model.max_tokens or _INPUT_TOKENS_DEFAULT_MAX, _INPUT_TOKENS_DEFAULT_MAX)
