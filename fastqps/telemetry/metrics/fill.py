"""The fill ratio of batches over the last seconds, which a counter alone cannot show."""

from __future__ import annotations

from collections import deque

from fastqps.telemetry.metrics.source import Source

WINDOW_S = 10


class FillWindow:
    """How full the batches of the last WINDOW_S seconds were, by model. Sampled once a second."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._samples: deque[list[tuple[int, int]]] = deque([self._totals()], maxlen=WINDOW_S + 1)

    def sample(self) -> None:
        """Once a second."""
        self._samples.append(self._totals())

    def ratios(self) -> list[float | None]:
        """The tokens in batches divided by the room for them. None: no batch in the window."""
        first, last = self._samples[0], self._totals()
        changes = [(now[0] - then[0], now[1] - then[1]) for then, now in zip(first, last, strict=True)]
        return [tokens / room if room else None for tokens, room in changes]

    def _totals(self) -> list[tuple[int, int]]:
        source = self._source
        totals = [(0, 0)] * len(source.models)
        doors = source.segment.sizes.doors
        for d in range(source.segment.sizes.dispatchers):
            stats, model = source.segment.stats(doors + d), source.model_of(d)
            tokens, room = totals[model]
            totals[model] = (tokens + stats.counters["step_tokens"], room + stats.counters["step_capacity_tokens"])
        return totals
