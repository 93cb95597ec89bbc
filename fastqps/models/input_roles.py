"""The roles of inputs in a model with a vector for each token: by its sentence-transformers files and its tokenizer."""

from __future__ import annotations

from fastqps.errors import ModelError
from fastqps.models.card import InputRole
from fastqps.models.checkpoint import Checkpoint
from fastqps.models.sentence_transformers.multi_vector import Expansion, MultiVector
from fastqps.models.tokenizers.files import tokenizer_source
from fastqps.models.tokenizers.vocabulary import ids_of_tokens

_IN_FRONT = (
    "'query': the tokenizer's padding_side is left, so that sentence-transformers expands queries in front of the "
    "text. That is not supported; send documents alone, and embed queries with sentence-transformers"
)
_UNATTENDED = (
    "'query': the checkpoint expands queries by tokens to which no other attends (attend false in its query "
    "expansion). That is not supported; send documents alone, and embed queries with sentence-transformers"
)


def input_roles(checkpoint: Checkpoint, plain: int, longest: int) -> tuple[tuple[InputRole, ...], tuple[str, ...]]:
    """Its roles, and warnings for the operator. The first role is that of an input that names none of the others.

    ``plain`` is the limit of such an input in tokens, ``longest`` that of any. ``ModelError`` if one does not fit.
    """
    multi = checkpoint.sentence.multi
    assert multi, "it has a vector for each token"
    source = tokenizer_source(checkpoint.tokenizer(), checkpoint.tokenizer_files.parts)
    skipped, warnings = _skipped(checkpoint, multi, source)
    query = _query(checkpoint, multi, plain, longest, source)
    roles = (
        InputRole("", plain),
        InputRole("document", min(multi.document_length or plain, longest)),
        query,
    )
    if query.refusal:
        warnings = (*warnings, f"Queries are refused: {query.refusal.partition(': ')[2]}.")
    tasks = multi.skip_list.tasks
    return tuple(_with(role, skipped if (role.name or "document") in tasks else ()) for role in roles), warnings


def _with(role: InputRole, skipped: tuple[int, ...]) -> InputRole:
    return InputRole(role.name, role.max_tokens, role.expanded_to, role.expansion_id, skipped, role.refusal)


def _query(checkpoint: Checkpoint, multi: MultiVector, plain: int, longest: int, source: str) -> InputRole:
    limit = min(multi.query_length or plain, longest)
    expansion = multi.expansion
    if expansion is None:
        return InputRole("query", limit)
    if expansion.length > longest:
        raise ModelError(
            f"{checkpoint.root}: queries are expanded to {expansion.length} tokens, and inputs have at most {longest}; "
            "raise --max-input-tokens (max_input_tokens of Engine), or the model's own limit if that is smaller"
        )
    limit = expansion.length if expansion.fixed else max(limit, expansion.length if multi.query_length else 0)
    if checkpoint.tokenizer_files.pads_left:
        return InputRole("query", limit, refusal=_IN_FRONT)
    if expansion.attend:
        return InputRole("query", limit, expansion.length, _expansion_id(checkpoint, expansion, source))
    return InputRole("query", limit, refusal=_UNATTENDED if multi.scores_padding else "")


def _expansion_id(checkpoint: Checkpoint, expansion: Expansion, source: str) -> int:
    token_id = ids_of_tokens(source, [expansion.token])[0] if expansion.token else checkpoint.tokenizer_files.mask_id
    if token_id is None or token_id < 0:
        raise ModelError(
            f"{checkpoint.root}: queries are expanded by {expansion.token or 'the mask token'!r}, which its tokenizer "
            "does not have"
        )
    return token_id


def _skipped(checkpoint: Checkpoint, multi: MultiVector, source: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The ids of the words that are skipped, and a warning about those that are no tokens."""
    words = multi.skip_list.words
    ids = ids_of_tokens(source, words) if words else []
    lacking = [word for word, i in zip(words, ids, strict=True) if i is None]
    if lacking and checkpoint.tokenizer_files.unknown_id < 0:
        raise ModelError(f"{checkpoint.root}: its skip list names {lacking[0]!r}, which its tokenizer does not have")
    skipped = tuple(sorted({i for i in ids if i is not None}))
    if not lacking:
        return skipped, ()
    named = ", ".join(lacking[:8]) + (f" and {len(lacking) - 8} more" if len(lacking) > 8 else "")
    return skipped, (f"The skip list names words that are no tokens, and they are not skipped: {named}.",)
