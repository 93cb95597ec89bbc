"""MiniLM-L6, 32 tokens: in this process, the host path alone, and over gRPC with the generator on the same cores."""

from __future__ import annotations

import time
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from bench.gpu.lanes import EncoderLoop
from bench.gpu.models.vocabulary import texts, write_payloads
from bench.gpu.plan import START_S
from bench.gpu.profile.bounds import measure_peaks
from bench.gpu.run import Run
from bench.gpu.servers.arms import Arm, Arms, Claim
from bench.gpu.servers.modelled import open_server
from fastqps.bench.measure.workload import Payloads
from fastqps.bench.results.point import Point
from fastqps.host import machine
from fastqps.v1 import predict_pb2 as pb

TOKENS = 32
PLACES = ((512, 2), (176, 2), (512, 1), (1024, 2), (256, 2), (176, 3))  # items of a batch, lanes: the likeliest first
LEVELS = (1024, 2048, 4096, 8192)  # calls in flight
P99_US = 20_000.0
IN_PROCESS_S, TRANSPORT_S = 70.0, 45.0  # that are left for what comes behind
MODEL = "minilm-l6"
CLAIMS = (
    Claim("in process*", target="encoder"),
    Claim("null*", target="transport"),
    Claim("open loop*", target="encoder-grpc", p99_us=P99_US),
)


def measure(run: Run) -> None:
    """Measures in process first, then the transport ceiling, then both together. A failure does not hide the others."""
    peaks = measure_peaks(run)
    floor_us = peaks.encoder_us(run.shape(MODEL), TOKENS)
    with TemporaryDirectory() as folder, Arms(run, MODEL, "/s", CLAIMS) as arms:
        payloads = encoder_texts(run, folder)
        arms.floor = lambda rate: peaks.share(floor_us, rate)
        places = {}
        for items, lanes in ((4, 2),) if run.dry else PLACES:
            name = f"in process, batches of {items}, {lanes} lanes"
            places[name] = items, lanes
            arms.take(name, partial(_in_process, run, items, lanes), IN_PROCESS_S)
        items, lanes = places.get(arms.fastest("in process*"), PLACES[0])
        arms.floor = lambda rate: ""
        _transport(run, arms, payloads)
        arms.floor = lambda rate: peaks.share(floor_us, rate)
        base = settings_of(run) | {"max-batch-items": items, "max-batch-tokens": max(items * TOKENS, 512)}
        levels = [Arm(f"gRPC, {level} in flight", {"lanes": lanes}, level) for level in ((16,) if run.dry else LEVELS)]
        arms.serve(levels, base, payloads)
        for arm in levels:
            arms.turn(arm)
        if best := {arm.name: arm for arm in levels}.get(arms.fastest("gRPC*")):
            arms.search(best, P99_US)
    run.finish()


def settings_of(run: Run) -> dict[str, Any]:
    """The settings of a server for these requests."""
    settings = {"model": str(run.checkpoint(MODEL)), "device": run.device, "dtype": run.dtype, "slots": 1 << 14}
    settings |= {"max-queue-items": 1 << 15, "frontdoors": max(1, len(machine.allowed_cpus()) // 2)}
    return settings | ({"max-batch-items": 8, "max-batch-tokens": 512} if run.dry else {})


def encoder_texts(run: Run, folder: str) -> Payloads:
    """Different ones, of exactly TOKENS tokens each."""
    many = texts(run.checkpoint(MODEL), 200 if run.dry else 20_000, TOKENS)
    return write_payloads(folder, [pb.PredictRequest(text=text) for text in many])


def _in_process(run: Run, items: int, lanes: int) -> Point:
    loop = EncoderLoop(run.device, run.checkpoint(MODEL), items=items, tokens=TOKENS, lanes=lanes, dtype=run.dtype)
    began_s = time.monotonic()
    rate = loop.rate(run.seconds / 2)
    clocks = run.gpu.between(began_s, time.monotonic())
    loop.close()
    return Point("", rate=rate, status={"OK": items}, devices=[{"device": run.device, "clocks": clocks}])


def _transport(run: Run, arms: Arms, payloads: Payloads) -> None:
    """Some ways to share the cores between generator, front doors and dispatchers, each on a server of its own."""
    cores = len(machine.allowed_cpus())
    ways = [(doors, count) for doors in sorted({max(1, cores // 2), max(1, cores * 5 // 8)}) for count in (1, 2)]
    in_flight = 64 if run.dry else 4096
    for doors, count in ways[: 1 if run.dry else None]:
        base = settings_of(run) | {"device": "null", "frontdoors": doors, "dispatchers": count}
        with open_server(run, base, payloads) as served:
            name = f"null device, {doors} front doors, {count} dispatchers of {cores} cores"
            point = arms.take(name, partial(served.measure, {}, in_flight), TRANSPORT_S + START_S[1])
        arms.ceiling = max(arms.ceiling or 0.0, point.rate) if point else arms.ceiling
