"""A model's vocabulary as the automata read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from fastqps.errors import ModelError
from fastqps.models.card import ModelCard
from fastqps.models.tokenizers.files import tokenizer_source
from fastqps.models.tokenizers.vocabulary import content_of
from fastqps.structure.schema_place import place_of
from fastqps.structure.structure import Structure

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLParserLimits

Compiled: TypeAlias = "LLMatcher"
"""A structure at the beginning of a text. Callers copy it (``deep_copy``). All copies share what they learn, and the
limit of states: once it is reached, each copy fails that visits a new one or begins."""

# The work and the memory of one structure: its compilation, and the states that all of its texts visit, 1 to 2 KB each.
_INITIAL_FUEL = 1_000_000
_STEP_FUEL = 200_000
_STATES_MAX = 20_000
_TRIED_TOKENS = 8  # of a text: what exceeds the limits there is refused at once
_REASON_MAX = 300  # characters of a refusal


class Vocabulary:
    """Compiles structures for the tokens of a model. Not thread-safe.

    ``masked``: the device takes masks. ``ModelError`` where it does not, or where the model's tokenizer or end-of-text
    tokens do not allow it.
    """

    def __init__(self, card: ModelCard, masked: bool = True) -> None:
        from llguidance import LLTokenizer

        if not masked:
            raise ModelError(
                f"the model '{card.name}' runs on a device that computes no texts, so none can have a structure; "
                "use a CPU or a GPU"
            )
        if not card.tokenizer or not card.eos_ids:
            lacks = "eos_token_id in its generation_config.json" if card.tokenizer else "tokenizer.json"
            raise ModelError(f"the model '{card.name}' has no {lacks}, which a structure needs")
        source = content_of(tokenizer_source(card.tokenizer, card.tokenizer_parts))
        with _errors_of(card), _panics():
            self._tokens = LLTokenizer(source, n_vocab=card.vocab_size, eos_token=list(card.eos_ids))
        self._ends = sum(1 << end for end in card.eos_ids)

    def compile(self, structure: Structure) -> Compiled:
        """``ValueError`` says what is wrong with the structure, or that it is too large."""
        with _panics():
            matcher = self._matcher(structure)
            tried = matcher.deep_copy()
            self._walk(tried)
            if not tried.is_error():
                return matcher
            why = reason(tried)
            place = place_of(structure.text, why, self._refusal) if structure.kind == "json_schema" else ""
        raise ValueError(_hint(structure) + why + (f", at {place}" if place else ""))

    def _matcher(self, structure: Structure) -> LLMatcher:
        from llguidance import LLMatcher

        return LLMatcher(self._tokens, structure.grammar(), log_level=0, limits=_limits())

    def _refusal(self, schema: str) -> str:
        matcher = self._matcher(Structure("json_schema", schema))
        return reason(matcher) if matcher.is_error() else ""

    def _walk(self, matcher: LLMatcher) -> None:
        """The first tokens of a text. A grammar without a first token shows here, and one that needs too much work."""
        for _ in range(_TRIED_TOKENS):
            allowed = int.from_bytes(matcher.compute_bitmask(), "little") & ~self._ends
            if not allowed or matcher.is_error():
                return
            matcher.consume_token((allowed & -allowed).bit_length() - 1)


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


def _hint(structure: Structure) -> str:
    if structure.kind == "grammar" and "::=" in structure.text:
        return "the grammar must have Lark's form, and looks like GBNF: "
    return ""


def reason(failed: Compiled) -> str:
    """Why an automaton has failed: the first lines of its error, without its own state."""
    error = failed.get_error()
    if error.startswith("NoExtensionBias"):
        return "no text can satisfy it"
    return " ".join(error.split("<state>")[0].removesuffix("<non-verbose/>").split())[:_REASON_MAX]
