"""The settings with the highest rate within the SLO, found by measuring, and written as a file that a server takes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fastqps.bench.flags import Common
from fastqps.bench.measure.closed_loop import saturating
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.results.point import FAILED, INVALID, Point, median_point
from fastqps.bench.results.result import BenchError, Outcome, Result, ServerGone
from fastqps.bench.search.bracket import TRIES, highest_within
from fastqps.bench.search.choice import DOUBT_MAX, Choice
from fastqps.bench.search.knobs import knobs_of, parse_try
from fastqps.bench.search.search import Search, SearchOutcome, Setting
from fastqps.bench.statistics.race import Rules
from fastqps.bench.verdict import conclude, decides_nothing
from fastqps.config import decide
from fastqps.config.document import settings_file
from fastqps.dispatcher import stored_steps
from fastqps.errors import ConfigError
from fastqps.models.names import resolve
from fastqps.supervisor.plan import named_models
from loadgen.atomic_file import replace_file

FILE = "fastqps.toml"
PROBES_MAX = 150


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds flags for the settings to vary, and for the least gain that counts."""
    parser.add_argument(
        "--try",
        dest="tries",
        action="append",
        default=[],
        metavar="KEY=V1,V2,…",
        help="values to try of a setting, the simplest first; one value holds it; without: dispatchers, lanes, "
        "max-batch-items, max-batch-tokens, max-batch-delay, on cpu and cuda quantization",
    )
    parser.add_argument(
        "--gain", type=float, default=0.02, metavar="SHARE", help="a gain below this is none (default: 0.02)"
    )
    parser.add_argument("--probes", type=int, default=PROBES_MAX, metavar="N", help="most measurements")
    parser.add_argument(
        "-c",
        "--in-flight",
        type=int,
        metavar="N",
        help="calls in flight without --slo (default: enough for full batches)",
    )
    parser.set_defaults(duration="2s", warmup="500ms")


def check(options: argparse.Namespace, common: Common) -> None:
    """Checks the values to try, and the least gain that counts."""
    if options.address:
        raise ConfigError("tune varies settings, so it starts a server itself; leave out --address")
    for text in options.tries:
        parse_try(text)
    _rules(options)
    if options.probes < 1:
        raise ConfigError(f"--probes {options.probes}: at least 1")
    if options.in_flight is not None:
        common.load.closed(options.in_flight)


def run(context: Context) -> Result:
    """Races settings; the points are the settings, each with the median of its runs. Writes ``fastqps.toml``."""
    tuner = _Tuner(context)
    tuner.forget_step_sizes()
    outcome = tuner.search.run()
    context.result.points += tuner.points()
    context.aside.clear()  # they are in these points
    return tuner.conclude(outcome)


class _Tuner:
    def __init__(self, context: Context) -> None:
        options = context.options
        self._context = context
        self._knobs = knobs_of(context)
        self._runs: dict[tuple[Any, ...], list[Point]] = {}
        self._undecided: dict[tuple[Any, ...], str] = {}  # why a run of the setting said nothing
        self._hint: float | None = None
        start = {knob.name: knob.values[0] for knob in self._knobs}
        widest = {knob.name: max(knob.values, key=_number) for knob in self._knobs}
        self._load: LoadSpec = saturating(context, options.in_flight, widest, start)
        self.search = Search(
            self._knobs,
            self._probe,
            rules=_rules(options),
            probes_max=options.probes,
            allowed=lambda setting: not context.target.refusal(setting),
            on_choice=self._tell,
        )

    def forget_step_sizes(self) -> None:
        """Has the first server that measures a step size do so anew, on the machine as it is now."""
        key = "max-batch-items"
        base = self._context.target.base.get(key)
        if "auto" not in next((knob.values for knob in self._knobs if knob.name == key), (base,)):
            return
        for _, model in named_models(decide(self._context.target.loaded({}).config)):
            root = resolve(model)[1]
            try:
                stored_steps.forget(root)
            except OSError as error:
                raise ConfigError(f"the stored choice of {root} cannot be measured anew: {error}") from None

    def points(self) -> list[Point]:
        """One for each setting that was measured."""
        return [median_point(runs) for runs in self._runs.values() if runs]

    def conclude(self, outcome: SearchOutcome) -> Result:
        """Reports the best settings with reasons, and writes the file."""
        result = self._context.result
        result.extra["tune"] = outcome.as_json()
        if outcome.setting is None:
            conclude(result, (), self._find_nothing(outcome))
            return result
        result.best = list(self._runs).index(self._key(outcome.setting))
        doubts = self._doubts(outcome)
        conclude(result, [result.points[result.best]], "INCONCLUSIVE" if doubts else "VALID")
        for doubt in doubts:
            self._context.note(doubt)
        if outcome.over_start is not None:
            self._context.note(f"all choices together: {outcome.over_start} over the start")
        path = self._write(outcome.setting, doubts)
        result.extra["tune"]["file"] = path.name
        which = "the best setting" if result.verdict == "VALID" else "the best setting so far"
        result.notes.append(f"fastqps serve --config {path} runs {which}")
        return result

    def _doubts(self, outcome: SearchOutcome) -> list[str]:
        """Why nobody can say that the setting is the best; none: it is."""
        doubts = []
        if not outcome.complete:
            doubts.append(f"the search ended after {outcome.probes} measurements, before it was done: raise --probes")
        names = [
            f"{one.knob} {one.value} ({one.gain} over the chosen one)" for one in outcome.open if one.gain is not None
        ]
        if names:
            doubts.append(
                f"the noise hides whether this is faster by more than {DOUBT_MAX:.0%}: {', '.join(names)}; one "
                f"measurement errs by {outcome.noise:.1%}: measure longer (--duration), or on a quieter machine"
            )
        undecided = [one for one in outcome.open if self._key(one.setting) in self._undecided]
        doubts += [f"{one.knob} {one.value}: {self._undecided[self._key(one.setting)]}" for one in undecided]
        late = [runs[0].name for runs in self._runs.values() if any(run.verdict == INVALID for run in runs)]
        gone = [run for runs in self._runs.values() for run in runs if run.verdict == FAILED]
        doubts += [f"{run.name}: {run.reasons[0]}" for run in gone]
        if late:
            doubts.append(f"the generator was the limit at {'; '.join(late)}: the server may be faster there")
        return doubts

    def _find_nothing(self, outcome: SearchOutcome) -> Outcome:
        result, context = self._context.result, self._context
        ran = [point for point in result.points if point.measured]
        if any(point.verdict == INVALID for point in ran):
            context.note("the generator was the limit: nothing is known of the server with any setting")
            return "INVALID"
        if self._undecided or not outcome.complete:
            why = (
                f"runs decide nothing ({next(iter(self._undecided.values()))})"
                if self._undecided
                else "--probes ran out before all were tried"
            )
            context.note(f"no setting is known to {'keep the SLO' if context.slo else 'answer'}: {why}")
            return "INCONCLUSIVE"
        if context.slo and ran:
            context.note("no setting that was tried keeps the SLO")
            return "SLO_NOT_MET"
        context.note("nothing answered" if ran else "no server with one of these settings ran")
        return "FAILED"

    def _write(self, setting: Setting, doubts: list[str]) -> Path:
        path = self._context.folder / FILE
        result = self._context.result
        commit = f", commit {result.commit}" if result.commit else ""
        lines = [f"Found by `fastqps bench tune` on {result.started}{commit}"]
        lines += [f"{result.verdict}: {doubt}" for doubt in doubts]
        try:
            return replace_file(path, settings_file(self._context.target.loaded(setting), lines))
        except OSError as error:
            raise BenchError(f"cannot write {path}: {error.strerror}") from None

    def _probe(self, setting: Setting) -> float | None:
        """The rate of one run; None where it says nothing of the setting, or where its server did not start."""
        key, name, rate = self._key(setting), self._name(setting), None
        per_probe = 1 if self._context.slo is None else TRIES
        self._context.progress.expect(per_probe * (self.search.left + 1))
        try:
            if self._context.slo is None:
                point = self._context.measure(setting, self._load, name=name, keep=False)
                rate = None if decides_nothing(point) else point.rate
            else:
                point, rate = highest_within(self._context, setting, self._load, self._context.slo, name, self._hint)
                self._hint = rate or self._hint
            if rate is None:
                self._undecided[key] = "; ".join(point.reasons[-1:]) or decides_nothing(point)
        except ServerGone as error:
            point = self._context.aside[-1]
            self._undecided[key] = str(error)
        except BenchError as error:
            load = self._load.describe(self._context.payloads.call)
            point = Point(name, dict(setting), load, reasons=[str(error)], missing=str(error))
            self._context.aside.append(point)
            if not any(run.missing for run in self._runs.get(key, ())):
                self._context.note(f"{name} did not run: {error}")
        self._runs.setdefault(key, []).append(point)
        return rate

    def _tell(self, choice: Choice) -> None:
        self._context.note(choice.reason)
        if left := self.search.left:
            self._context.progress.say(f"at most {left} measurements of settings are left in this pass")

    def _name(self, setting: Setting) -> str:
        """The settings that differ from those at the start."""
        changed = [f"{knob.name} {setting[knob.name]}" for knob in self._knobs if setting[knob.name] != knob.values[0]]
        return ", ".join(changed) or "start"

    def _key(self, setting: Setting) -> tuple[Any, ...]:
        return tuple(setting[knob.name] for knob in self._knobs)


def _rules(options: argparse.Namespace) -> Rules:
    try:
        return Rules(gain_min=options.gain)
    except ValueError:
        raise ConfigError(f"--gain {options.gain:g}: a share from 0 to less than 1") from None


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int) else 0.0
