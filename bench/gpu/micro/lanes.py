"""Two graphs replayed at once: captured on one stream they may share a workspace of cuBLAS, on two they do not."""

from __future__ import annotations

import torch

from bench.gpu.run import Run
from bench.gpu.stand import Graph, Stand, Work, open_stand

ROUNDS = 300


def measure(run: Run) -> None:
    """Differing answers of concurrent replays, by how the graphs were captured; and what two at once gain."""
    stand = open_stand(run.dry)
    width, rows = (64, 4) if run.dry else (2048, 16)  # few rows and a long sum: the products that cuBLAS splits
    weights = [torch.randn(width, width, device=stand.device, dtype=torch.float32) / width**0.5 for _ in range(8)]
    weights = [w.to(torch.bfloat16) for w in weights]
    for captured in ("one stream", "two streams"):
        wrong = _mismatches(stand, weights, rows, captured == "one stream", 20 if run.dry else ROUNDS)
        run.raw(captured, wrong)
        note = "must be 0: each lane captures on its own stream" if captured == "two streams" else "why lanes do not"
        run.figure(f"concurrent replays that differ, captured on {captured}", wrong, f"of {ROUNDS}", note)
        if captured == "two streams" and wrong:
            raise RuntimeError(f"{wrong} concurrent replays of graphs captured on two streams differ from serial ones")


def _mismatches(stand: Stand, weights: list[torch.Tensor], rows: int, one: bool, rounds: int) -> int:
    first = stand.stream()
    streams = [first, first if one else stand.stream()]
    inputs = [torch.randn(rows, len(weights[0]), device=stand.device).to(torch.bfloat16) for _ in streams]
    outputs = [torch.empty_like(x) for x in inputs]
    graphs = [stand.graph(_chain(x, y, weights), s) for x, y, s in zip(inputs, outputs, streams, strict=True)]
    expected = []
    for graph, output in zip(graphs, outputs, strict=True):
        graph.replay()
        stand.synchronize()
        expected.append(output.clone())
    lanes = [stand.stream(), stand.stream()]  # replayed on two streams, whatever they were captured on
    wrong = 0
    for _ in range(rounds):
        for graph, lane in zip(graphs, lanes, strict=True):
            _replay(stand, graph, lane)
        stand.synchronize()
        wrong += any(not torch.equal(o, e) for o, e in zip(outputs, expected, strict=True))
    return wrong


def _replay(stand: Stand, graph: Graph, lane: object) -> None:
    with stand.on(lane):
        graph.replay()


def _chain(x: torch.Tensor, out: torch.Tensor, weights: list[torch.Tensor]) -> Work:
    def work() -> None:
        y = x
        for weight in weights:
            y = torch.mm(y, weight)
        out.copy_(y)

    return work
