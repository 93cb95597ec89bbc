"""A classifier's labels as tokens of a decoder's vocabulary: their logits behind a text are its scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastqps.errors import ModelError
from fastqps.models.sentence_transformers.logit_score import LogitScore
from fastqps.models.tokenizers.tokenizer import Tokenizer

LABELS_MAX = 1024  # an answer has all of them
# What stands in front of a label while its token is looked for: a word that goes on with a space, or a new line.
_SPACED, _BARE = ("a", " "), ("a\n", "")


@dataclass(frozen=True)
class LabelTokens:
    """``ids`` of tokens by label. ``against_id``: the token whose logit is taken off each label's; -1: none."""

    names: tuple[str, ...]
    ids: tuple[int, ...]
    against_id: int = -1


def read_labels(source: str, names: Sequence[str], *, spaced: bool) -> LabelTokens:
    """The tokens of ``names``: each must be one, all with a space in front or all without one.

    ``source``: as of ``Tokenizer.from_source``. ``spaced``: the form that counts where a tokenizer has both is that
    with the space, because the text ends with a word. ``ModelError`` names a label that is no single token.
    """
    if len(names) > LABELS_MAX:
        raise ModelError(f"--labels: {len(names)} labels, at most {LABELS_MAX}")
    if not all(names):
        raise ModelError(f"--labels: {','.join(names)!r} has an empty label")
    tokenizer = Tokenizer.from_source(source, special_tokens="none")
    forms = [[_token(tokenizer, name, *form) for name in names] for form in (_SPACED, _BARE)[:: 1 if spaced else -1]]
    ids = next((form for form in forms if None not in form), None)
    if ids is None:
        lacking = [(sum(id is not None for id in found), name) for name, *found in zip(names, *forms, strict=True)]
        name = min(lacking, key=lambda each: each[0])[1]
        raise ModelError(
            f"--labels: {name!r} is not one token of this tokenizer, neither with a space in front nor without; "
            "take words that are, and name them in the template"
        )
    found = tuple(id for id in ids if id is not None)
    if twice := next((name for name, id in zip(names, found, strict=True) if found.count(id) > 1), None):
        raise ModelError(f"--labels: {twice!r} and another label are the same token")
    return LabelTokens(tuple(names), found)


def _token(tokenizer: Tokenizer, name: str, before: str, space: str) -> int | None:
    """The id of ``name`` behind ``before`` and ``space``; None where it is more than one token, or changes others."""
    head, whole = tokenizer.encode(before), tokenizer.encode(f"{before}{space}{name}")
    return whole[-1] if whole[:-1] == head else None


def labels_of(score: LogitScore, source: str) -> LabelTokens:
    """The one label of a LogitScore, named by its token's text."""
    name = Tokenizer.from_source(source).decode([score.true_id]).strip() if source else ""
    return LabelTokens((name or "LABEL_0",), (score.true_id,), -1 if score.false_id is None else score.false_id)
