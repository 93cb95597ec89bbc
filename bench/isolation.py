"""Whether one client's load costs another its answers: classes, tenants and groups over one connection.

Each subject runs its loads one after the other, with the same calls in each, so that its figures compare the loads of
a round. Nothing is asked where the generator was late, or the host kept the device waiting.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from bench.mix import WARMUP_S, Ends, Kind, Mix, Mixed
from bench.runner import SERVER_CPU, Bench, Claim, Run, Subject
from bench.texts import request, texts
from fastqps.process.server_process import ServerProcess
from fastqps.v1 import predict_pb2 as pb

# A queue of fewer items than the streams of a connection: a flood fills the queue, and not only its own streams.
FLAGS = ("--model=minilm", "--frontdoors=1", "--dispatchers=1", "--pin=off", "--max-queue-items=256")
STEP_US, BATCH = 4000, 8  # of the modelled device: this host has time to spare for it
CAPACITY = 1e6 * BATCH / STEP_US  # requests per second
DEADLINE_S, CPU_DEADLINE_S = 1.0, 10.0  # many times the queue's length; the default of a server
TOKENS = 16  # of each request
CLASSES = {"HIGH": pb.PRIORITY_HIGH, "NORMAL": pb.PRIORITY_NORMAL, "LOW": pb.PRIORITY_LOW}
MODEST, FLOOD = 0.1, 5.0  # of the capacity
OPEN, CPU_OPEN = 8 * BATCH, 128  # calls of a class that wants everything: they find room in the queue; two large steps
LEAST = {"NORMAL": 15.0, "LOW": 3.0}  # % of the tokens
OFFERED = 2.5  # of the capacity, by all loud tenants together
# The number of loud tenants, the quiet one's rate as a part of the capacity, less than its share, and the percentage
# of its calls that must be answered within twice its unloaded p99.
COMPANIES = ((1, 0.05, 95), (64, 0.005, None))
SIBLINGS, BURSTS = 12, 50
STRANGERS, LOAD = 16, 0.8  # tenants, and their part of the capacity together
Many = Callable[[pb.Priority], Sequence[pb.PredictRequest]]


def measure(bench: Bench) -> None:
    """One server of each device, on one core; the load on the other."""
    device = (f"--device=sim:{bench.profile('isolation', fixed_us=STEP_US)}", f"--max-batch-items={BATCH}")
    with ServerProcess(*FLAGS, *device, cpus=[SERVER_CPU]) as server:
        mix = Mix(bench, server, DEADLINE_S)
        bench.measure(_modelled(mix), [*_class_claims(), *_tenant_claims(), *_sibling_claims()])
    many = texts(256)
    # A saturated model on a busy machine is slow.
    with ServerProcess(*FLAGS, "--device=cpu", "--default-timeout=60s", cpus=[SERVER_CPU]) as server:
        mix = Mix(bench, server, CPU_DEADLINE_S)
        capacity = mix.saturate({"any": [request(text) for text in many]}, CPU_OPEN)["any"]
        asked: Many = lambda which: [pb.PredictRequest(text=text, priority=which) for text in many]  # noqa: E731
        subject = Subject("classes", partial(_classes, mix, capacity, asked, 50, itertools.count()))
        bench.measure([subject], _cpu_claims(f"{capacity:,.0f}/s at saturation"))


def _modelled(mix: Mix) -> Iterator[Subject]:
    one: Many = lambda which: [_message(which)]  # noqa: E731
    yield Subject("classes", partial(_classes, mix, CAPACITY, one, 99, itertools.count()))
    yield Subject("saturated", partial(_shares, mix))
    for loud, quiet, _ in COMPANIES:
        yield Subject(f"{loud} loud", partial(_tenants, mix, loud, quiet, itertools.count()))
    yield Subject("siblings", partial(_siblings, mix, itertools.count()))


def _message(priority: pb.Priority = pb.PRIORITY_UNSPECIFIED, tenant: str = "", group: str = "") -> pb.PredictRequest:
    ids = [101, *[2000] * (TOKENS - 2), 102]
    return pb.PredictRequest(token_ids={"ids": ids}, priority=priority, tenant=tenant, group=group)


def _run(*loads: Mixed, **figures: float) -> Run:
    return figures | {"step_us": loads[-1].step_us, "not_valid": float(any(load.doubtful for load in loads))}


def _growth(before: Mixed, after: Mixed, kind: str, percent: float) -> float:
    """The growth of a percentile of a kind's waits from one load to another, in steps of the device."""
    return (after.ends[kind].wait(percent) - before.ends[kind].wait(percent)) / after.step_us


# ---- classes: HIGH and NORMAL beside a flood of LOW, and what a HIGH that wants everything leaves to the others


def _classes(mix: Mix, capacity: float, asked: Many, percent: float, seeds: Iterator[int]) -> Run:
    seed = 10 * next(seeds)

    def calls(name: str, share: float) -> Kind:
        return Kind(name, asked(CLASSES[name]), mix.poisson(share * capacity, seed + CLASSES[name]))

    modest = [calls("HIGH", MODEST), calls("NORMAL", MODEST)]
    alone, flood = mix.run(*modest), mix.run(*modest, calls("LOW", FLOOD))
    figures = {"HIGH wait": flood.ends["HIGH"].wait(percent)}
    for name in ("HIGH", "NORMAL"):
        figures |= {f"{name} growth": _growth(alone, flood, name, percent), f"{name} lost": flood.ends[name].lost}
    return _run(alone, flood, **figures)


def _shares(mix: Mix) -> Run:
    """All requests have as many tokens, so a share of the answers is one of the tokens."""
    rates = mix.saturate({name: [_message(which)] for name, which in CLASSES.items()}, OPEN)
    return {name: 100 * rate / sum(rates.values()) for name, rate in rates.items()}


def _class_claims() -> Iterator[Claim]:
    for name, accept in (("HIGH", 2), ("NORMAL", None)):
        yield _lost(f"{name} beside a LOW flood of {FLOOD:g} × capacity", "classes", f"{name} lost", 0)
        yield _grown(f"{name} beside it: growth of p99", "classes", f"{name} growth", accept)
    for name, least in LEAST.items():
        title, note = f"{name} beside a saturating HIGH: share of the tokens", f"{OPEN} calls of each class always open"
        yield Claim(title, "%", "saturated", accept=least, figure=name, spread=True, note=note)


def _cpu_claims(note: str) -> Iterator[Claim]:
    name = f"MiniLM on cpu, HIGH beside a LOW flood of {FLOOD:g} × capacity"
    yield _lost(name, "classes", "HIGH lost", 0)
    yield Claim(f"{name}: p50", "ms", "classes", figure="HIGH wait", scale=1e-3, note=note)
    yield _grown(f"{name}: growth of p50", "classes", "HIGH growth")


# ---- tenants: a quiet one behind one proxy with loud ones, who ask for more than there is


def _tenants(mix: Mix, loud: int, quiet: float, seeds: Iterator[int]) -> Run:
    seed = 10 * next(seeds)
    calm = Kind("quiet", [_message(tenant="quiet")], mix.poisson(quiet * CAPACITY, seed))
    crowd = [_message(tenant=f"loud {i}") for i in range(loud)]
    alone, beside = mix.run(calm), mix.run(calm, Kind("loud", crowd, mix.poisson(OFFERED * CAPACITY, seed + 1)))
    ends = beside.ends["quiet"]
    limit_us = min(2 * alone.ends["quiet"].wait(99), 1e6 * DEADLINE_S - 1)
    return _run(alone, beside, lost=ends.lost, kept=100 * float(np.mean(ends.wait_us <= limit_us)))


def _tenant_claims() -> Iterator[Claim]:
    for loud, quiet, accept in COMPANIES:
        name, subject = f"tenant beside {loud} with {OFFERED / loud / quiet:.0f} × its rate", f"{loud} loud"
        yield _lost(name, subject, "lost", None if accept is None else 0)
        within = "the same: answered within 2 × its unloaded p99"
        yield Claim(within, "%", subject, accept=accept, figure="kept", spread=True)


# ---- siblings: bursts among strangers, and how long the last of each waits, with a group and without one


def _siblings(mix: Mix, seeds: Iterator[int]) -> Run:
    """Bursts alone, strangers alone, and both, the siblings with a group or without."""
    seed, bursts = next(seeds), -(-BURSTS // mix.bench.repetitions)
    jitter = np.random.default_rng(seed).uniform(0, 0.5, bursts)
    due_s = np.repeat(WARMUP_S + (np.arange(bursts) + jitter) * mix.bench.seconds / bursts, SIBLINGS)

    def family(grouped: bool) -> Kind:
        groups = [f"parent {seed}.{i}" if grouped else "" for i in range(bursts)]
        asked = [_message(tenant="family", group=group) for group in groups]
        return Kind("family", asked, due_s, np.repeat(np.arange(bursts), SIBLINGS))

    strangers = [_message(tenant=f"stranger {i}") for i in range(STRANGERS)]
    crowd = Kind("strangers", strangers, mix.poisson(LOAD * CAPACITY, seed))
    loads = [mix.run(family(True)), mix.run(crowd), mix.run(family(True), crowd), mix.run(family(False), crowd)]
    alone, strange, *both = loads
    figures, unloaded_us = {}, _last(alone.ends["family"])
    for name, among in zip(("group", "no group"), both, strict=True):
        figures[f"{name} last"] = (_last(among.ends["family"]) - among.step_us) / unloaded_us
        figures[f"{name} growth"] = _growth(strange, among, "strangers", 99)
    return _run(*loads, **figures)


def _last(ends: Ends) -> float:
    """The median time of a burst to its last answer, in µs."""
    return float(np.median([ends.wait_us[ends.message == burst].max() for burst in np.unique(ends.message)]))


def _sibling_claims() -> Iterator[Claim]:
    for name, without, beside, marks in (
        ("group", "", "a group", (1.5, 2)),
        ("no group", ", without a group", "siblings without a group", (None, None)),
    ):
        last = f"{SIBLINGS} siblings at {100 * LOAD:.0f} % load{without}: last answer less a step, over alone"
        yield Claim(last, "×", "siblings", accept=marks[0], at_most=True, figure=f"{name} last", spread=True)
        yield _grown(f"strangers beside {beside}: growth of p99", "siblings", f"{name} growth", marks[1])


def _lost(name: str, subject: str, figure: str, accept: float | None) -> Claim:
    """In the worst round."""
    return Claim(f"{name}: refused or late", "%", subject, accept=accept, at_most=True, figure=figure, of=max)


def _grown(name: str, subject: str, figure: str, accept: float | None = None) -> Claim:
    return Claim(name, "steps", subject, accept=accept, at_most=True, figure=figure, spread=True)
