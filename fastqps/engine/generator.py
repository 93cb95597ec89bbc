"""Generation in this process: continuous batching without a server, for the Engine and for tests."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Unpack

from fastqps._core import DecodeBatch, Detokenizer, StopStrings
from fastqps.api.chat import Chat
from fastqps.api.prediction import Chunk, Generation, PromptLogprobs, Usage
from fastqps.api.request import GenerateOptions
from fastqps.api.structures import structure_of
from fastqps.devices import make_runner
from fastqps.engine.choices import Choices
from fastqps.engine.sampling import BestOf, check_options
from fastqps.errors import ModelError
from fastqps.models.card import ModelCard
from fastqps.models.card_tokenizer import check_text, load_tokenizer
from fastqps.models.chat.conversation import ROLES, Message, Mode
from fastqps.models.chat.tokens import ChatTokens
from fastqps.runners import DecodeBuffers, Runner
from fastqps.runners.lane import make_lane
from fastqps.structure.kept import Kept
from fastqps.structure.masks import Failed, Masks
from fastqps.structure.structure import Structure
from fastqps.structure.vocabulary import Compiled, Vocabulary

Prompt = str | Sequence[int] | Chat
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


def _wants_logprobs(options: GenerateOptions) -> bool:
    return bool(options.get("logprobs") or options.get("top_logprobs"))


class _Request(NamedTuple):
    """One that waits for room. ``compiled``: its structure."""

    ids: list[int]
    options: dict[str, Any]
    compiled: Compiled | None


class _Prompt(NamedTuple):
    """Token ids, and whether some had to be cut off."""

    ids: Sequence[int]
    cut: bool

    def usage(self, made: Generation) -> Usage:
        return Usage(len(self.ids), len(made.token_ids), self.cut, len(self.ids) if self.cut else 0)


class _Answer:
    """A request's ``Generation`` in the making: its tokens, and the text that is certain to be in it.

    The tokens of its prompt come first where ``options`` ask for them.
    """

    def __init__(
        self, detokenizer: Detokenizer | None, stop: Sequence[str], options: GenerateOptions, ids: Sequence[int]
    ) -> None:
        self.made = Generation("", [], "length", [], top_logprobs=[])
        scored, keeps_stop = options.get("prompt_logprobs"), bool(options.get("include_stop_text"))
        if scored is not None:
            self.made.prompt_logprobs = PromptLogprobs(list(ids), [], [] if scored else None)
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

    def news(self, prompt: _Prompt, last: bool, options: GenerateOptions) -> Chunk:
        """The text and tokens since the last call; in the first one what was asked of the prompt."""
        made, (characters, tokens) = self.made, self._given
        assert made.logprobs is not None and made.top_logprobs is not None
        self._given = len(made.text), len(made.token_ids)
        chunk = Chunk(made.text[characters:], made.token_ids[tokens:])
        if not tokens:
            chunk.prompt_logprobs = made.prompt_logprobs
        if _wants_logprobs(options):
            chunk.logprobs = made.logprobs[tokens:]
        if options.get("top_logprobs"):
            chunk.top_logprobs = made.top_logprobs[tokens:]
        if last:
            chunk.finish_reason, chunk.usage = made.finish_reason, prompt.usage(made)
        return chunk

    def _give_out(self, piece: str) -> bool:
        text, stopped = self._stops.feed(piece)
        self.made.text += text
        return stopped


def _possible(likeliest: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    return [likely for likely in likeliest if likely[1] > -math.inf]


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


def _mean_logprob(made: Generation) -> float:
    return math.fsum(made.logprobs) / len(made.logprobs) if made.logprobs else -math.inf


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
        self._tokenizer = load_tokenizer(card)
        self._around = self._tokenizer.around() if self._tokenizer else (0, 0)
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
        self.card = card
        self._lane = make_lane(runner, steps_in_flight)
        self._batch = DecodeBatch(runner.buffers().max_runs, len(card.prefix_ids))
        self._free = deque(self._add_step(each) for each in self._lane.runners)
        self._in_flight: deque[int] = deque()
        self._waiting: dict[int, _Request] = {}
        self._vocabulary: Vocabulary | None = None  # made, as the masks, for the first request with a structure
        self._compiled = Kept[Compiled]()
        self._masks: Masks | None = None
        self._joining: dict[int, Compiled] = {}  # of those without a row in any step
        self._failures: dict[int, str] = {}
        self._running: set[int] = set()
        self._requests = 0
        self._kept: list[Token] = []  # made while a caller waited for others
        self._detokenizer = self._tokenizer.detokenizer if self._tokenizer else None

    def add(self, ids: Sequence[int], **options: Unpack[GenerateOptions]) -> int:
        """Adds a request, which joins as soon as there is room. Returns its number. Raises ``ValueError`` if it is
        invalid."""
        self._check("the prompt", ids)
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
        stops, best_of = self._stops(options), BestOf.of(options)
        asked = self._stopping(options, stops)
        check_options(asked, self.card)  # also where there are no prompts
        encoded = [self._encode(f"prompt {number}", prompt, truncate, options) for number, prompt in enumerate(prompts)]
        if options.get("choices") is not None:
            chosen = [self._choose(encoded, _candidate(options, place)) for place in range(best_of.candidates)]
            return self._joined(encoded, [list(each) for each in zip(*chosen, strict=True)], best_of, options)
        each = [_candidate(asked, place, best_of.candidates > best_of.n) for place in range(best_of.candidates)]
        begun = [[_Answer(self._detokenizer, stops, own, prompt.ids) for own in each] for prompt in encoded]
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
        stops, best_of = self._stops(options), BestOf.of(options)
        if best_of.candidates > best_of.n:
            raise ValueError(f"best_of {best_of.candidates} is out of range: n, {best_of.n}, of a stream")
        if options.get("choices") is not None:
            (made,) = self.generate([prompt], truncate=truncate, **options)
            for place, each in enumerate([made, *made.other_choices]):
                yield Chunk(
                    each.text,
                    each.token_ids,
                    each.logprobs,
                    each.finish_reason,
                    each.usage,
                    choice_scores=each.choice_scores,
                    choice=place,
                )
            return
        asked = self._stopping(options, stops)
        check_options(asked, self.card)
        encoded = self._encode("the prompt", prompt, truncate, options)
        candidates = [_candidate(asked, place) for place in range(best_of.n)]
        places = {self.add(encoded.ids, **own): place for place, own in enumerate(candidates)}
        answers = {
            request: _Answer(self._detokenizer, stops, candidates[place], encoded.ids)
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
        prompts: Sequence[_Prompt],
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
                candidates = sorted(candidates, key=_mean_logprob, reverse=True)[: best_of.n]
            for each in candidates:
                each.usage = each.prompt_logprobs = None
                each.logprobs = each.logprobs if _wants_logprobs(options) else None
                each.top_logprobs = each.top_logprobs if options.get("top_logprobs") else None
            first, *others = candidates
            first.prompt_logprobs = scored
            first.usage, first.other_choices = usage, others
            answers.append(first)
        return answers

    def _choose(self, prompts: Sequence[_Prompt], options: GenerateOptions) -> list[Generation]:
        """For each prompt one of the options' texts."""
        if structure_of(options):
            raise ValueError("choices: are given beside a structure; a text can have one of them")
        if options.get("prompt_logprobs") is not None:
            raise ValueError("prompt_logprobs: is given beside choices; ask for them in another request")
        choices = Choices.of(options["choices"], self._tokenizer, self.card)
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

    def _stops(self, options: GenerateOptions) -> Sequence[str]:
        stop = options.get("stop") or ()
        stops = [stop] if isinstance(stop, str) else stop
        if stops and not self._detokenizer:
            raise ValueError(f"{self.card.path} has no tokenizer.json: stop texts mean nothing without it")
        return stops

    def _stopping(self, options: GenerateOptions, stops: Sequence[str]) -> GenerateOptions:
        """A stop text that is a special token ends an answer by its id: such tokens have no text."""
        special_ids = [self._detokenizer.special_id(stop) for stop in stops] if self._detokenizer else []
        ids = [id for id in special_ids if id is not None]
        stops_at = list(dict.fromkeys((*(options.get("stop_token_ids") or ()), *ids)))
        return {**options, "stop_token_ids": stops_at} if ids else options

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

    def _check(self, which: str, ids: Sequence[int]) -> None:
        limit, vocab = self.card.max_input_tokens, self.card.vocab_size
        if not 1 <= len(ids) <= limit:
            raise ValueError(f"{which} has {len(ids)} tokens; the model takes 1 to {limit}")
        if min(ids) < 0 or max(ids) >= vocab:
            wrong = min(ids) if min(ids) < 0 else max(ids)
            raise ValueError(f"{which}: token id {wrong}, must be at least 0 and below {vocab}")

    @cached_property
    def _chat_tokens(self) -> ChatTokens | None:
        return ChatTokens(self.card.chat, self._tokenizer) if self._tokenizer and self.card.chat else None

    def _chat_ids(self, which: str, chat: Chat) -> Sequence[int]:
        """All ids. A conversation that begins with the model's prefix has it once."""
        if self._chat_tokens is None:
            raise ValueError(f"{which}: {self.card.path} has no chat template: give a text or token ids")
        messages = [Message({"developer": "system"}.get(role, role), content) for role, content in chat.pairs()]
        if not messages or not all(message.role in ROLES for message in messages):
            raise ValueError(f"{which}: messages of the roles system, developer, user and assistant, one at least")
        mode: Mode = "continue" if chat.continue_final_message else "generate"
        ids = self._chat_tokens.encode(messages, mode, chat.variables).ids
        prefix = list(self.card.prefix_ids)
        return ids[len(prefix) :] if len(ids) > len(prefix) and ids[: len(prefix)] == prefix else ids

    def _encode(self, which: str, prompt: Prompt, truncate: bool, options: GenerateOptions) -> _Prompt:
        limit = self.card.max_input_tokens
        if isinstance(prompt, Chat):
            prompt = self._chat_ids(which, prompt)
        if not isinstance(prompt, str):
            if isinstance(prompt, Mapping) or any(isinstance(part, Mapping) for part in prompt):
                raise ValueError(f"{which}: expected a text, token ids or a Chat of messages, not messages")
            if any(isinstance(part, str) for part in prompt):
                raise ValueError(f"{which}: expected one text or token ids, not several texts")
            ids = self.card.cut(prompt, limit) if truncate else prompt
            self._check(which, ids)
            return _Prompt(ids, len(ids) < len(prompt))
        if self._tokenizer is None:
            raise ValueError(f"{self.card.path} has no tokenizer.json: only token ids can be given")
        check_text(which, prompt)
        encoded = self._tokenizer.encode_items([prompt])[0]
        if encoded.truncated and not truncate:
            raise ValueError(f"{which} has {encoded.n_total} tokens; the model takes {limit} (truncate=True cuts it)")
        ids = self._with_specials(encoded.ids, options.get("add_special_tokens") is not False)
        self._check(which, ids)
        return _Prompt(ids, encoded.truncated)

    def _with_specials(self, ids: list[int], special: bool) -> list[int]:
        """Leaves out those around a text if not ``special``, and those in front of one that begins with them itself."""
        leading, trailing = self._around
        if not special:
            return ids[leading : len(ids) - trailing]
        return ids[leading:] if leading and ids[:leading] == ids[leading : 2 * leading] else ids
