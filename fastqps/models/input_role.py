"""A role that an input can have in a model with a vector for each token. No torch here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InputRole:
    """A query, a document, or any other input, whose ``name`` is "". A request names the role by its prompt's name."""

    name: str
    max_tokens: int
    expanded_to: int = 0  # tokens of a shorter input, which ``expansion_id`` fills up; 0: none are added
    expansion_id: int = 0
    skipped: tuple[int, ...] = ()  # ids of tokens that get no vector, ascending
    refusal: str = ""  # why such an input is refused; "": it is not
