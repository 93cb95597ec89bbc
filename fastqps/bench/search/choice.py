"""The outcome of one race of the tuner: its choice, the reason, the gain beyond the noise, and open questions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fastqps.bench.statistics.race import Gain, Race, Standing
from fastqps.bench.verdict import MATTERS

DOUBT_MAX = MATTERS["rate"]  # what noise leaves to a value that was not chosen; more, and the best one is not known


@dataclass(frozen=True)
class Lead:
    """The lead of the chosen value over ``over``, the next best one of the same race."""

    over: Any
    gain: Gain

    @property
    def beyond_noise(self) -> float:
        """The part of the lead that is no noise, as a share of the other's rate; 0: they cannot be told apart."""
        return math.expm1(max(0.0, self.gain.lower))


@dataclass(frozen=True)
class Choice:
    """``chosen`` is ``before`` where nothing held the limits. ``gain_min``: what a more complicated value must add."""

    knob: str
    values: tuple[Any, ...]  # those that raced, simplest first; race.standings goes with them
    before: Any
    chosen: Any
    race: Race
    gain_min: float = 0.0

    @property
    def reason(self) -> str:
        """A line for people: the chosen value, how far the others are from it, and why it was chosen."""
        parts = []
        for value, standing in zip(self.values, self.race.standings, strict=True):
            if value == self.chosen or not standing.rates:
                continue
            if not any(standing.rates):
                parts.append(f"{value}: {'not within the limits' if 0.0 in standing.rates else 'not known'}")
            elif (gain := standing.gain) is not None:
                noise = "" if abs(gain.mean) > gain.half else ", within the noise"
                parts.append(f"{value}: {gain}{noise}")
        return f"{self.knob} {self.chosen}" + (f" ({'; '.join(parts)})" if parts else "") + f": {self.why}"

    @property
    def why(self) -> str:
        """Why the chosen value won, in words."""
        if self.race.winner is None:
            return "kept, because no value held the limits"
        lead = self.lead
        if lead is None:
            return "the only one with a rate"
        if lead.beyond_noise > 0:
            beyond = f"{100 * lead.beyond_noise:.1f} % of that beyond the noise"
            return f"it is faster than {lead.over} by {lead.gain}, {beyond}"
        bound = f"{lead.over} may be faster by {100 * math.expm1(-lead.gain.lower):.1f} % at most"
        if self._at(self.chosen) < self._at(lead.over):
            return f"it is the simplest that the noise does not tell from the best; {bound}"
        return f"the noise does not tell it from {lead.over}; {bound}"

    @property
    def lead(self) -> Lead | None:
        """The lead over the best of the others; None where none of them had a rate."""
        known = [(s.gain, v) for v, s in self._others() if s.gain is not None]
        if not known or self.race.winner is None:
            return None
        gain, over = max(known, key=lambda one: one[0].mean)
        return Lead(over, -gain)

    @property
    def over_before(self) -> Gain | None:
        """The gain of the chosen value over the one that held before; None where that had no rate."""
        gain = self.race.standings[self._at(self.before)].gain
        return None if gain is None else -gain

    def open(self) -> list[tuple[Any, Gain | None]]:
        """Values that may be clearly better than the chosen one: the noise leaves them more than ``DOUBT_MAX``, or
        (None) no run of theirs says anything."""
        return [(value, standing.gain) for value, standing in self._others() if self._is_open(standing)]

    def as_json(self) -> dict[str, Any]:
        """The row of report.json: every value that raced, its runs (None: not known), how far it was from the
        chosen one (log ratio), and why the chosen one won."""
        rows = []
        for value, standing in zip(self.values, self.race.standings, strict=True):
            gain = standing.gain
            interval = None if gain is None else [gain.lower, gain.upper]
            rows.append(
                {"value": value, "rates": list(standing.rates), "log_gain": gain and gain.mean, "interval": interval}
            )
        row = {"setting": self.knob, "chosen": self.chosen, "before": self.before, "values": rows, "why": self.why}
        if (lead := self.lead) is not None:
            row["lead"] = {"over": lead.over, "gain": str(lead.gain), "beyond_noise": lead.beyond_noise}
        return row

    def _is_open(self, standing: Standing) -> bool:
        if 0.0 in standing.rates:
            return False  # it did not hold the limits
        gain = standing.gain
        return gain is None or gain.upper > math.log1p(max(DOUBT_MAX, self.gain_min))

    def _others(self) -> list[tuple[Any, Standing]]:
        pairs = zip(self.values, self.race.standings, strict=True)
        return [(value, standing) for value, standing in pairs if value != self.chosen]

    def _at(self, value: Any) -> int:
        return self.values.index(value)
