"""The tuner's search: one knob after the other, all its values raced against each other, until nothing changes.

All values of a knob are tried, not only the next one: more dispatchers can be better, then worse, then better again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastqps.bench.search.choice import Choice
from fastqps.bench.statistics.race import Gain, Noise, Rules, race

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
class Open:
    """A value that may be clearly better than the one that was chosen, and the setting that it was tried in. ``gain``:
    its own over the chosen one's; None: no run of it says anything."""

    knob: str
    value: Any
    setting: Setting
    gain: Gain | None


@dataclass(frozen=True)
class SearchOutcome:
    """``setting`` is None where nothing that was tried held the limits. ``complete``: False if the search was ended
    before nothing changed any more. ``over_start``: the gain of all choices together; None: it is not known, or they
    changed nothing.
    """

    setting: Setting | None
    choices: tuple[Choice, ...]
    probes: int
    noise: float  # standard deviation of one probe, as a fraction
    complete: bool
    open: tuple[Open, ...] = ()
    over_start: Gain | None = None

    def as_json(self) -> dict[str, Any]:
        """The JSON value for report.json."""
        return {
            "probes": self.probes,
            "noise": self.noise,
            "complete": self.complete,
            "choices": [choice.as_json() for choice in self.choices],
            "open": [{"setting": one.knob, "value": one.value, "gain": str(one.gain or "")} for one in self.open],
            "over_start": None if self.over_start is None else str(self.over_start),
            "setting": self.setting,
        }


class Search:
    """Coordinate descent by races. ``probe`` measures one setting: the rate, 0 where it does not hold the SLO, None
    where the run says nothing of it.

    ``allowed`` says which settings make sense at all. ``on_choice`` hears of every decision as it is made.
    """

    def __init__(
        self,
        knobs: Sequence[Knob],
        probe: Callable[[Setting], float | None],
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
        self._ahead = [len(knob.values) for knob in self._knobs]  # values of the knobs still to be raced in a pass
        self._racing = 0  # runs that the present race may still take

    @property
    def left(self) -> int:
        """The most probes that this pass can still take."""
        return min(self._probes_max - self.probes, self._racing + sum(self._ahead) * self._rules.rounds_max)

    def run(self) -> SearchOutcome:
        """Searches from the simplest value of each knob to a setting that no single knob improves.

        A knob is raced again only if another one has changed since, and then only over its neighbours and its simplest
        value: it may be needed no longer.
        """
        here: Setting = {knob.name: knob.values[0] for knob in self._knobs}
        choices: list[Choice] = []
        raced_at: dict[str, Setting] = {}  # the other knobs' values when this one was raced last
        tried_at: dict[tuple[str, Any], Open | None] = {}  # by the latest race of each value, whether it is open
        complete, possible = True, False
        for number in range(self._passes_max):
            before = dict(here)
            for at, knob in enumerate(self._knobs, 1):
                self._ahead = [len(later.values) for later in self._knobs[at:]] if number == 0 else []
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
                complete &= choice.race.finished
                possible |= choice.race.winner is not None
                here[knob.name] = choice.chosen
                tried_at |= {(knob.name, value): None for value in values} | _open(choice, here)
                self._on_choice(choice)
            if here == before:
                break
        else:
            complete = False  # it still changed
        open_values = [one for one in tried_at.values() if one is not None and here[one.knob] != one.value]
        return SearchOutcome(
            here if possible else None,
            tuple(choices),
            self.probes,
            self._noise.deviation,
            complete,
            tuple(open_values),
            _over_start(choices),
        )

    def _race(self, knob: Knob, values: tuple[Any, ...], here: Setting) -> Choice:
        def run(candidate: int) -> float | None:
            self.probes, self._racing = self.probes + 1, self._racing - 1
            return self._probe(here | {knob.name: values[candidate]})

        before = here[knob.name]
        self._racing = len(values) * self._rules.rounds_max
        raced = race(run, len(values), self._rules, self._noise, self._probes_max - self.probes)
        self._racing = 0
        chosen = before if raced.winner is None else values[raced.winner]
        return Choice(knob.name, values, before, chosen, raced, self._rules.gain_min)

    def _values(self, knob: Knob, here: Setting, everything: bool) -> tuple[Any, ...]:
        values = knob.values
        if not everything:
            at = values.index(here[knob.name])
            values = tuple(v for i, v in enumerate(values) if i == 0 or abs(i - at) <= 1)
        return tuple(v for v in values if v == here[knob.name] or self._allowed(here | {knob.name: v}))


def _open(choice: Choice, here: Setting) -> dict[tuple[str, Any], Open | None]:
    return {
        (choice.knob, value): Open(choice.knob, value, here | {choice.knob: value}, gain)
        for value, gain in choice.open()
    }


def _over_start(choices: Sequence[Choice]) -> Gain | None:
    """The gain of all choices together; None where they changed nothing, or the start had no rate.
    Their errors are independent."""
    gains = [choice.over_before for choice in choices if choice.chosen != choice.before]
    known = [gain for gain in gains if gain is not None]
    if not known or len(known) < len(gains):
        return None
    return Gain(sum(gain.mean for gain in known), math.hypot(*(gain.half for gain in known)))
