"""Steps of the size that a start chooses, against fixed sizes: throughput, and the latency that smaller steps save.

A step of 64 items may take most of a second, so a window of few seconds would count one step more or less by chance.
The rate is therefore the calls in flight over the mean time that each takes (Little's law), which has no such error.
The core of the server is busy all the time, so on ``cpu`` its CPU time says the same, without what others take of it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench.load import PATIENCE_S, PREDICT, PREDICT_BATCH, Load, loadgen
from bench.runner import LOAD_CPU, SERVER_CPU, Bench, Claim, Measure, Run, Subject
from bench.texts import batches, request, texts
from fastqps.dispatcher import stored_steps
from fastqps.models.names import resolve
from fastqps.process.server_process import ServerProcess
from fastqps.v1 import predict_pb2 as pb

BULK = 64  # items of a call that nobody waits for
TOKENS = 16  # of a generated answer
_CHOSEN = re.compile(r"auto: (\d+)\D")


@dataclass(frozen=True)
class Model:
    """A model on a device, and the sizes that its choice is compared with. ``before``: the default without a choice."""

    name: str
    model: str
    device: str
    key: str  # the setting that is chosen
    before: int
    fixed: tuple[int, ...]
    load: Load
    generates: bool = False


_ENCODER, _DECODER = "max-batch-items", "max-running"
MODELS = (
    Model("MiniLM, cpu", "minilm", "cpu", _ENCODER, 64, (16, 32), Load(8, 16)),
    Model("grammar, cpu", "grammar", "cpu", _DECODER, 1024, (32, 128), Load(16, 16), True),
    Model("sim:h200-minilm-l6", "minilm", "sim:h200-minilm-l6", _ENCODER, 256, (512, 1024), Load(16, 256)),
    Model(
        "sim:h200-qwen2.5-0.5b", "grammar", "sim:h200-qwen2.5-0.5b", _DECODER, 1024, (256, 2048), Load(16, 128), True
    ),
)


def measure(bench: Bench) -> None:
    """Each model in turn: one server for each size on one core, the load on the other, all sizes in turns."""
    for model in MODELS:
        stored_steps.forget(resolve(model.model)[1])  # the choice of another day says nothing of today's
        with ExitStack() as stack:
            _measure(model, replace(bench, stack=stack))


def _measure(model: Model, bench: Bench) -> None:
    """By size: rates at saturation, p50 at half of the capacity, p50 of single calls beside calls of many items."""
    many = texts(1024, words=10 if model.generates else 30, seed=2)
    single = bench.write(_message(text, model) for text in many)
    urgent = bench.write(_message(text, model, pb.PRIORITY_HIGH) for text in many)
    bulk = bench.write(_bulk(many, model))
    sizes = ["auto", *(str(size) for size in sorted({*model.fixed, model.before}))]
    servers = {size: bench.start(_serve(model, size)) for size in sizes}
    load = _long_enough(servers["auto"], single, replace(model.load, seconds=bench.seconds, deadline_s=PATIENCE_S))
    bench = replace(bench, seconds=load.seconds)
    prefix, before = f"{model.name}: ", str(model.before)
    saturated = bench.measure(
        Subject(f"{prefix}{size}", _saturated(bench.grpc(server.address, single, load), load), server.pid)
        for size, server in servers.items()
    )
    offered = saturated[prefix + before].median() / 2
    measured_subjects = bench.measure(
        Subject(f"{prefix}{size}, {kind}", measured)
        for size, server in ((size, servers[size]) for size in ("auto", before))
        for kind, measured in (
            ("half load", bench.grpc(server.address, single, load, rate=offered)),
            ("beside bulk", partial(_beside_bulk, bench, server.address, bulk, urgent, load, offered / 10)),
        )
    )
    chosen = f"{prefix}{model.key} {servers['auto'].chosen}, chosen, over the best fixed size"
    best = max((prefix + size for size in sizes[1:]), key=lambda name: saturated[name].median())
    fixed = ", ".join(f"{size}: {saturated[prefix + size].median():,.0f}" for size in sizes[1:])
    bench.rows.append(Claim(chosen, "%", f"{prefix}auto", best, 97, scale=100, note=f"fixed: {fixed}").row(saturated))
    if model.device == "cpu":
        by_cpu = Claim(f"{chosen}, by CPU time", "%", best, f"{prefix}auto", 97, figure="cpu_us", scale=100)
        bench.rows.append(by_cpu.row(saturated))
    for kind, what in (("half load", "at half load"), ("beside bulk", f"of urgent calls beside calls of {BULK} items")):
        name = f"{prefix}p50 {what}, over that with {before}"
        ours, theirs = (f"{prefix}{size}, {kind}" for size in ("auto", before))
        bench.rows.append(Claim(name, "×", ours, theirs, figure="response_p50_us").row(measured_subjects))


def _long_enough(server: _Server, payloads: Path, load: Load) -> Load:
    """The load for so long that all calls in flight are answered while it warms up, and twice while it is measured."""
    began = time.monotonic()
    run = loadgen(server.address, PREDICT, payloads, load, LOAD_CPU)
    turn_s = load.connections * load.inflight * (time.monotonic() - began) / run["status_with_warmup"]["OK"]
    return replace(load, seconds=max(load.seconds, 2 * turn_s), warmup_s=max(load.warmup_s, turn_s))


def _saturated(run: Measure, load: Load) -> Measure:
    """The rate by the calls in flight and the mean time of each."""
    in_flight = load.connections * load.inflight

    def measured() -> Run:
        figures = run()
        return figures | {"rate": in_flight * 1e6 / figures["service_mean_us"]}

    return measured


class _Server(ServerProcess):
    """Knows which size it has chosen."""

    chosen = 0

    def __init__(self, flags: Sequence[str]) -> None:
        super().__init__(*flags, cpus=[SERVER_CPU], on_line=self._see)

    def _see(self, line: str) -> None:
        if "auto: " in line and (chosen := _CHOSEN.search(line)):
            self.chosen = int(chosen[1])


def _serve(model: Model, size: str) -> _Server:
    more = ("--frontdoors=1", "--dispatchers=1", f"--max-output-tokens={TOKENS}", "--max-queue-items=65536")
    return _Server((f"--model={model.model}", f"--device={model.device}", *more, f"--{model.key}={size}"))


def _message(text: str, model: Model, priority: pb.Priority = pb.PRIORITY_UNSPECIFIED) -> pb.PredictRequest:
    message = request(text)
    message.priority = priority
    if model.generates:
        message.generate.CopyFrom(pb.GenerateOptions(max_tokens=TOKENS, ignore_eos=True))
    return message


def _bulk(many: Sequence[str], model: Model) -> list[pb.PredictBatchRequest]:
    bulk = batches(many, BULK)
    for batch in bulk:
        for item in batch.items:
            item.CopyFrom(_message(item.text, model))
    return bulk


def _beside_bulk(bench: Bench, address: str, bulk: Path, urgent: Path, load: Load, rate: float) -> Run:
    """Single calls of high priority, while calls of ``BULK`` items hold as many items as ``load`` has calls."""
    calls = max(2, load.connections * load.inflight // BULK)
    longer = replace(load, connections=2, inflight=calls // 2, seconds=load.seconds + 1)
    with ThreadPoolExecutor(1) as pool:
        saturating = pool.submit(loadgen, address, PREDICT_BATCH, bulk, longer, LOAD_CPU)
        figures = bench.grpc(address, urgent, replace(load, connections=4, inflight=64), rate=rate)()
        saturating.result()
    return figures
