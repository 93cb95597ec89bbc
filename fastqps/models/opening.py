"""The opening of a causal model: ids that its inputs begin with, whose keys and values a device computes once.

A request whose ids begin otherwise loses nothing: of each it is found out how much of the opening it has.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from fastqps.models.card import ModelCard
from fastqps.models.card_tokenizer import load_tokenizer
from fastqps.models.checkpoint import Checkpoint
from fastqps.models.families.llama_encoder import LlamaEncoderConfig
from fastqps.models.tokenizers.tokenizer import Tokenizer

_Input = str | tuple[str, str]
OPENING_TOKENS_MAX = 1024
_TOKENS_LEAST = 4  # fewer save less than a longer attention costs
# Usual texts with different beginnings. One that changes the last tokens of the opening has the others.
_TEXTS = ("what", "The b", "7", "été", "中文", '"a')


def opening_ids(card: ModelCard, checkpoint: Checkpoint) -> tuple[int, ...]:
    """What the inputs of a model begin with, whatever their texts are: those that name no prompt, or else those of the
    prompt that has most. (): too little, or the answer depends on each row of an input.
    """
    if not reads_last_row(card, checkpoint) or not (card.templates or any(text for _, text in card.prompts)):
        return ()
    tokenizer = load_tokenizer(card)
    if tokenizer is None:
        return ()
    found = _common(card, tokenizer, "")
    if len(found) < _TOKENS_LEAST:
        found = max((_common(card, tokenizer, name) for name, _ in card.prompts), key=len, default=[])
    most = min(OPENING_TOKENS_MAX, card.max_input_tokens // 2)
    return tuple(found[:most]) if len(found) >= _TOKENS_LEAST else ()


def reads_last_row(card: ModelCard, checkpoint: Checkpoint) -> bool:
    """Whether an answer is of an input's last token alone, which sees all before it."""
    config = checkpoint.encoder_config()
    if not isinstance(config, LlamaEncoderConfig) or not config.causal:
        return False
    return bool(card.label_ids) or (card.task == "embed" and checkpoint.pipeline.pooling == "lasttoken")


def _common(card: ModelCard, tokenizer: Tokenizer, prompt: str) -> list[int]:
    """The ids that the texts, or the pairs, behind a prompt begin with, whichever have more."""
    singles: list[_Input] = list(_TEXTS)
    pairs: list[_Input] = list(zip(_TEXTS, reversed(_TEXTS), strict=True))
    template = next((each for each in card.templates if each.name == prompt), None)
    takes = (template.text, template.pair) if template else (True, card.traits.takes_pairs)
    kinds = [items for items, taken in zip((singles, pairs), takes, strict=True) if taken]
    return max((_beginning(card, tokenizer, prompt, items) for items in kinds), key=len)


def _beginning(card: ModelCard, tokenizer: Tokenizer, prompt: str, items: Sequence[_Input]) -> list[int]:
    encoded = tokenizer.encode_items([card.worded(item, prompt) for item in items], card.max_input_tokens, "longest")
    columns = zip(*(each.ids for each in encoded), strict=False)
    return [ids[0] for ids in itertools.takewhile(lambda ids: len(set(ids)) == 1, columns)]
