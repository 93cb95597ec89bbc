"""Steps of the size that a start chooses, against fixed sizes: throughput, and the latency that smaller steps save.

A step of 64 items may take most of a second, so a window of few seconds would count one step more or less by chance.
The rate is therefore the calls in flight over the mean time that each takes (Little's law), which has no such error.
The core of the server is busy all the time, so on ``cpu`` its CPU time says the same, without what others take of it.
"""

from __future__ import annotations

import contextlib
import re
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.environment import two_cpus
from bench.load import PATIENCE_S, PREDICT, PREDICT_BATCH, Load, loadgen
from bench.row import Row
from bench.texts import batches, request, texts
from fastqps.bench.measure.processes import cpu_by_role
from fastqps.bench.measure.workload import write_messages
from fastqps.bench.results.result import BenchError
from fastqps.dispatcher.step_size import STEPS
from fastqps.models.names import resolve
from fastqps.process.server_process import ServerProcess
from fastqps.v1 import predict_pb2 as pb

SERVER_CPU, LOAD_CPU = two_cpus()
BULK = 64  # items of a call that nobody waits for
TOKENS = 16  # of a generated answer
_CHOSEN = re.compile(r"auto: (\d+)\D")


@dataclass(frozen=True)
class Subject:
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
SUBJECTS = (
    Subject("MiniLM, cpu", "minilm", "cpu", _ENCODER, 64, (16, 32), Load(8, 16)),
    Subject("grammar, cpu", "grammar", "cpu", _DECODER, 1024, (32, 128), Load(16, 16), True),
    Subject("sim:h200-minilm-l6", "minilm", "sim:h200-minilm-l6", _ENCODER, 256, (512, 1024), Load(16, 256)),
    Subject(
        "sim:h200-qwen2.5-0.5b", "grammar", "sim:h200-qwen2.5-0.5b", _DECODER, 1024, (256, 2048), Load(16, 128), True
    ),
)


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """Each model in turn: one server for each size on one core, the load on the other, all sizes in turns."""
    rows: list[Row] = []
    points: list[dict[str, Any]] = []
    for subject in SUBJECTS:
        began = time.monotonic()
        STEPS.forget(resolve(subject.model)[1])  # the choice of another day says nothing of today's
        found = _measure(subject, folder, repetitions, seconds)
        rows += _rows(subject, found)
        print(f"{subject.name}: chosen {found['chosen']}; measured in {time.monotonic() - began:.0f} s", flush=True)
        points.append({"name": subject.name, **found})
    return rows, points


def _measure(subject: Subject, folder: Path, repetitions: int, seconds: float) -> dict[str, Any]:
    """By size: rates at saturation, p50 at half of the capacity, p50 of single calls beside calls of many items."""
    many = texts(1024, words=10 if subject.generates else 30, seed=2)
    single = write_messages(folder / "single", [_message(text, subject) for text in many])
    urgent = write_messages(folder / "urgent", [_message(text, subject, pb.PRIORITY_HIGH) for text in many])
    bulk = write_messages(folder / "bulk", _bulk(many, subject))
    sizes = [str(size) for size in sorted({*subject.fixed, subject.before})]
    with contextlib.ExitStack() as stack:
        servers = {size: stack.enter_context(_serve(subject, size)) for size in ["auto", *sizes]}
        chosen = servers["auto"].chosen
        rates: dict[str, list[float]] = {size: [] for size in servers}
        rates_of_cpu: dict[str, list[float]] = {size: [] for size in servers}
        half: dict[str, list[float]] = {size: [] for size in ("auto", str(subject.before))}
        beside: dict[str, list[float]] = {size: [] for size in half}
        load = _long_enough(servers["auto"], single, replace(subject.load, seconds=seconds, deadline_s=PATIENCE_S))
        for number in range(repetitions):
            order = [*servers.items()]
            for size, server in order[number % len(order) :] + order[: number % len(order)]:
                rate, by_cpu = _saturated(server, single, load)
                rates[size].append(rate)
                rates_of_cpu[size].append(by_cpu)
        offered = statistics.median(rates[str(subject.before)]) / 2
        unsteady = 0  # runs in which calls piled up, or the generator was late: their p50 says nothing
        for _ in range(repetitions):
            for size in half:
                run = loadgen(servers[size].address, PREDICT, single, load, LOAD_CPU, rate=offered)
                half[size].append(run["response_time_us"]["p50"])
                unsteady += run["verdict"] != "VALID"
                beside[size].append(_beside_bulk(servers[size].address, bulk, urgent, load, offered / 10))
    found = {"chosen": chosen, "rates": rates, "rates_of_cpu": rates_of_cpu, "offered": offered}
    return found | {"half_load_not_valid": unsteady, "half_p50_us": half, "beside_bulk_p50_us": beside}


def _long_enough(server: _Server, payloads: Path, load: Load) -> Load:
    """The load for so long that all calls in flight are answered while it warms up, and twice while it is measured."""
    began = time.monotonic()
    run = loadgen(server.address, PREDICT, payloads, load, LOAD_CPU)
    turn_s = load.connections * load.inflight * (time.monotonic() - began) / run["status_with_warmup"]["OK"]
    return replace(load, seconds=max(load.seconds, 2 * turn_s), warmup_s=max(load.warmup_s, turn_s))


def _saturated(server: _Server, payloads: Path, load: Load) -> tuple[float, float]:
    """Calls per second in a closed loop, and calls per second of the server's CPU time."""
    before = cpu_by_role(server.pid)
    run = loadgen(server.address, PREDICT, payloads, load, LOAD_CPU)
    spent_s = sum(cpu_by_role(server.pid).values()) - sum(before.values())
    rate = load.connections * load.inflight * 1e6 / run["service_time_us"]["mean"]
    return rate, run["status_with_warmup"]["OK"] / spent_s


class _Server(ServerProcess):
    """Knows which size it has chosen."""

    chosen = 0

    def __init__(self, flags: Sequence[str]) -> None:
        super().__init__(*flags, cpus=[SERVER_CPU], on_line=self._see)

    def _see(self, line: str) -> None:
        if "auto: " in line and (found := _CHOSEN.search(line)):
            self.chosen = int(found[1])


def _serve(subject: Subject, size: str) -> _Server:
    more = ("--frontdoors=1", "--dispatchers=1", f"--max-output-tokens={TOKENS}", "--max-queue-items=65536")
    return _Server((f"--model={subject.model}", f"--device={subject.device}", *more, f"--{subject.key}={size}"))


def _message(text: str, subject: Subject, priority: pb.Priority = pb.PRIORITY_UNSPECIFIED) -> pb.PredictRequest:
    message = request(text)
    message.priority = priority
    if subject.generates:
        message.generate.CopyFrom(pb.GenerateOptions(max_tokens=TOKENS, ignore_eos=True))
    return message


def _bulk(many: Sequence[str], subject: Subject) -> list[pb.PredictBatchRequest]:
    found = batches(many, BULK)
    for batch in found:
        for item in batch.items:
            item.CopyFrom(_message(item.text, subject))
    return found


def _beside_bulk(address: str, bulk: Path, urgent: Path, load: Load, rate: float) -> float:
    """p50 of single calls of high priority, while calls of ``BULK`` items hold as many items as ``load`` has calls."""
    calls = max(2, load.connections * load.inflight // BULK)
    failed: list[BaseException] = []

    def saturate() -> None:
        try:
            loadgen(
                address,
                PREDICT_BATCH,
                bulk,
                Load(2, calls // 2, load.seconds + 1, load.warmup_s, load.deadline_s),
                LOAD_CPU,
            )
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=saturate)
    thread.start()
    run = loadgen(address, PREDICT, urgent, replace(load, connections=4, inflight=64), LOAD_CPU, rate=rate)
    thread.join()
    if failed:
        raise BenchError(f"the calls of many items: {failed[0]}")
    return float(run["response_time_us"]["p50"])


def _rows(subject: Subject, found: dict[str, Any]) -> list[Row]:
    before, half, beside = str(subject.before), found["half_p50_us"], found["beside_bulk_p50_us"]
    unsteady = f"; {found['half_load_not_valid']} runs NOT VALID" if found["half_load_not_valid"] else ""
    chosen = f"{subject.name}: {subject.key} {found['chosen']}, chosen, over the best fixed size"
    by_cpu = [_best_row(f"{chosen}, by CPU time", found["rates_of_cpu"])] if subject.device == "cpu" else []
    return [
        _best_row(chosen, found["rates"]),
        *by_cpu,
        Row(
            f"{subject.name}: p50 at half load, over that with {before}", _ratio(half["auto"], half[before]), "×",
            note=f"{found['offered']:,.0f}/s offered; {_both_us(half, before)}"
            + _quartiles(half["auto"], half[before]) + unsteady,
        ),
        Row(
            f"{subject.name}: p50 of urgent calls beside calls of {BULK} items, over that with {before}",
            _ratio(beside["auto"], beside[before]), "×",
            note=f"{_both_us(beside, before)}{_quartiles(beside['auto'], beside[before])}",
        ),
    ]  # fmt: skip


def _best_row(name: str, rates: dict[str, list[float]]) -> Row:
    rate = {size: statistics.median(each) for size, each in rates.items()}
    best = max((size for size in rate if size != "auto"), key=lambda size: rate[size])
    fixed = ", ".join(f"{size}: {rate[size]:,.0f}" for size in rate if size != "auto")
    note = f"{rate['auto']:,.0f}/s; {fixed}{_quartiles(rates['auto'], rates[best])}"
    rounds = [100 * ours / theirs for ours, theirs in zip(rates["auto"], rates[best], strict=True)]
    return Row(name, 100 * rate["auto"] / rate[best], "%", 97, note=note, interval=(min(rounds), max(rounds)))


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return statistics.median(ours) / statistics.median(theirs)


def _both_us(times: dict[str, list[float]], before: str) -> str:
    return " and ".join(f"{statistics.median(times[size]):,.0f}" for size in ("auto", before)) + " µs"


def _quartiles(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Of the ratios of each round, for the note; nothing where there is one round only."""
    if len(ours) < 2:
        return ""
    low, _, high = statistics.quantiles((a / b for a, b in zip(ours, theirs, strict=True)), n=4, method="inclusive")
    return f"; quartiles of the rounds {low:.3f} to {high:.3f}"
