"""A generated text in the making: its tokens, what of its text is certain, and what a request wants to know of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fastqps._core import Detokenizer, StopStrings
from fastqps.api.prediction import Chunk, Generation, PromptLogprobs
from fastqps.api.request import GenerateOptions
from fastqps.engine.prompts import EncodedPrompt

STOP, LENGTH, FAILED = 1, 2, 3  # how a token ends its request; 0: it does not


class Token(NamedTuple):
    """One token of a request. ``finish`` is 0 while more will follow, ``STOP`` or ``LENGTH``.

    ``FAILED``: it is none, and no further ones can be chosen: ``Generator.failure`` says why.
    """

    request: int
    id: int
    logprob: float
    finish: int
    likeliest: Sequence[tuple[int, float]] = ()


def wants_logprobs(options: GenerateOptions) -> bool:
    return bool(options.get("logprobs") or options.get("top_logprobs"))


class TextAnswer:
    """A request's ``Generation`` in the making: its tokens, and the text that is certain to be in it.

    The tokens of its prompt come first where ``options`` ask for them.
    """

    def __init__(
        self, detokenizer: Detokenizer | None, stop: Sequence[str], options: GenerateOptions, ids: Sequence[int]
    ) -> None:
        self.made = Generation("", [], "length", [], top_logprobs=[])
        scored, keeps_stop = options.get("prompt_logprobs"), bool(options.get("include_stop_text"))
        if scored is not None:
            self.made.prompt_logprobs = PromptLogprobs(list(ids), [], [] if scored and len(ids) > 1 else None)
        self._scored, self._top = scored or 0, options.get("top_logprobs") or 0
        self._to_come = len(ids) - 1 if scored is not None else 0  # tokens of the prompt
        self._alone = options.get("max_tokens") == 0
        self._text = detokenizer.stream() if detokenizer else None
        self._stops = StopStrings(stop, keeps_stop)
        self._keeps_stop = keeps_stop
        # of those that are special tokens, which have no text of their own
        self._spelled = {detokenizer.special_id(each): each for each in stop} if detokenizer else {}
        self._given = (0, 0)  # characters and tokens that ``news`` has given

    def add(self, token: Token) -> bool:
        """Whether a stop text is complete now: the answer ends before it."""
        made = self.made
        if self._to_come:
            self._add_prompt(token)
            return False
        if self._alone:
            return False
        assert made.logprobs is not None and made.top_logprobs is not None
        made.token_ids.append(token.id)
        made.logprobs.append(token.logprob)
        made.top_logprobs.append(_possible(token.likeliest[: self._top]))
        stopped = False
        if self._text and (token.finish != STOP or self._keeps_stop):
            stopped = self._give_out(self._text.append([token.id]))
            if token.finish == STOP and not stopped and token.id in self._spelled:
                stopped = self._give_out(self._text.finish() + self._spelled[token.id])
        if self._text and token.finish and not stopped:
            stopped = self._give_out(self._text.finish())
            made.text += self._stops.finish()
        if stopped or token.finish == STOP:
            made.finish_reason = "stop"
        return stopped

    def _add_prompt(self, token: Token) -> None:
        assert self.made.prompt_logprobs is not None
        self._to_come -= 1
        self.made.prompt_logprobs.logprobs.append(token.logprob)
        if self.made.prompt_logprobs.top_logprobs is not None:
            self.made.prompt_logprobs.top_logprobs.append(_possible(token.likeliest[: self._scored]))

    def news(self, prompt: EncodedPrompt, last: bool, options: GenerateOptions) -> Chunk:
        """The text and tokens since the last call; in the first one what was asked of the prompt."""
        made, (characters, tokens) = self.made, self._given
        assert made.logprobs is not None and made.top_logprobs is not None
        self._given = len(made.text), len(made.token_ids)
        chunk = Chunk(made.text[characters:], made.token_ids[tokens:])
        if not tokens:
            chunk.prompt_logprobs = made.prompt_logprobs
        if wants_logprobs(options):
            chunk.logprobs = made.logprobs[tokens:] or None
        if options.get("top_logprobs"):
            chunk.top_logprobs = made.top_logprobs[tokens:] or None
        if last:
            chunk.finish_reason, chunk.usage = made.finish_reason, prompt.usage(made)
        return chunk

    def _give_out(self, piece: str) -> bool:
        text, stopped = self._stops.feed(piece)
        self.made.text += text
        return stopped


def _possible(likeliest: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    return [likely for likely in likeliest if likely[1] > -math.inf]


def mean_logprob(made: Generation) -> float:
    return math.fsum(made.logprobs) / len(made.logprobs) if made.logprobs else -math.inf
