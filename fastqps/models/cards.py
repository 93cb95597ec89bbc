"""The card of a checkpoint, whatever its kind."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from fastqps.models.card import ModelCard, ModelError
from fastqps.models.checkpoint import Checkpoint
from fastqps.models.decoder_card import decoder_card, decoder_version
from fastqps.models.encoder_card import encoder_card
from fastqps.models.names import resolve


def load_card(
    name_or_dir: str,
    max_input_tokens: int = 512,
    name: str | None = None,
    *,
    max_output_tokens: int = 128,
    prefix_text: str = "",
) -> ModelCard:
    """The card of a checkpoint (a directory, or a known name such as ``minilm``), under ``name`` if given.

    The limits are the server's; the model's own may be smaller. ``max_output_tokens`` and ``prefix_text`` (in front of
    every prompt; its ids go into the card and into the version) are of generators alone.

    Reads JSON, and the weights' bytes for the digest; imports no torch. Raises ``ModelError``.
    """
    served, root = resolve(name_or_dir)
    try:
        checkpoint = Checkpoint.open(root)
        stamp = checkpoint.stamp()
        if checkpoint.generates:
            card = decoder_card(checkpoint, name or served, max_input_tokens, max_output_tokens, prefix_text)
        else:
            card = encoder_card(checkpoint, name or served, max_input_tokens)
        return dataclasses.replace(card, stamp=stamp)
    except OSError as error:
        raise ModelError(f"{root}: {error}") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # What the files say is read as it is used: whatever does not fit is a fault of theirs.
        raise ModelError(f"{root}: its configuration cannot be used: {error!r}") from error


def check_files(card: ModelCard) -> None:
    """For a process that has just loaded them: ``ModelError`` where they are not those that the card was made of.

    Only where one was written since then are they read for it.
    """
    try:
        checkpoint = Checkpoint.open(Path(card.path))
        if card.stamp in ("", checkpoint.stamp()):
            return
        found = decoder_version(checkpoint, card.prefix_ids) if checkpoint.generates else checkpoint.digest()
    except OSError as error:
        raise ModelError(f"{card.path}: {error}") from error
    if found != card.version:
        raise ModelError(
            f"{card.path}: its files have changed: they are {card.name}@{found} now, and {card.name}@{card.version} is "
            "served; reload it"
        )
