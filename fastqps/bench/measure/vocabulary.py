"""The words of a checkpoint's tokenizer, to make texts of."""

from __future__ import annotations

from pathlib import Path

from fastqps.models import ModelError
from fastqps.models.files.json_files import read_object

WORDS_MIN = 500  # of a vocabulary that texts are made of
WORDS_MAX = 20_000  # the commonest of a vocabulary


def vocabulary_of(checkpoint: Path) -> list[str]:
    """Whole lower-case words of a checkpoint's tokenizer, in the vocabulary's order, which is by frequency.

    Empty where it has no tokenizer.json or no such words: byte-level vocabularies spell them differently.
    """
    try:
        model = read_object(checkpoint / "tokenizer.json")["model"]
        vocabulary: dict[str, int] = model["vocab"]
        ordered = sorted(vocabulary.items(), key=lambda item: item[1])
    except (ModelError, OSError, KeyError, TypeError, AttributeError):
        return []
    words = [word for word, _ in ordered if word.isascii() and word.isalpha() and len(word) > 1 and word.islower()]
    return words[:WORDS_MAX] if len(words) > WORDS_MIN else []
