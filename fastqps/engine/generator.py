"""Generation in this process: continuous batching without a server, for the Engine and for tests."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, Unpack

from fastqps._core import DecodeBatch
from fastqps.api.prediction import Chunk, Generation
from fastqps.api.request import GenerateOptions
from fastqps.api.structures import structure_of
from fastqps.devices import make_runner
from fastqps.engine.choices import Choices
from fastqps.engine.prompts import EncodedPrompt, Prompt, Prompts
from fastqps.engine.sampling import BestOf, check_options
from fastqps.engine.text_answer import FAILED, TextAnswer, Token, mean_logprob, wants_logprobs
from fastqps.errors import ModelError
from fastqps.models.card import ModelCard
from fastqps.runners import DecodeBuffers, Runner
from fastqps.runners.lane import make_lane
from fastqps.structure.cache import StructureCache
from fastqps.structure.masks import Failed, Masks
from fastqps.structure.structure import Structure
from fastqps.structure.vocabulary import Compiled, Vocabulary


class _Request(NamedTuple):
    """One that waits for room. ``compiled``: its structure."""

    ids: list[int]
    options: dict[str, Any]
    compiled: Compiled | None


def _candidate(options: GenerateOptions, place: int, ranked: bool = False) -> GenerateOptions:
    """The options of a prompt's candidate: each has a seed of its own, and the first one has the prompt."""
    found = options.copy()
    if ranked:
        found["logprobs"] = True
    if (seed := options.get("seed")) is not None:
        found["seed"] = (seed + place) % (1 << 64)
    if place:
        found.pop("prompt_logprobs", None)
    return found


class Generator:
    """Requests join at any step and leave at their own last token. Not thread-safe.

    ``max_running`` sequences run at a time; others wait. With ``steps_in_flight`` 2 the next step is prepared and
    enqueued while one runs, and with 1 each is waited for: the same steps, later.
    """

    def __init__(
        self,
        card: ModelCard,
        *,
        device: str = "cpu",
        dtype: str = "auto",
        quantization: str = "none",
        kernels: str = "auto",
        threads: int = 0,
        max_running: int = 64,
        max_step_tokens: int = 0,
        steps_in_flight: int = 2,
        runner: Runner[DecodeBuffers] | None = None,
    ) -> None:
        tokens = max_step_tokens or max_running + max(card.max_input_tokens, 512)
        runner = runner or make_runner(
            device,
            card,
            max_running,
            tokens,
            dtype=dtype,
            quantization=quantization,
            kernels=kernels,
            threads=threads,
        )
        self.card, self.prompts = card, Prompts(card)
        self._lane = make_lane(runner, steps_in_flight)
        self._batch = DecodeBatch(runner.buffers().max_runs, len(card.prefix_ids))
        self._free = deque(self._add_step(each) for each in self._lane.runners)
        self._in_flight: deque[int] = deque()
        self._waiting: dict[int, _Request] = {}
        self._vocabulary: Vocabulary | None = None  # made, as the masks, for the first request with a structure
        self._compiled = StructureCache[Compiled]()
        self._masks: Masks | None = None
        self._joining: dict[int, Compiled] = {}  # of those without a row in any step
        self._failures: dict[int, str] = {}
        self._running: set[int] = set()
        self._requests = 0
        self._kept: list[Token] = []  # made while a caller waited for others

    def add(self, ids: Sequence[int], **options: Unpack[GenerateOptions]) -> int:
        """Adds a request, which joins as soon as there is room. Returns its number. Raises ``ValueError`` if it is
        invalid."""
        self.prompts.check("the prompt", ids)
        asked = check_options(options, self.card)
        structure = structure_of(options)
        compiled = self._compile(Structure(*structure)) if structure else None
        self._requests += 1
        self._waiting[self._requests] = _Request(list(ids), asked, compiled)
        return self._requests

    def drop(self, request: int) -> None:
        """Ends a request now; no more of its tokens come. Nothing happens if it has ended."""
        self._waiting.pop(request, None)
        self._kept = [token for token in self._kept if token.request != request]
        self._joining.pop(request, None)
        self._failures.pop(request, None)
        if request in self._running:
            self._running.remove(request)
            self._batch.drop(request)

    def failure(self, request: int) -> str:
        """Why a request has ended with ``FAILED``, until it is dropped."""
        return self._failures[request]

    @property
    def busy(self) -> bool:
        """Whether ``step`` has anything to do."""
        return bool(self._waiting or self._in_flight or self._running or self._kept)

    def step(self) -> list[Token]:
        """Prepares and launches one step; gives the tokens of the oldest one in flight when no further may start."""
        kept, self._kept = self._kept, []
        return kept + self._step()

    def _step(self) -> list[Token]:
        launched = bool(self._free) and self._launch(self._free[0])
        if launched:
            self._in_flight.append(self._free.popleft())
        if not self._in_flight or (launched and self._free):
            return []
        oldest = self._in_flight[0]  # an interrupted wait leaves it there: the device still has its buffers
        failed = self._wait_for(oldest)
        self._free.append(self._in_flight.popleft())
        tokens = self._end_failed(failed) + [Token(*token) for token in self._batch.retire(oldest)]
        self._running.difference_update(token.request for token in tokens if token.finish)
        return tokens

    def generate(
        self, prompts: Sequence[Prompt], *, truncate: bool = False, **options: Unpack[GenerateOptions]
    ) -> list[Generation]:
        """One answer for each prompt, a text or token ids, in order.

        ``truncate`` cuts a prompt that is too long. ``ValueError`` names a prompt or an option that is out of range.
        """
        if isinstance(prompts, str):
            raise ValueError("generate takes a list of prompts, not one text")
        stops, best_of = self.prompts.stops(options), BestOf.of(options)
        asked = self.prompts.stopping(options, stops)
        check_options(asked, self.card)  # also where there are no prompts
        encoded = [
            self.prompts.encode(f"prompt {number}", prompt, truncate, options) for number, prompt in enumerate(prompts)
        ]
        if options.get("choices") is not None:
            return self._joined(encoded, [[each] for each in self._choose(encoded, options)], best_of, options)
        each = [_candidate(asked, place, best_of.candidates > best_of.n) for place in range(best_of.candidates)]
        begun = [[TextAnswer(self.prompts.detokenizer, stops, own, prompt.ids) for own in each] for prompt in encoded]
        answers = {
            self.add(prompt.ids, **own): answer
            for prompt, candidates in zip(encoded, begun, strict=True)
            for own, answer in zip(each, candidates, strict=True)
        }
        left = set(answers)
        try:
            while left:
                for token in self._tokens_of(left):
                    if answers[token.request].add(token):
                        self.drop(token.request)
                        left.remove(token.request)
                    elif token.finish:
                        left.remove(token.request)
        finally:
            for request in answers:
                self.drop(request)
        made = [[answer.made for answer in candidates] for candidates in begun]
        return self._joined(encoded, made, best_of, options)

    def generate_stream(
        self, prompt: Prompt, *, truncate: bool = False, **options: Unpack[GenerateOptions]
    ) -> Iterator[Chunk]:
        """The answer to one prompt as it is made: a chunk for each token, the last one with ``finish_reason`` and
        ``usage``. The options are those of ``generate``; they are checked, and it begins, with the first chunk that is
        asked for. Closing the iterator ends it.
        """
        stops, best_of = self.prompts.stops(options), BestOf.of(options)
        if best_of.candidates > best_of.n:
            raise ValueError(f"best_of {best_of.candidates} is out of range: n, {best_of.n}, of a stream")
        if options.get("choices") is not None:
            (made,) = self.generate([prompt], truncate=truncate, **options)
            yield Chunk(
                made.text,
                made.token_ids,
                made.logprobs,
                made.finish_reason,
                made.usage,
                choice_scores=made.choice_scores,
            )
            return
        asked = self.prompts.stopping(options, stops)
        check_options(asked, self.card)
        encoded = self.prompts.encode("the prompt", prompt, truncate, options)
        candidates = [_candidate(asked, place) for place in range(best_of.n)]
        places = {self.add(encoded.ids, **own): place for place, own in enumerate(candidates)}
        answers = {
            request: TextAnswer(self.prompts.detokenizer, stops, candidates[place], encoded.ids)
            for request, place in places.items()
        }
        left = set(answers)
        try:
            while left:
                for token in self._tokens_of(left):
                    if token.request not in left:
                        continue
                    answer = answers[token.request]
                    last = answer.add(token) or bool(token.finish)
                    if not last and not answer.made.token_ids:  # of the prompt
                        continue
                    if last:
                        self.drop(token.request)
                        left.remove(token.request)
                    chunk = answer.news(encoded, last, options)
                    chunk.choice = places[token.request]
                    yield chunk
        finally:
            for request in answers:
                self.drop(request)

    def _joined(
        self,
        prompts: Sequence[EncodedPrompt],
        made: Sequence[Sequence[Generation]],
        best_of: BestOf,
        options: GenerateOptions,
    ) -> list[Generation]:
        """The answers to each prompt as one: of equally likely candidates the first."""
        answers = []
        for prompt, candidates in zip(prompts, made, strict=True):
            usage = prompt.usage(candidates[0])
            usage.output_tokens = sum(len(each.token_ids) for each in candidates)
            scored = candidates[0].prompt_logprobs
            if best_of.candidates > best_of.n:
                candidates = sorted(candidates, key=mean_logprob, reverse=True)[: best_of.n]
            for each in candidates:
                each.usage = each.prompt_logprobs = None
                # Of no tokens there are none, as in a message of the server's.
                each.logprobs = (each.logprobs or None) if wants_logprobs(options) else None
                each.top_logprobs = (each.top_logprobs or None) if options.get("top_logprobs") else None
            first, *others = candidates
            first.prompt_logprobs = scored
            first.usage, first.other_choices = usage, others
            answers.append(first)
        return answers

    def _choose(self, prompts: Sequence[EncodedPrompt], options: GenerateOptions) -> list[Generation]:
        """For each prompt one of the options' texts."""
        if structure_of(options):
            raise ValueError("choices: are given beside a structure; a text can have one of them")
        if options.get("prompt_logprobs") is not None:
            raise ValueError("prompt_logprobs: is given beside choices; ask for them in another request")
        choices = Choices.of(options["choices"], self.prompts.tokenizer, self.card)
        asked = [check_options(options, self.card) | choices.options() for _ in prompts]
        found: dict[int, list[Token]] = {}
        for prompt, each in zip(prompts, asked, strict=True):
            self._requests += 1
            self._waiting[self._requests] = _Request(list(prompt.ids), each, None)
            found[self._requests] = []
        try:
            while left := [request for request, tokens in found.items() if len(tokens) < choices.tree.rows]:
                for token in self._tokens_of(left):
                    found[token.request].append(token)
        finally:
            for request in found:
                self.drop(request)
        answers = []
        for each, tokens in zip(asked, found.values(), strict=True):
            firsts, all_of_them = [token.logprob for token in tokens], [token.likeliest for token in tokens]
            logprobs = [[logprob for _, logprob in row] for row in all_of_them]
            made = choices.answer(firsts, logprobs, each.get("temperature", 0.0), each["seed"])
            answers.append(made)
        return answers

    def _tokens_of(self, requests: Collection[int]) -> list[Token]:
        """The tokens of these requests so far, or of the next step. Other requests' tokens are kept."""
        tokens = self._kept if any(token.request in requests for token in self._kept) else self.step()
        self._kept = [token for token in tokens if token.request not in requests]
        taken = [token for token in tokens if token.request in requests]
        if any(math.isnan(token.logprob) for token in taken):
            raise ModelError(f"model {self.card.name}: logits are NaN or infinite, so no token can be chosen")
        for token in taken:
            if token.finish == FAILED:
                raise ValueError(self.failure(token.request))
        return taken

    def close(self) -> None:
        """Gives the device back."""
        while self._in_flight:
            self._wait_for(self._in_flight.popleft())
        if self._masks:
            self._masks.close()
        self._lane.close()

    def _add_step(self, runner: Runner[DecodeBuffers]) -> int:
        b = runner.buffers()
        return int(self._batch.add(**b.blocks()))

    def _launch(self, step: int) -> bool:
        if not self._waiting and not self._running:
            return False
        self._batch.begin(step)
        while self._waiting:
            number, request = next(iter(self._waiting.items()))
            options = {"masked": True, **request.options} if request.compiled else request.options
            if not self._batch.admit(step, request.ids, user=number, **options):
                break
            if request.compiled:
                self._joining[number] = request.compiled
            del self._waiting[number]
            self._running.add(number)
        n_runs, n_tokens, n_admitted = self._batch.seal(step)
        if self._masks and (rows := self._batch.masked(step)):
            for _, number in rows:
                if compiled := self._joining.pop(number, None):
                    self._masks.begin(number, compiled)
            self._masks.launch(self._lane.runners[step].buffers(), rows, bool(self._in_flight))
        if n_runs:
            self._lane.launch(step, n_runs, n_tokens, n_admitted)
        return bool(n_runs)

    def _wait_for(self, step: int) -> list[Failed]:
        self._lane.wait(step)
        return self._masks.retire(self._lane.runners[step].buffers()) if self._masks else []

    def _end_failed(self, failed: Sequence[Failed]) -> list[Token]:
        """Ends the texts whose automata have failed. The next one of such a structure begins with a fresh one."""
        spent = [each.compiled for each in failed]
        self._compiled.drop_where(lambda compiled: any(compiled is each for each in spent))
        ended = []
        for request, _, reason in failed:
            if request in self._running:
                self._running.remove(request)
                self._batch.drop(request)
                self._failures[request] = f"the structure: the text cannot go on: {reason}"
                ended.append(Token(request, 0, 0.0, FAILED))
        return ended

    def _compile(self, structure: Structure) -> Compiled:
        self._vocabulary = self._vocabulary or Vocabulary(self.card, self._lane.runners[0].buffers().takes_masks)
        self._masks = self._masks or Masks()
        if (compiled := self._compiled.get(structure)) is None:
            compiled = self._vocabulary.compile(structure)
            self._compiled.put(structure, compiled)
        return compiled
