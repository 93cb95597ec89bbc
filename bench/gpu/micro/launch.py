"""What launching costs the host, and one small kernel behind another the device: cudaGraphLaunch by number of nodes."""

from __future__ import annotations

import ctypes
import re
import statistics
import time
from pathlib import Path

import torch

from bench.gpu.run import Run
from bench.gpu.stand import Graph, Stand, open_stand, time_us

NODES = (1, 50, 150, 300)
ROUNDS = 200


def measure(run: Run) -> None:
    """Graphs of tiny dependent kernels, launched as C++ launches them and as torch does."""
    stand = open_stand(run.dry)
    launch = _Launch(stand)
    value = torch.zeros(256, device=stand.device)
    found = []
    for nodes in NODES[:2] if run.dry else NODES:
        stream = stand.stream()

        def work(nodes: int = nodes) -> None:
            for _ in range(nodes):
                value.add_(1)

        graph = stand.graph(work, stream)
        host_us, device_us = launch.host_us(graph, stream, stand), time_us(stand, graph.replay)
        found.append(
            {"nodes": nodes, "launch_us": host_us, "replay_us": _replay_us(graph, stand), "device_us": device_us}
        )
        run.say(f"{nodes} nodes: launch {host_us:.1f} µs of the host, {device_us:.1f} µs of the device")
    run.raw("graphs", found)
    run.raw("call_us", launch.call_us)
    first, last = found[0], found[-1]
    slope = (last["device_us"] - first["device_us"]) / (last["nodes"] - first["nodes"])
    note = f"through ctypes, {launch.call_us:.2f} µs of it; torch's replay {last['replay_us']:.1f} µs"
    run.figure(f"cudaGraphLaunch of {last['nodes']} nodes, host", last["launch_us"], "µs", note)
    run.figure(f"cudaGraphLaunch of {first['nodes']} node, host", first["launch_us"], "µs")
    run.figure("one tiny dependent kernel in a graph, device", slope, "µs", "slope over the number of nodes")


class _Launch:
    """cudaGraphLaunch of the library that torch has loaded; on the CPU the stand's replay."""

    def __init__(self, stand: Stand) -> None:
        self._cudart = ctypes.CDLL(_loaded_cudart()) if stand.cuda else None
        self.call_us = 0.0  # of a call that does nothing
        if self._cudart:
            self._cudart.cudaGraphLaunch.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
            began = time.perf_counter()
            for _ in range(1000):
                self._cudart.cudaPeekAtLastError()
            self.call_us = (time.perf_counter() - began) * 1e3

    def host_us(self, graph: Graph, stream: object, stand: Stand) -> float:
        """Median CPU time of one launch onto an idle stream."""
        taken = []
        for _ in range(ROUNDS):
            stand.synchronize()
            began = time.perf_counter()
            if self._cudart and isinstance(stream, torch.cuda.Stream):
                if code := self._cudart.cudaGraphLaunch(graph.handle, stream.cuda_stream):
                    raise RuntimeError(f"cudaGraphLaunch: error {code}")
            else:
                graph.replay()
            taken.append((time.perf_counter() - began) * 1e6)
        stand.synchronize()
        return statistics.median(taken)


def _replay_us(graph: Graph, stand: Stand) -> float:
    taken = []
    for _ in range(ROUNDS):
        stand.synchronize()
        began = time.perf_counter()
        graph.replay()
        taken.append((time.perf_counter() - began) * 1e6)
    return statistics.median(taken)


def _loaded_cudart() -> str:
    found = re.search(r"(/\S*libcudart\.so\S*)", Path("/proc/self/maps").read_text())
    if not found:
        raise RuntimeError("torch has loaded no libcudart")
    return found[1]
