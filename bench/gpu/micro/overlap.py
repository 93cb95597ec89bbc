"""Small dependent kernels in several processes, with and without MPS, against streams of one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import torch

from bench.gpu import mps
from bench.gpu.run import Run
from bench.gpu.stand import Graph, Stand, open_stand, time_us

KERNELS = 50
COUNTS = (1, 2, 4)
MEASURE_S = 1.0


def measure(run: Run) -> None:
    """Graphs per second in all, over those of one stream in one process."""
    stand = open_stand(run.dry)
    rates: dict[str, float] = {}
    for streams in COUNTS[:2] if run.dry else COUNTS:
        rates[f"{streams} streams in one process"] = _streams(stand, streams)
    for kind, surroundings in (("time-sliced", mps.without), ("MPS", mps.daemon)):
        for count in COUNTS[1:2] if run.dry else COUNTS[1:]:
            name = f"{count} processes, {kind}"
            if not run.enough(12, name):
                continue
            try:
                with surroundings() as around:
                    rates[name] = _processes(run, count, around)
            except mps.MpsError as error:
                run.say(f"{name}: {error}")
                run.raw("mps", str(error))
                break
    run.raw("graphs_per_s", rates)
    one = rates["1 streams in one process"]
    run.figure(f"{KERNELS} small dependent kernels, one stream", 1e6 / one, "µs")
    for name, rate in rates.items():
        if rate is not one:
            run.figure(f"overlap of small kernels: {name}", rate / one, "×", "graphs per second over one stream's")


def _graph(stand: Stand, stream: object) -> Graph:
    width, rows = (16, 4) if not stand.cuda else (512, 64)
    x = torch.randn(rows, width, device=stand.device).to(torch.bfloat16)
    weight = (torch.randn(width, width, device=stand.device) / width**0.5).to(torch.bfloat16)

    def work() -> None:
        y = x
        for _ in range(KERNELS):
            y = torch.mm(y, weight)

    return stand.graph(work, stream)


def _streams(stand: Stand, count: int) -> float:
    streams = [stand.stream() for _ in range(count)]
    graphs = [_graph(stand, stream) for stream in streams]

    def all_at_once() -> None:
        for graph, stream in zip(graphs, streams, strict=True):
            with stand.on(stream):
                graph.replay()

    for _ in range(3):
        all_at_once()
    stand.synchronize()
    rounds = max(10, int(0.3e6 / max(1.0, time_us(stand, graphs[0].replay))))
    rounds = min(rounds, 20_000) if stand.cuda else 10
    began = time.perf_counter()
    for _ in range(rounds):
        all_at_once()
    stand.synchronize()
    return rounds * count / (time.perf_counter() - began)


def _processes(run: Run, count: int, around: mps.Surroundings) -> float:
    command = [sys.executable, "-m", "bench.gpu.micro.overlap", "dry" if run.dry else "cuda"]
    children = [
        subprocess.Popen(
            command, env=os.environ | around.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(count)
    ]
    try:
        for child in children:
            if _line(child) != "ready":
                raise RuntimeError("a process of the overlap measurement did not start")
        if missing := around.absent([child.pid for child in children]):
            raise mps.MpsError(f"{len(missing)} of {count} processes are not among the daemon's clients")
        begin_ns = time.monotonic_ns() + 300_000_000
        for child in children:
            assert child.stdin
            child.stdin.write(f"{begin_ns}\n")
            child.stdin.flush()
        return sum(float(json.loads(_line(child))) for child in children)
    finally:
        for child in children:
            child.kill()
            child.wait()


def _line(child: subprocess.Popen[str]) -> str:
    assert child.stdout
    return child.stdout.readline().strip()


def child(kind: str) -> None:
    """One process: says ready, waits for its moment, prints its graphs per second."""
    stand = open_stand(kind == "dry")
    stream = stand.stream()
    graph = _graph(stand, stream)
    print("ready", flush=True)
    begin_ns = int(sys.stdin.readline())
    with stand.on(stream):
        for_s = 0.05 if kind == "dry" else MEASURE_S
        time.sleep(max(0.0, (begin_ns - time.monotonic_ns()) / 1e9))
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < for_s:
            for _ in range(16):
                graph.replay()
            stand.synchronize()
            done += 16
        print(done / (time.perf_counter() - began), flush=True)


if __name__ == "__main__":
    child(sys.argv[1])
