"""The card of a checkpoint of any kind."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from fastqps.errors import ModelError
from fastqps.models.card import ModelCard, shorter
from fastqps.models.card_folder import CardFolder, open_card
from fastqps.models.checkpoint import Checkpoint
from fastqps.models.decoder_card import PROMPT_TOKENS_DEFAULT, decoder_card, decoder_version
from fastqps.models.encoder_card import default_encoder_limit, encoder_card
from fastqps.models.files.config_values import CARD_BYTES_MAX
from fastqps.models.names import resolve, resolve_adapter
from fastqps.models.opening import opening_ids
from fastqps.models.scoring import read_scoring
from fastqps.models.static import StaticModel, open_static

_STATIC_TOKENS_DEFAULT_MAX = 512  # of a static model without a limit of its own
# A file's value is not of its kind.
_UNUSABLE = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)


def load_card(
    name_or_dir: str,
    max_input_tokens: int | None = None,
    name: str | None = None,
    *,
    max_output_tokens: int | None = None,
    prefix_text: str = "",
    allow_single_texts: bool = False,
    adapter: str = "",
    labels: Sequence[str] = (),
    template: str = "",
) -> ModelCard:
    """The card of a checkpoint: a directory, a known name such as ``minilm``, or ``OWNER/NAME`` of the hub.

    ``name``: what it is called, if not by that. The limits are the server's; the model's own may be smaller.
    ``max_input_tokens`` None: the model's own, as ``default_input_limit`` bounds it.
    ``allow_single_texts``: a cross-encoder takes one text, too.
    ``adapter``: the directory of PEFT's, or hub:OWNER/NAME, that is merged into the weights.
    ``labels``: a decoder is a classifier, whose labels are these tokens of its vocabulary. ``template``: a file, or a
    name that ``fastqps.models.scoring.PACKAGED`` has, that says how a text or a pair is put to a classifier.
    ``max_output_tokens`` (None: 1,024, or what a smaller context leaves) and ``prefix_text`` (in front of
    every prompt; its ids go into the card and into the version) are of generators alone.
    In a folder that ``fastqps card`` has written they are what they were then.

    Reads JSON, and the weights' bytes for the digest; imports no torch. Raises ``ModelError``.
    """
    served, root = resolve(name_or_dir)
    merged = resolve_adapter(adapter) if adapter else None
    try:
        if kept := open_card(root):
            limits = max_input_tokens, max_output_tokens
            told = {
                "--prefix": bool(prefix_text),
                "--allow-single-texts": allow_single_texts and kept.card.pairs_only,
                "--adapter": bool(adapter),
                "--labels": bool(labels),
                "--template": bool(template),
            }
            return _usable(kept.served(name, *limits, told))
        if static := open_static(root):
            if merged:
                raise ModelError(f"{merged}: a static model has no layers that an adapter could change")
            if labels or template:
                raise ModelError(f"{root}: --labels and --template are for decoders, and this is a static model")
            card = _static_card(static, name or served, max_input_tokens)
            return _usable(dataclasses.replace(card, stamp=static.stamp()))
        checkpoint = Checkpoint.open(root, merged, by_tokens=bool(labels))
        stamp, scoring = checkpoint.stamp(), read_scoring(checkpoint, labels, template)
        if checkpoint.generates:
            card = decoder_card(checkpoint, name or served, max_input_tokens, max_output_tokens, prefix_text)
        else:
            card = encoder_card(checkpoint, name or served, max_input_tokens, allow_single_texts, scoring=scoring)
            card = dataclasses.replace(card, version=_version(checkpoint, card))
        files = checkpoint.tokenizer_files
        warnings, folder = (*card.warnings, *files.warnings), str(merged or "")
        card = dataclasses.replace(
            card,
            stamp=stamp,
            tokenizer_parts=card.tokenizer_parts or files.parts,
            adapter=folder,
            warnings=warnings,
        )
        opening = () if checkpoint.generates else opening_ids(card, checkpoint)
        return _usable(dataclasses.replace(card, opening_ids=opening))
    except OSError as error:
        raise ModelError(f"{root}: {error}") from error
    except _UNUSABLE as error:
        # Values are checked when they are read, so that any of these errors is a fault of the files.
        raise ModelError(f"{root}: its configuration cannot be used: {error!r}") from error


def _version(files: Checkpoint | CardFolder | StaticModel, card: ModelCard) -> str:
    """The version of an encoder's files as they are now, and of what its card has from elsewhere."""
    digest, scoring = files.digest(), (card.label_ids, card.against_id, card.templates)
    if isinstance(files, CardFolder) or not (card.label_ids or card.templates):
        return digest
    return hashlib.sha256(f"{digest}\0{scoring!r}".encode()).hexdigest()[:12]


def _usable(card: ModelCard) -> ModelCard:
    """The card; ``ModelError`` where it has no room in the memory that all processes share, and ``ValueError`` where
    half of a surrogate pair stands in a text. A path may have any bytes."""
    texts = dataclasses.replace(card, path="", tokenizer="", adapter="")
    json.dumps(dataclasses.asdict(texts), ensure_ascii=False).encode()
    if (size := len(card.to_json())) > CARD_BYTES_MAX:
        raise ModelError(
            f"{card.path}: its labels, prompts and tokenizer's parts make a card of {size} bytes; at most "
            f"{CARD_BYTES_MAX} are supported"
        )
    return card


def _static_card(model: StaticModel, name: str, max_input_tokens: int | None) -> ModelCard:
    """The card of ``model`` under ``name``. ``ModelError`` where its files do not fit together."""
    width, head = model.table.shape[1], model.head
    largest = max(model.vocabulary().values(), default=-1)
    if largest >= model.n_ids:
        raise ModelError(
            f"{model.table_file}: {model.n_ids} token ids have a vector, and the tokenizer's largest id is {largest}"
        )
    limit = _static_limit(model) if max_input_tokens is None else max_input_tokens
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


def _static_limit(model: StaticModel) -> int:
    """The longest input where no setting says it."""
    return min(model.max_tokens or _STATIC_TOKENS_DEFAULT_MAX, _STATIC_TOKENS_DEFAULT_MAX)


def default_input_limit(name_or_dir: str, labelled: bool = False) -> int:
    """The longest input of a checkpoint where no setting says it. Reads JSON alone. Raises ``ModelError``.

    ``labelled``: a generator may be a classifier by its tokens, and the longer limit of both counts."""
    _, root = resolve(name_or_dir)
    try:
        if kept := open_card(root):
            return kept.card.max_input_tokens
        if static := open_static(root):
            return _static_limit(static)
        checkpoint = Checkpoint.open(root)
        if checkpoint.generates and not labelled:
            return PROMPT_TOKENS_DEFAULT
        if checkpoint.generates:
            checkpoint = Checkpoint.open(root, by_tokens=True)
        return default_encoder_limit(checkpoint)
    except OSError as error:
        raise ModelError(f"{root}: {error}") from error
    except _UNUSABLE as error:
        raise ModelError(f"{root}: its configuration cannot be used: {error!r}") from error


def check_files(card: ModelCard) -> None:
    """Checks a card's files after loading them. Raises ``ModelError`` if they are not those that the card was made of.

    Only where one was written since then are they read whole for it.
    """
    root = Path(card.path)
    try:
        files = open_card(root) or open_static(root) or Checkpoint.of(card)
        if card.stamp in ("", files.stamp()):
            return
        if isinstance(files, Checkpoint) and files.generates:
            current = decoder_version(files, card.prefix_ids)
        else:
            current = _version(files, card)
    except OSError as error:
        raise ModelError(f"{card.path}: {error}") from error
    if current != card.version:
        raise ModelError(
            f"{card.path}: its files have changed: they are {card.name}@{current} now, and {card.name}@{card.version} "
            "is served; reload it"
        )


def deciding_files(card: ModelCard) -> list[Path]:
    """The files of a checkpoint, weights included, that decide its answers, without those of an adapter.

    Raises ``ModelError``, also for a folder that holds a card and no checkpoint.
    """
    root = Path(card.path)
    if open_card(root):
        raise ModelError(f"{root}: it holds a card and no weights; take the checkpoint")
    static = open_static(root)
    return list(static.files) if static else Checkpoint.of(card).deciding()
