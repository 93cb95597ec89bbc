"""Prompts of one model as token ids: texts, ids and conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from fastqps.api.chat import Chat
from fastqps.api.prediction import Generation, Usage
from fastqps.api.request import GenerateOptions
from fastqps.models.card import ModelCard
from fastqps.models.card_tokenizer import check_text, load_tokenizer
from fastqps.models.chat.conversation import ROLES, Message, Mode
from fastqps.models.chat.tokens import ChatTokens

Prompt = str | Sequence[int] | Chat


class EncodedPrompt(NamedTuple):
    """Token ids, and whether some had to be cut off."""

    ids: Sequence[int]
    cut: bool

    def usage(self, made: Generation) -> Usage:
        return Usage(len(self.ids), len(made.token_ids), self.cut, len(self.ids) if self.cut else 0)


class Prompts:
    """Each method raises ``ValueError`` for what the model cannot take; ``which`` names the prompt there."""

    def __init__(self, card: ModelCard) -> None:
        self.card, self.tokenizer = card, load_tokenizer(card)
        self.detokenizer = self.tokenizer.detokenizer if self.tokenizer else None
        self._around = self.tokenizer.around() if self.tokenizer else (0, 0)

    def encode(self, which: str, prompt: Prompt, truncate: bool, options: GenerateOptions) -> EncodedPrompt:
        """``truncate`` cuts a prompt that is too long."""
        limit = self.card.max_input_tokens
        if isinstance(prompt, Chat):
            prompt = self._chat_ids(which, prompt)
        if not isinstance(prompt, str):
            if isinstance(prompt, Mapping) or any(isinstance(part, Mapping) for part in prompt):
                raise ValueError(f"{which}: expected a text, token ids or a Chat of messages, not messages")
            if any(isinstance(part, str) for part in prompt):
                raise ValueError(f"{which}: expected one text or token ids, not several texts")
            ids = self.card.cut(prompt, limit) if truncate else prompt
            self.check(which, ids)
            return EncodedPrompt(ids, len(ids) < len(prompt))
        if self.tokenizer is None:
            raise ValueError(f"{self.card.path} has no tokenizer.json: only token ids can be given")
        check_text(which, prompt)
        encoded = self.tokenizer.encode_items([prompt])[0]
        if encoded.truncated and not truncate:
            raise ValueError(f"{which} has {encoded.n_total} tokens; the model takes {limit} (truncate=True cuts it)")
        ids = self._with_specials(encoded.ids, options.get("add_special_tokens") is not False)
        self.check(which, ids)
        return EncodedPrompt(ids, encoded.truncated)

    def check(self, which: str, ids: Sequence[int]) -> None:
        limit, vocab = self.card.max_input_tokens, self.card.vocab_size
        if not 1 <= len(ids) <= limit:
            raise ValueError(f"{which} has {len(ids)} tokens; the model takes 1 to {limit}")
        if min(ids) < 0 or max(ids) >= vocab:
            wrong = min(ids) if min(ids) < 0 else max(ids)
            raise ValueError(f"{which}: token id {wrong}, must be at least 0 and below {vocab}")

    def stops(self, options: GenerateOptions) -> Sequence[str]:
        """The texts that end an answer."""
        stop = options.get("stop")
        stops = [stop] if isinstance(stop, str) else stop or ()
        if "" in stops:
            raise ValueError("stop: at most 16 strings, each of 1 to 256 bytes")
        if stops and not self.detokenizer:
            raise ValueError(f"{self.card.path} has no tokenizer.json: stop texts mean nothing without it")
        return stops

    def stopping(self, options: GenerateOptions, stops: Sequence[str]) -> GenerateOptions:
        """A stop text that is a special token ends an answer by its id: such tokens have no text."""
        special_ids = [self.detokenizer.special_id(stop) for stop in stops] if self.detokenizer else []
        ids = [id for id in special_ids if id is not None]
        stops_at = list(dict.fromkeys((*(options.get("stop_token_ids") or ()), *ids)))
        return {**options, "stop_token_ids": stops_at} if ids else options

    @cached_property
    def _chat_tokens(self) -> ChatTokens | None:
        return ChatTokens(self.card.chat, self.tokenizer) if self.tokenizer and self.card.chat else None

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

    def _with_specials(self, ids: list[int], special: bool) -> list[int]:
        """Leaves out those around a text if not ``special``, and those in front of one that begins with them itself."""
        leading, trailing = self._around
        if not special:
            return ids[leading : len(ids) - trailing]
        return ids[leading:] if leading and ids[:leading] == ids[leading : 2 * leading] else ids
