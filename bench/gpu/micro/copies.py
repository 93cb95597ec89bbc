"""Copies to and from the device, of a step's sizes: from pinned memory, alone and with the copy in the graph."""

from __future__ import annotations

import time

import torch

from bench.gpu.run import Run
from bench.gpu.stand import Stand, Work, open_stand, time_us

SIZES = (4096, 16384, 65536, 262144, 1 << 20)


def measure(run: Run) -> None:
    """The device's time of each copy, the host's to enqueue one, and the way to the device and back."""
    stand = open_stand(run.dry)
    found = []
    for size in SIZES[:2] if run.dry else SIZES:
        host = torch.zeros(size, dtype=torch.uint8, pin_memory=stand.cuda)
        device = torch.zeros(size, dtype=torch.uint8, device=stand.device)

        def to(device: torch.Tensor = device, host: torch.Tensor = host) -> None:
            device.copy_(host, non_blocking=True)

        def back(device: torch.Tensor = device, host: torch.Tensor = host) -> None:
            host.copy_(device, non_blocking=True)

        in_graph_us = time_us(stand, stand.graph(to).replay)
        found.append(
            {"bytes": size, "to_us": time_us(stand, to), "back_us": time_us(stand, back), "in_graph_us": in_graph_us}
            | {"there_and_back_us": _round_trip_us(stand, to, back)}
        )
    run.raw("copies", found)
    for point in found:
        note = f"back {point['back_us']:.1f} µs, in a graph {point['in_graph_us']:.1f} µs"
        note += f", there and back with a look {point['there_and_back_us']:.1f} µs"
        run.figure(f"copy of {int(point['bytes']) >> 10} KiB to the device", point["to_us"], "µs", note)


def _round_trip_us(stand: Stand, to: Work, back: Work) -> float:
    taken = []
    for _ in range(50):
        stand.synchronize()
        began = time.perf_counter()
        to()
        back()
        stand.synchronize()
        taken.append((time.perf_counter() - began) * 1e6)
    return sorted(taken)[len(taken) // 2]
