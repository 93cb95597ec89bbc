"""The highest rate within the SLO: how much a deployment can be given."""

from __future__ import annotations

import argparse
import dataclasses

from fastqps.bench.flags import Common, parse_rate
from fastqps.bench.measure.closed_loop import find_peak
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.slo import Judgement, Slo, duration_flag, format_us
from fastqps.bench.results.capacity import CAPACITY, WAITS_MIN, rising, write_capacity
from fastqps.bench.results.point import INVALID, UNSTABLE, VALID, Point
from fastqps.bench.results.result import Outcome, Result
from fastqps.bench.search.bracket import Bracket, Trial, find_highest
from fastqps.bench.verdict import conclude
from fastqps.errors import ConfigError

NEAR = 1.5  # a latency so far above its limit may be a hiccup of the machine
STRETCH_MAX = 10  # times --duration, until a percentile has its answers
CONFIRM = 3  # times as long
SENT_MIN = 0.97  # of what was due; or that rate was never there
SHARES_BELOW = (0.1, 0.5, 0.75)  # of the knee's rate: saturation is read off what the server says of itself there, too
MARGIN_BELOW = 1.3  # of WAITS_MIN: four standard deviations of what comes in fact
SEEDS_BELOW = 1000  # beyond those of all probes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds flags for the length of the search."""
    parser.add_argument("--probes", type=int, default=16, metavar="N", help="most measurements (default: 16)")
    parser.add_argument("--precision", type=float, default=0.05, metavar="SHARE", help="of the rate (default: 0.05)")
    parser.add_argument(
        "--start", type=parse_rate, metavar="R", help="rate to begin with (default: found in a closed loop)"
    )


def check(options: argparse.Namespace, common: Common) -> None:
    """Checks that there is something to look for."""
    if common.slo is None:
        raise ConfigError("find-max needs to know what is good enough: --slo p99=20ms,err=0.1%")
    if options.probes < 4 or not 0.001 <= options.precision <= 0.5:
        raise ConfigError("--probes: at least 4; --precision: 0.001 to 0.5")
    if options.start is not None:
        common.load.at_rate(options.start)


def run(context: Context) -> Result:
    """Points are the probes, in order, the last of them the confirmed one, ``best``; and some of less load. Writes
    capacity.json.

    ``lower_bound``: the server was never seen to fail above it."""
    options, result, slo = context.options, context.result, context.slo
    assert slo is not None  # check
    (context.folder / CAPACITY).unlink(missing_ok=True)  # of an earlier run: it must not pass for this one's
    guess = find_peak(context) if options.start is None else options.start
    context.progress.expect(options.probes + len(SHARES_BELOW))
    prober = _Prober(context, slo)
    bracket = find_highest(prober.probe, guess, probes_max=options.probes, precision=options.precision)
    _conclude(context, bracket, prober)
    return result


class _Prober:
    def __init__(self, context: Context, slo: Slo) -> None:
        self._context, self._slo = context, slo
        self._probes = 0
        self._answered: dict[float, float] = {}  # by rate, OK answers per second where they were too few
        self.reasons: dict[float, list[str]] = {}  # by rate, why it failed or could not be decided

    def probe(self, rate: float, confirm: bool) -> Trial:
        """A generator's lateness counts as latency: what passes in spite of it passes, what fails may be its fault."""
        self._probes += 1
        load = self._load(rate, confirm)
        point = self._context.measure({}, load, name=f"{rate:,.0f}/s{', again' * confirm}")
        judged = self._slo.judge(point)
        broken = [*(point.reasons if point.verdict == UNSTABLE else []), *judged.broken]
        if judged.unknown and not broken:
            return self._undecided(rate, load, point, judged)
        if point.verdict == INVALID and (
            broken or (point.achieved_rate or 0.0) < SENT_MIN * (point.offered_rate or rate)
        ):
            self.reasons[rate] = point.reasons
            return Trial(False, near=True, generator_bound=True)  # perhaps the machine was busy just then
        self.reasons[rate] = broken
        return Trial(not broken, near=self._near(point))

    def _undecided(self, rate: float, load: LoadSpec, point: Point, judged: Judgement) -> Trial:
        """Another trial decides where a probe may be as long as that takes."""
        answered = self._answered[rate] = min(rate, point.rate or rate)
        needed_s = self._slo.seconds(answered)
        slowest = point.response_time_us.get("max")
        self.reasons[rate] = [
            f"{judged.unknown[0]}"
            + (f", of which the slowest took {format_us(slowest)}" if slowest else "")
            + f"; {self._slo.calls_min:,} take {needed_s:.3g} s at this rate: {duration_flag(needed_s / STRETCH_MAX)}"
        ]
        return Trial(
            False, near=load.duration_s < needed_s <= STRETCH_MAX * self._context.load.duration_s, unknown=True
        )

    def _load(self, rate: float, confirm: bool) -> LoadSpec:
        load = self._context.load
        wanted_s = max(load.duration_s, self._slo.seconds(self._answered.get(rate, rate)))
        duration_s = min(wanted_s, STRETCH_MAX * load.duration_s) * (CONFIRM if confirm else 1)
        # Other arrivals each time: a second chance with the same ones would be none.
        return dataclasses.replace(load.at_rate(rate), duration_s=duration_s, seed=load.seed + self._probes)

    def _near(self, point: Point) -> bool:
        """Only latency was missed, and by little."""
        errors = self._slo.error_ratio
        if point.verdict == UNSTABLE or (errors is not None and point.error_ratio > errors):
            return False
        measured = [(point.response_time_us.get(name), limit) for name, limit in self._slo.limits_us.items()]
        return bool(measured) and all(us is not None and us <= NEAR * limit for us, limit in measured)


def _below(context: Context, knee: float) -> list[Point]:
    """The server's own figures at lower loads. Loads that could not be sent, or were not answered, are left out."""
    points, usual = [], context.load
    for k, share in enumerate(SHARES_BELOW):
        rate = share * knee
        duration_s = min(max(usual.duration_s, MARGIN_BELOW * WAITS_MIN / rate), STRETCH_MAX * usual.duration_s)
        load = dataclasses.replace(usual.at_rate(rate), duration_s=duration_s, seed=usual.seed + SEEDS_BELOW + k)
        point = context.measure({}, load, name=f"{share:g} × {knee:,.0f}/s")
        if point.verdict != UNSTABLE and point.rate >= SENT_MIN * (point.offered_rate or rate):
            points.append(point)
    return points


def _conclude(context: Context, bracket: Bracket, prober: _Prober) -> None:
    if bracket.low is None or not bracket.confirmed:
        conclude(context.result, (), _find_nothing(context, bracket, prober))
        return
    result = context.result
    result.best = len(result.points) - 1  # the confirmation is the last one
    result.extra["lower_bound"] = bracket.high is None or bracket.generator_bound
    best = result.points[-1]
    write_capacity(result, best, context.folder)  # who is interrupted has that much
    below = _below(context, bracket.low)
    write_capacity(result, best, context.folder, below)
    if len(below) < len(SHARES_BELOW):
        context.note("what the server says of itself below the knee is not all in capacity.json: a rate was not kept")
    elif len(rising(best, below)) < len(below):
        context.note(
            "what the server says of itself below the knee is not all in capacity.json: by chance as much came as at "
            "another load; measure longer (--duration)"
        )
    if best.verdict == INVALID:
        context.note(
            "the generator was late at times; its lateness counts as latency, so the server can do that or more"
        )
    # A rate that was kept in spite of a late generator is kept: the answer rests on the failure above it.
    conclude(result, [dataclasses.replace(best, verdict=VALID)], "INVALID" if bracket.generator_bound else "VALID")
    _tell_what_is_above(context, bracket, prober)


def _find_nothing(context: Context, bracket: Bracket, prober: _Prober) -> Outcome:
    """The verdict where no rate is known to keep the SLO: only an SLO that failed wherever it was decided, down to
    almost nothing, is not met."""
    slo, above = context.slo, _reasons(prober, bracket.high)
    if bracket.unknown is not None:
        context.note(f"{bracket.unknown:,.0f}/s cannot be decided: {_reasons(prober, bracket.unknown)}")
        if bracket.high is not None:
            what = "the generator was the limit" if bracket.generator_bound else f"{slo} is not kept"
            context.note(f"at {bracket.high:,.0f}/s {what}: {above}")
    elif bracket.generator_bound and bracket.low is None:
        context.note(
            f"nothing is known of the server: also at {bracket.high:,.0f}/s the generator was late: {above}"
            "; begin lower (--start), give it more CPUs (--load-threads), or measure on a quieter machine"
        )
        return "INVALID"
    elif bracket.low is None and not bracket.exhausted:
        context.note(f"not even {bracket.high:,.0f}/s keeps {slo}: {above}")
        return "SLO_NOT_MET"
    elif bracket.low is None:
        context.note(
            f"--probes ran out: {bracket.high:,.0f}/s does not keep {slo}: {above}; lower rates were not tried: allow "
            "more of them, or begin lower (--start)"
        )
    else:
        context.note(
            f"rates kept {slo} in short runs, none in a longer one, down to {bracket.high:,.0f}/s: {above}"
            "; a noisy machine does that: measure longer (--duration), or allow more --probes"
        )
    return "INCONCLUSIVE"


def _tell_what_is_above(context: Context, bracket: Bracket, prober: _Prober) -> None:
    """Adds a note on how precisely the highest rate is known."""
    result = context.result
    if bracket.unknown is not None:
        context.note(f"{bracket.unknown:,.0f}/s cannot be decided: {_reasons(prober, bracket.unknown)}")
    if bracket.generator_bound:
        context.note(
            f"the server can do {bracket.low:,.0f}/s and more: at {bracket.high:,.0f}/s the generator was the limit; "
            "give it more CPUs (--load-threads) or run it elsewhere"
        )
    elif bracket.high is None:
        if bracket.exhausted:
            context.note(
                f"a lower bound: nothing above {bracket.low:,.0f}/s was tried before --probes ran out; "
                "allow more of them"
            )
    else:
        context.note(f"at {bracket.high:,.0f}/s: {_reasons(prober, bracket.high)}")
        if not bracket.narrow_enough(2 * context.options.precision):  # once back from a confirmation is fine
            result.extra["upper_bound"] = bracket.high
            context.note(
                f"the highest is between {bracket.low:,.0f}/s and {bracket.high:,.0f}/s; more --probes would narrow it"
            )


def _reasons(prober: _Prober, rate: float | None) -> str:
    return "; ".join(prober.reasons.get(rate or 0.0, [])[:2])
