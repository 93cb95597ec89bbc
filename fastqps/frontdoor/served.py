"""What a front door's rare calls may know: the models that it serves, their state and their counters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastqps import _front
from fastqps._core import GENERATIONS, ProcessStats, RouteView, Segment, Sizes
from fastqps.models.card import ModelCard


@dataclass(frozen=True)
class ServedModel:
    """The serving generation of a model.

    ``ready``: it has a dispatcher that takes requests, and the server is neither starting nor draining.
    """

    index: int
    card: ModelCard
    native: bool  # its tokenizer runs in native code
    ready: bool
    repeatable: bool = False  # its answers do not depend on what else the server computes


class ServedModels:
    """The models of a server, as one of its front doors sees them. Any thread may call."""

    def __init__(
        self, segment: Segment, loaded: Callable[[int], tuple[ModelCard, bool]], door: _front.Door, repeatable: str
    ) -> None:
        """``loaded`` returns the card of a route, and whether its tokenizer is native. ``repeatable``: "all" models
        are, "static" ones, or "none"."""
        self._segment = segment
        self._loaded = loaded
        self._door = door
        self.items_max = door.max_request_items  # inputs of a call
        self._repeatable = repeatable

    @property
    def serving(self) -> bool:
        """Whether the server has started and does not drain."""
        return self._segment.phase == "serving"

    def all(self) -> list[ServedModel]:
        """All models in the order of the command line. The first one is the default."""
        return [self._model(index) for index in range(self._segment.sizes.models)]

    def find(self, name: str) -> ServedModel | None:
        """The model that a request means by this name."""
        number = self._door.number_of(name)
        return self._model(number) if number >= 0 else None

    def names(self) -> list[str]:
        """All names of all models, their own first."""
        return [model.card.name for model in self.all()] + [name for name, _ in self._door.aliases]

    @property
    def sizes(self) -> Sizes:
        """The numbers of slots, processes and models."""
        return self._segment.sizes

    def limits(self, model: ServedModel) -> RouteView:
        """The limits of the generation that serves."""
        return self._segment.route(self._route(model.index))

    def door_stats(self) -> list[ProcessStats]:
        """The counters of all front doors."""
        return [self._segment.stats(i) for i in range(self._segment.sizes.doors)]

    def dispatcher_stats(self, model: ServedModel) -> list[ProcessStats]:
        """The counters of the dispatchers that serve this model."""
        sizes, route = self._segment.sizes, self._route(model.index)
        mask = self._segment.route(route).dispatchers
        return [self._segment.stats(sizes.doors + i) for i in range(sizes.dispatchers) if mask >> i & 1]

    def _route(self, index: int) -> int:
        return index * GENERATIONS + self._segment.model(index).serving

    def _model(self, index: int) -> ServedModel:
        route = self._route(index)
        card, native = self._loaded(route)
        ready = self.serving and bool(self._segment.route(route).dispatchers)
        return ServedModel(index, card, native, ready, self._repeatable in ("all", "static" if card.static else "all"))
