"""Loads each generation of a model into a front door: before it serves, and for a reload while it serves."""

from __future__ import annotations

import os
import threading

from fastqps import _front
from fastqps._core import GENERATIONS, Segment
from fastqps.errors import ModelError
from fastqps.frontdoor.slow_tokenizers import SlowTokenizers
from fastqps.models.card import ModelCard
from fastqps.models.card_tokenizer import load_tokenizer
from fastqps.models.tokenizers.vocabulary import content_of
from fastqps.terminal import Level, say

_NICE = 10
_NONE = -1


class DoorRoutes:
    """The models of a front door, by route. One thread at a time may load; any thread may list the models."""

    def __init__(self, door: _front.Door, segment: Segment, index: int, slow: SlowTokenizers) -> None:
        self._door = door
        self._segment = segment
        self._index = index
        self._slow = slow
        self._found: dict[int, _Loaded] = {}  # by route
        self._freed = False

    def load_served(self) -> None:
        """Loads all serving generations. Raises ``ModelError`` if one of them cannot be used."""
        for model in range(self._segment.sizes.models):
            found = self._segment.model(model)
            self._load(model * GENERATIONS + found.serving)
        _front.trim_memory()

    def load_next(self) -> None:
        """Loads generations that warm up for a reload, and drops those that are gone. One that cannot be used is
        refused, and the serving generation stays."""
        for model in range(self._segment.sizes.models):
            found = self._segment.model(model)
            route = model * GENERATIONS + (found.serving + 1) % GENERATIONS
            state = self._segment.route(route)
            if state.state == "empty" and self._has_any(route):
                self._drop(route)
            if not found.ready or state.state != "warming" or self._has(route, state.generation):
                continue
            try:
                self._load(route)
            except Exception as error:  # a file may raise anything in its parser
                said = str(error) if isinstance(error, ModelError) else f"{type(error).__name__}: {error}"
                say(f"model {found.name} is not reloaded: {said}", Level.WARNING)
                self._segment.refuse_route(self._index, route, state.generation)

    def load_in_peace(self) -> None:
        """Runs ``load_next`` on its own thread at a low priority, so that the loop keeps its CPU."""

        def work() -> None:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
            self.load_next()

        thread = threading.Thread(target=work, name="routes", daemon=True)
        thread.start()
        thread.join()
        if self._freed:  # not on that thread: a holder of the allocator's locks should not have a low priority
            _front.trim_memory()
            self._freed = False

    def loaded(self, route: int) -> tuple[ModelCard, bool]:
        """The card of a route that serves, and whether its tokenizer is native."""
        found = self._found[route]
        return found.card, found.native

    def _has_any(self, route: int) -> bool:
        return route in self._found and self._found[route].generation != _NONE

    def _has(self, route: int, generation: int) -> bool:
        return route in self._found and self._found[route].generation == generation

    def _drop(self, route: int) -> None:
        """Drops a generation that no request uses any more. Its card stays, because ListModels may be reading it."""
        self._found[route].generation = _NONE
        self._slow.drop(route)
        self._door.drop_route(route)
        self._freed = True

    def _load(self, route: int) -> None:
        generation = self._segment.route(route).generation
        text = self._segment.card(route)
        card = ModelCard.from_json(text)
        tokenizer = load_tokenizer(card)
        native = tokenizer is not None and tokenizer.native
        if tokenizer and not native:
            say(f"model {card.name}: tokenizing through the tokenizers package: {tokenizer.why_not_native}")
        if tokenizer and (card.chat or not native):
            try:
                self._slow.add(route, text, chats_alone=native)
            except ValueError as error:
                raise ModelError(str(error)) from None
        try:
            self._door.set_route(
                route,
                generation,
                text,
                tokenizer=content_of(tokenizer.source) if tokenizer and native else "",
                special_tokens=card.special_tokens,
                external=tokenizer is not None and not native,
                detokenizer=content_of(tokenizer.source) if tokenizer and card.generates else "",
                specials=tokenizer.around() if tokenizer and card.generates else (0, 0),
            )
        except ValueError as error:
            raise ModelError(f"model {card.name}: its tokenizer.json cannot be used: {error}") from None
        self._found[route] = _Loaded(generation, card, native)


class _Loaded:
    def __init__(self, generation: int, card: ModelCard, native: bool) -> None:
        self.generation, self.card, self.native = generation, card, native
