"""Measures the cost of steps on a device as a profile for ``--device sim:FILE``, and checks it against the device."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from fastqps.bench.measure.context import Context, now_utc
from fastqps.bench.measure.saturate import saturating
from fastqps.bench.results.result import BenchError, Result
from fastqps.bench.steps import fit
from fastqps.bench.steps.step_costs import Cost, Shape
from fastqps.bench.steps.step_process import StepProcess
from fastqps.bench.verdict import conclude
from fastqps.config import decide
from fastqps.config.decide import most_items
from fastqps.devices import kind_of, list_devices
from fastqps.devices.profile import Profile
from fastqps.devices.profile_file import NAME_MAX, write_profile
from fastqps.errors import ConfigError

TOGETHER_S = 1.0  # two processes side by side
HOST_MAX = 1.2  # from step to step, of the step's own time: what is more would pass for overlap
AHEAD_NS = 300_000_000  # then both have heard that they begin


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds flags for the profile's file and its check."""
    parser.add_argument(
        "-o", "--profile", metavar="FILE", default="", help="the profile (default: profile.toml in --output)"
    )
    parser.add_argument("--no-check", action="store_true", help="do not serve with the device and with its profile")
    parser.add_argument("-c", "--in-flight", type=int, metavar="N", help="calls at a time, of the check")


def run(context: Context) -> Result:
    """Measures, fits, writes; then one point of a server on the device and one on its profile, at their peaks."""
    options, result = context.options, context.result
    if not context.target.own:
        raise ConfigError("calibrate measures a device in a process of its own; leave out --address")
    device = decide(context.target.loaded({}).config).device
    devices = list_devices(device)
    if kind_of(device) == "null" or len(devices) > 1:
        raise ConfigError(f"--device {device}: calibrate measures one device that takes time")
    path = Path(options.profile) if options.profile else context.folder / "profile.toml"
    name = re.sub(r"[^\w.-]", "-", path.stem, flags=re.ASCII)[:NAME_MAX]
    task = context.target.model(context.server()).task
    context.target.close()  # it would take time from what is measured now
    context.progress.expect(0 if options.no_check else 2 * context.repetitions)
    profile = _calibrate(context, name, device, task)
    write_profile(profile, path)
    context.note(f"profile: {path}; to serve with it: --device sim:{path.resolve()}")
    if not options.no_check:
        _check(context, device, path)
    return result


def _calibrate(context: Context, name: str, device: str, task: str) -> Profile:
    """Runs steps of all shapes, then the smallest in one process and in two at a time."""
    context.progress.say("running steps of all shapes")
    with _open(context) as first:
        costs = list(_costs(context, first))
        smallest = costs[0].items, costs[0].tokens // costs[0].items
        [alone_us] = _periods(smallest, first)
        context.progress.say("the same beside a second process")
        with _open(context) as second:
            together_us = max(_periods(smallest, first, second))
    fixed, per_token, per_item = fit.straight(costs)
    straight = [fixed + per_token * cost.tokens + per_item * cost.items for cost in costs]
    bent = fit.deviation(costs, straight) > fit.DEVIATION_MAX
    target = context.result.target
    profile = Profile(
        name=name,
        status="measured",
        source=f"fastqps bench calibrate, {now_utc()}, commit {context.result.commit or 'unknown'}",
        gpu=_computer(context, device),
        model=f"{target['model']}@{target['version']}",
        task=task,
        fixed_us=round(fixed, 2),
        per_token_us=0.0 if bent else round(per_token, 4),
        per_item_us=round(per_item, 3),
        overlap=round(fit.overlap(alone_us, together_us, fixed), 2),
        table=fit.table(costs, fixed, per_item) if bent else (),
        launch_us=round(median(cost.launch_us for cost in costs), 1),
    )
    _report(context, profile, costs, alone_us, together_us)
    return profile


def _computer(context: Context, device: str) -> str:
    """The name of the GPU or CPU that computed."""
    gpu = list_devices(device)[0].gpu
    return gpu.name if gpu else f"{device}: {context.result.environment.get('cpu', '')}"


def _open(context: Context) -> StepProcess:
    return StepProcess(context.target.base, context.target.config_file, context.pinning.server)


def _costs(context: Context, process: StepProcess) -> Iterator[Cost]:
    process.ask({})
    for found in process.answers():
        cost = Cost(**found)
        context.progress.say(f"{cost.items} items, {cost.tokens} tokens: {cost.us:,.0f} µs")
        yield cost


def _periods(shape: Shape, *processes: StepProcess) -> list[float]:
    """µs from step to step in each of the processes, all at the same time."""
    from_ns = time.monotonic_ns() + AHEAD_NS
    for process in processes:
        process.ask({"shape": shape, "from_ns": from_ns, "for_s": TOGETHER_S})
    return [found["period_us"] for process in processes for found in process.answers()]


def _report(context: Context, profile: Profile, costs: list[Cost], alone_us: float, together_us: float) -> None:
    """Compares measured times with those of the profile."""
    fitted = [profile.step_us(cost.tokens, cost.items) for cost in costs]
    worst = fit.deviation(costs, fitted)
    context.note(
        f"a step takes {profile.fixed_us:,.0f} µs and "
        + ("what the table says" if profile.table else f"{profile.per_token_us:g} µs a token")
        + f" and {profile.per_item_us:g} µs an item; worst deviation of {len(costs)} shapes: {worst:.0%}"
    )
    context.note(
        f"beside another process a small step comes every {together_us:,.0f} µs instead of {alone_us:,.0f}: "
        f"overlap {profile.overlap:g}"
    )
    if alone_us > HOST_MAX * costs[0].us:
        context.note(
            f"only {costs[0].us:,.0f} of these {alone_us:,.0f} µs are the step, the rest is the host: the overlap says "
            "as much about the host as about the device; measure on a quieter machine, or set it in the profile"
        )
    context.result.extra["calibration"] = {
        "steps": [{**vars(cost), "fitted_us": us} for cost, us in zip(costs, fitted, strict=True)],
        "alone_us": alone_us,
        "together_us": together_us,
        "worst_deviation": worst,
    }


def _check(context: Context, device: str, path: Path) -> None:
    """Applies the same load to the device and to its profile."""
    load = saturating(context, context.options.in_flight, {}, {})
    dispatchers = {"dispatchers": context.target.base.get("dispatchers", 1)}
    real = context.measure(dispatchers, load, name=device)
    modelled = context.measure(
        {**dispatchers, **_sizes(context), "device": f"sim:{path.resolve()}"}, load, name=f"sim:{path.name}"
    )
    if not real.rate:
        raise BenchError("the check's server on the device answered nothing")
    ratio = modelled.rate / real.rate
    context.result.extra["calibration"]["predicted_rate_ratio"] = ratio
    conclude(context.result, (real, modelled))
    if context.target.model(context.server()).task == "generate":
        context.note(
            "a modelled generator's answers end at the limit alone: the rates can be compared where --max-tokens is so "
            "small that real ones end there too"
        )
    context.note(f"peak rate: {device} {real.rate:,.0f}/s, its profile {modelled.rate:,.0f}/s ({ratio - 1:+.0%})")


def _sizes(context: Context) -> dict[str, Any]:
    """The batch sizes of a server on the device, whose defaults differ from those on a modelled device."""
    config = decide(context.target.loaded({}).config)
    return {"max-batch-items": most_items(config), "max-batch-tokens": config.max_batch_tokens}
