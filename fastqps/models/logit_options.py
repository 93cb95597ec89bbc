"""Options of a generator's checkpoint that change logits before a token is chosen from them. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class LogitOptions:
    """As transformers' ``GenerationConfig`` has them; every default changes nothing. Token ids are the vocabulary's."""

    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    min_length: int = 0  # tokens of prefix, prompt and answer before which no text ends
    min_new_tokens: int = 0  # the same of the answer
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    forced_eos_token_id: tuple[int, ...] = ()  # at the limit of an answer

    @property
    def used(self) -> tuple[str, ...]:
        """The names of those that change something."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) != field.default)
