"""A model's vocabulary as the automata read it, and the structures that are compiled for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from fastqps.errors import ModelError
from fastqps.models.card import ModelCard
from fastqps.models.tokenizers.files import tokenizer_source
from fastqps.models.tokenizers.vocabulary import content_of
from fastqps.structure.structure import Structure

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLParserLimits

Compiled: TypeAlias = "LLMatcher"
"""A structure at the beginning of a text. Callers copy it (``deep_copy``), and all copies share what they learn."""

COMPILED_MAX = 32  # structures that are kept
# The work and the memory of one structure: its compilation, and the states that its texts visit, 1 to 2 KB each.
_INITIAL_FUEL = 1_000_000
_STEP_FUEL = 200_000
_STATES_MAX = 20_000
_REASON_MAX = 300  # characters of a refusal


class Vocabulary:
    """Compiles structures for the tokens of a model, and keeps the newest. Not thread-safe.

    ``masked``: the device takes masks. ``ModelError`` where it does not, or where the model's tokenizer or end-of-text
    tokens do not allow it.
    """

    def __init__(self, card: ModelCard, masked: bool = True) -> None:
        from llguidance import LLTokenizer

        if not masked:
            raise ModelError(
                f"the model '{card.name}' runs on a device where texts cannot have a structure; use the CPU"
            )
        if not card.tokenizer or not card.eos_ids:
            lacks = "an end-of-text token" if card.tokenizer else "a tokenizer.json"
            raise ModelError(f"the model '{card.name}' has not {lacks}, which a structure needs")
        source = content_of(tokenizer_source(card.tokenizer, card.tokenizer_parts))
        with _errors_of(card), _panics():
            self._tokens = LLTokenizer(source, n_vocab=card.vocab_size, eos_token=list(card.eos_ids))
        self._compiled: OrderedDict[Structure, LLMatcher] = OrderedDict()

    def compile(self, structure: Structure) -> Compiled:
        """``ValueError`` says what is wrong with the structure, or that it is too large."""
        if (known := self._compiled.get(structure)) is not None:
            self._compiled.move_to_end(structure)
            return known
        matcher = self._compile(structure)
        self._compiled[structure] = matcher
        if len(self._compiled) > COMPILED_MAX:
            self._compiled.popitem(last=False)
        return matcher

    def _compile(self, structure: Structure) -> LLMatcher:
        from llguidance import LLMatcher

        with _panics():
            matcher = LLMatcher(self._tokens, structure.grammar(), log_level=0, limits=_limits())
            if not matcher.is_error():
                matcher.compute_bitmask()  # a grammar without a first token shows here
        if matcher.is_error():
            raise ValueError(_reason(matcher.get_error()))
        return matcher.deep_copy()


@contextmanager
def _panics() -> Iterator[None]:
    """Turns a failed assertion of llguidance, whose class has no name in Python, into a ``ValueError``."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise ValueError(str(error)) from None
        raise


@contextmanager
def _errors_of(card: ModelCard) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ModelError(f"the tokenizer of the model '{card.name}' cannot be used for structures: {error}") from None


def _limits() -> LLParserLimits:
    from llguidance import LLParserLimits

    return LLParserLimits(
        initial_lexer_fuel=_INITIAL_FUEL,
        step_lexer_fuel=_STEP_FUEL,
        max_lexer_states=_STATES_MAX,
        verbose_errors=False,
    )


def _reason(error: str) -> str:
    """The first lines of an error, without the automaton's own state."""
    if error.startswith("NoExtensionBias"):
        return "no text can satisfy it"
    return " ".join(error.split("<state>")[0].split())[:_REASON_MAX]
