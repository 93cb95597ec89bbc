"""The tokenizer of a model, checked against the model's card before the first text."""

from __future__ import annotations

from fastqps.errors import ModelError
from fastqps.models.card import ModelCard
from fastqps.models.tokenizers.files import tokenizer_source
from fastqps.models.tokenizers.tokenizer import Tokenizer


def load_tokenizer(card: ModelCard) -> Tokenizer | None:
    """The tokenizer that cuts texts at the card's input limit; None where the checkpoint has none.

    Raises ``ModelError`` where the file cannot be used, or where the limit is below ``least_input_tokens``.
    """
    if not card.tokenizer:
        return None
    try:
        tokenizer = Tokenizer.from_source(
            tokenizer_source(card.tokenizer, card.tokenizer_parts),
            max_tokens=card.max_input_tokens,
            special_tokens=card.special_tokens,
            unknown_id=card.unknown_id if card.traits.spans else None,
        )
        if not tokenizer.native:
            tokenizer.encode("a")  # a server must not start that then refuses every text
        least = least_input_tokens(card, tokenizer)
    except Exception as error:  # the tokenizers package raises nothing narrower
        raise ModelError(f"model {card.name}: its tokenizer.json cannot be used: {error}") from None
    if card.max_input_tokens < least:
        raise ModelError(
            f"model {card.name}: its input limit is {card.max_input_tokens} tokens, and its tokenizer needs at least "
            f"{least}: its special tokens and one token of each text; raise --max-input-tokens (max_input_tokens of "
            "Engine), or the model's own limit if that is smaller"
        )
    return tokenizer


def check_text(which: str, item: object) -> None:
    """Raises ``ValueError`` for a text, or one of a pair, that UTF-8 cannot hold."""
    try:
        for part in item if isinstance(item, tuple) else (item,):
            if isinstance(part, str):
                part.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{which}: {error}") from None


def least_input_tokens(card: ModelCard, tokenizer: Tokenizer) -> int:
    """The smallest input limit: room for the special tokens and for one token of each text.

    With less, every text would be cut to the same tokens. Embedders and classifiers take pairs of texts, too.
    """
    single = tokenizer.n_special(pair=False) + 1
    return single if not card.traits.takes_pairs else max(single, tokenizer.n_special(pair=True) + 2)
