"""The tuner's search: one knob after the other, all its values raced against each other, until nothing changes.

All values of a knob are tried, not only the next one: more dispatchers can be better, then worse, then better again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastqps.bench.race import Noise, Race, Rules, race

Setting = dict[str, Any]


@dataclass(frozen=True)
class Knob:
    """One setting and the values to try, the simplest first: it stays unless another one is worth it."""

    name: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) != len(self.values):
            raise ValueError(f"{self.name}: no values, or one of them twice: {self.values}")


@dataclass(frozen=True)
class Choice:
    """What one race decided."""

    knob: str
    values: tuple[Any, ...]  # those that raced, simplest first; race.standings goes with them
    before: Any
    chosen: Any
    race: Race

    @property
    def reason(self) -> str:
        """For people: the chosen value, and how far the others are from it."""
        parts = []
        for value, standing in zip(self.values, self.race.standings, strict=True):
            if value == self.chosen or not standing.rates:
                continue
            if not any(standing.rates):
                parts.append(f"{value}: not within the limits")
            elif (gain := standing.gain) is not None:
                noise = "" if abs(gain.mean) > gain.half else ", within the noise"
                parts.append(f"{value}: {gain}{noise}")
        return f"{self.knob} {self.chosen}" + (f" ({'; '.join(parts)})" if parts else "")


@dataclass(frozen=True)
class Found:
    """``setting`` is None where nothing that was tried held the limits. ``complete``: False if probes ran out."""

    setting: Setting | None
    choices: tuple[Choice, ...]
    probes: int
    noise: float  # standard deviation of one probe, as a fraction
    complete: bool


class Search:
    """Coordinate descent by races. ``probe`` measures one setting: the rate, or 0 where it does not hold the SLO.

    ``allowed`` says which settings make sense at all. ``on_choice`` hears of every decision as it is made.
    """

    def __init__(
        self,
        knobs: Sequence[Knob],
        probe: Callable[[Setting], float],
        *,
        rules: Rules | None = None,
        probes_max: int = 150,
        passes_max: int = 3,
        allowed: Callable[[Setting], bool] = lambda setting: True,
        on_choice: Callable[[Choice], None] = lambda choice: None,
    ) -> None:
        self._knobs = tuple(knobs)
        self._probe = probe
        self._rules = rules or Rules()
        self._probes_max = probes_max
        self._passes_max = passes_max
        self._allowed = allowed
        self._on_choice = on_choice
        self._noise = Noise()
        self.probes = 0

    def run(self, start: Mapping[str, Any] | None = None) -> Found:
        """From ``start`` (default: the simplest value of each knob) to a setting that no single knob improves.

        A knob is raced again only if another one has changed since, and then only over its neighbours and its simplest
        value: it may be needed no longer.
        """
        here: Setting = {knob.name: knob.values[0] for knob in self._knobs} | dict(start or {})
        choices: list[Choice] = []
        raced_at: dict[str, Setting] = {}  # the other knobs' values when this one was raced last
        complete, possible = True, False
        for number in range(self._passes_max):
            before = dict(here)
            for knob in self._knobs:
                others = {name: value for name, value in here.items() if name != knob.name}
                values = self._values(knob, here, everything=number == 0)
                if raced_at.get(knob.name) == others or (len(values) < 2 and choices):
                    continue
                if self.probes + len(values) > self._probes_max:
                    complete = False
                    continue
                choice = self._race(knob, values, here)
                raced_at[knob.name] = others
                choices.append(choice)
                possible |= choice.race.winner is not None
                here[knob.name] = choice.chosen
                self._on_choice(choice)
            if here == before:
                break
        return Found(here if possible else None, tuple(choices), self.probes, self._noise.deviation, complete)

    def _race(self, knob: Knob, values: tuple[Any, ...], here: Setting) -> Choice:
        def run(candidate: int) -> float:
            self.probes += 1
            return self._probe(here | {knob.name: values[candidate]})

        before = here[knob.name]
        found = race(run, len(values), self._rules, self._noise, self._probes_max - self.probes)
        chosen = before if found.winner is None else values[found.winner]
        return Choice(knob.name, values, before, chosen, found)

    def _values(self, knob: Knob, here: Setting, everything: bool) -> tuple[Any, ...]:
        values = knob.values if here[knob.name] in knob.values else (here[knob.name], *knob.values)
        if not everything:
            at = values.index(here[knob.name])
            values = tuple(v for i, v in enumerate(values) if i == 0 or abs(i - at) <= 1)
        return tuple(v for v in values if v == here[knob.name] or self._allowed(here | {knob.name: v}))
