"""The settings with the highest rate within the SLO, found by measuring, and written as a file that a server takes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fastqps import machine
from fastqps.bench.context import Context
from fastqps.bench.flags import Common
from fastqps.bench.lists import parse_values
from fastqps.bench.load import LoadSpec
from fastqps.bench.point import Point, median_point
from fastqps.bench.race import Rules
from fastqps.bench.result import BenchError, Result
from fastqps.bench.saturate import saturating
from fastqps.bench.search import Choice, Found, Knob, Search, Setting
from fastqps.bench.target import check_settings
from fastqps.bench.within import highest_within
from fastqps.config import decide
from fastqps.config.document import settings_file
from fastqps.errors import ConfigError
from fastqps.models.names import resolve
from fastqps.supervisor.plan import named_models

FILE = "fastqps.toml"
DISPATCHERS_MAX = 8  # tried unless more are asked for
PROBES_MAX = 150


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to vary, and when a gain counts."""
    parser.add_argument(
        "--try",
        dest="tries",
        action="append",
        default=[],
        metavar="KEY=V1,V2,…",
        help="values to try of a setting, the simplest first; one value holds it; without: dispatchers, lanes, "
        "max-batch-items, max-batch-tokens, max-batch-delay, on CUDA quantization",
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
    """What is tried, and when it counts."""
    if options.address:
        raise ConfigError("tune varies settings, so it starts a server itself; leave out --address")
    for text in options.tries:
        _parse_try(text)
    _rules(options)
    if options.probes < 1:
        raise ConfigError(f"--probes {options.probes}: at least 1")
    if options.in_flight is not None:
        common.load.closed(options.in_flight)


def run(context: Context) -> Result:
    """Races settings; the points are the settings, each with the median of its runs. Writes ``fastqps.toml``."""
    tuner = _Tuner(context)
    tuner.forget_choices()
    try:
        found = tuner.search.run()
    finally:
        context.result.points += tuner.points()
    return tuner.conclude(found)


class _Tuner:
    def __init__(self, context: Context) -> None:
        options = context.options
        self._context = context
        self._knobs = knobs_of(context)
        self._runs: dict[tuple[Any, ...], list[Point]] = {}
        self._hint: float | None = None
        start = {knob.name: knob.values[0] for knob in self._knobs}
        widest = {knob.name: max(knob.values, key=_number) for knob in self._knobs}
        self._load: LoadSpec = saturating(context, options.in_flight, widest, start)
        self.search = Search(
            self._knobs,
            self._probe,
            rules=_rules(options),
            probes_max=options.probes,
            allowed=self._allowed,
            on_choice=self._tell,
        )

    def forget_choices(self) -> None:
        """Has the first server with ``--quantization auto`` measure anew, on the machine as it is now."""
        base = self._context.target.base.get("quantization")
        if "auto" not in next((knob.values for knob in self._knobs if knob.name == "quantization"), (base,)):
            return
        from fastqps.devices.stored_choice import forget_choices  # here: it imports torch

        config = decide(self._context.target.loaded({}).config)
        for _, model in named_models(config):
            root = resolve(model)[1]
            try:
                forget_choices(root)
            except OSError as error:
                raise ConfigError(f"the stored choice of {root} cannot be measured anew: {error}") from None

    def points(self) -> list[Point]:
        """One for each setting that was measured."""
        return [median_point(runs) for runs in self._runs.values() if runs]

    def conclude(self, found: Found) -> Result:
        """What is best, why, and the file."""
        result = self._context.result
        result.extra["tune"] = {
            "probes": found.probes,
            "noise": found.noise,
            "complete": found.complete,
            "choices": [_choice(choice) for choice in found.choices],
            "setting": found.setting,
        }
        if not found.complete:
            result.notes.append(
                f"the search ended after {found.probes} measurements, before it was done: raise --probes"
            )
        if found.setting is None:
            self._find_nothing()
            return result
        result.best = list(self._runs).index(self._key(found.setting))
        best = result.points[result.best]
        if best.verdict == "INVALID":
            result.verdict = "INVALID"
            result.notes.append("the generator was the limit at the best setting: what is better cannot be told")
        path = self._write(found.setting)
        result.extra["tune"]["file"] = path.name
        result.notes.append(f"fastqps serve --config {path} runs the best setting")
        return result

    def _find_nothing(self) -> None:
        result = self._context.result
        if any(point.verdict == "INVALID" for point in result.points):
            result.verdict = "INVALID"
            result.notes.append(
                "no setting kept the SLO, but the generator was the limit: it says nothing of the server"
            )
        elif self._context.slo:
            result.verdict = "SLO_NOT_MET"
            result.notes.append("no setting that was tried keeps the SLO")
        else:
            result.verdict = "FAILED"
            result.notes.append("nothing answered")

    def _write(self, setting: Setting) -> Path:
        path = self._context.folder / FILE
        result = self._context.result
        head = f"Found by `fastqps bench tune` on {result.started}" + (
            f", commit {result.commit}" if result.commit else ""
        )
        path.write_text(settings_file(self._context.target.loaded(setting), head))
        return path

    def _probe(self, setting: Setting) -> float:
        """The rate of one run. A server that does not start with the setting is one that does not do."""
        name = self._name(setting)
        try:
            if self._context.slo is None:
                point = self._context.measure(setting, self._load, name=name, keep=False, repetitions=1)
                rate = point.rate
            else:
                point, rate = highest_within(self._context, setting, self._load, self._context.slo, name, self._hint)
                self._hint = rate or self._hint
        except BenchError as error:
            load = self._load.describe(self._context.payloads.call)
            point, rate = Point(name, dict(setting), load, reasons=[str(error)], missing=str(error)), 0.0
        self._runs.setdefault(self._key(setting), []).append(point)
        return rate

    def _allowed(self, setting: Setting) -> bool:
        try:
            check_settings({**self._context.target.base, **setting})
            decide(self._context.target.loaded(setting).config)
        except ConfigError:
            return False
        return True

    def _tell(self, choice: Choice) -> None:
        self._context.note(choice.reason)

    def _name(self, setting: Setting) -> str:
        """What is other than at the start."""
        changed = [f"{knob.name} {setting[knob.name]}" for knob in self._knobs if setting[knob.name] != knob.values[0]]
        return ", ".join(changed) or "start"

    def _key(self, setting: Setting) -> tuple[Any, ...]:
        return tuple(setting[knob.name] for knob in self._knobs)


def _rules(options: argparse.Namespace) -> Rules:
    try:
        return Rules(gain_min=options.gain)
    except ValueError:
        raise ConfigError(f"--gain {options.gain:g}: a share from 0 to less than 1") from None


def knobs_of(context: Context) -> list[Knob]:
    """What is varied: what ``--try`` says, in its order, then the usual, but for what the user has set. The first value
    of each is what would hold without the tuner, or the simplest."""
    asked = dict(_parse_try(text) for text in context.options.tries)
    usual = {key: values for key, values in _usual(context).items() if key not in context.target.base}
    if both := next((key for key in asked if key in context.target.base), None):
        raise ConfigError(f"--try {both}: it is set to {context.target.base[both]} as well; leave one of them out")
    return [
        Knob(key, values) for key, values in {**asked, **{k: v for k, v in usual.items() if k not in asked}}.items()
    ]


def _usual(context: Context) -> dict[str, tuple[Any, ...]]:
    config = decide(context.target.loaded({}).config)
    generates = config.max_running is not None
    cores = machine.usable_cores(len(context.pinning.server or machine.allowed_cpus()))
    items, tokens = config.max_batch_items or 64, config.max_batch_tokens or 4096
    most = max(2, min(DISPATCHERS_MAX, cores))
    found: dict[str, tuple[Any, ...]] = {"dispatchers": tuple(n for n in (1, 2, 3, 4, 6, 8) if n <= most)}
    if _possible(context, {"lanes": 2}):
        found["lanes"] = (1, 2)
    if not generates:
        found["max-batch-items"] = _around(items, most=4096)
    found["max-batch-tokens"] = _around(tokens, most=1 << 20)
    found["max-batch-delay"] = ("0us", "200us", "1ms")
    if (config.device or "").startswith("cuda"):  # on a CPU it only costs
        found["quantization"] = ("none", "fp8", "auto")
    return found


def _around(value: int, most: int) -> tuple[int, ...]:
    return tuple(n for n in (value, value // 4, value * 4) if 1 <= n <= most)


def _possible(context: Context, setting: Setting) -> bool:
    try:
        check_settings({**context.target.base, **setting})
    except ConfigError:
        return False
    return True


def _parse_try(text: str) -> tuple[str, tuple[Any, ...]]:
    key, equals, values = text.partition("=")
    if not equals:
        raise ConfigError(f"--try {text!r}: write KEY=V1,V2, for example dispatchers=1,2,4")
    key = key.strip().replace("_", "-")
    found = parse_values(f"try {key}", values)
    for value in found:
        check_settings({key: value})
    return key, tuple(int(value) if value.isdecimal() else value for value in found)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int) else 0.0


def _choice(choice: Choice) -> dict[str, Any]:
    """For report.json: every value that raced, its runs, and how far it was from the chosen one (log ratio)."""
    rows = []
    for value, standing in zip(choice.values, choice.race.standings, strict=True):
        gain = standing.gain
        interval = None if gain is None else [gain.lower, gain.upper]
        rows.append(
            {"value": value, "rates": list(standing.rates), "log_gain": gain and gain.mean, "interval": interval}
        )
    return {"setting": choice.knob, "chosen": choice.chosen, "before": choice.before, "values": rows}
