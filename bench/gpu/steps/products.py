"""Would calling cuBLASLt directly pay? Its best algorithm for each product beside the one that torch chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any

import torch

from bench.gpu import cublaslt
from bench.gpu.cublaslt import Choice, Library, LtError, Product, loaded_path
from bench.gpu.run import Run
from bench.gpu.stand import Graph, Stand, open_stand, time_us

ROWS = {"minilm-l6": (5632, 16384), "smollm2-135m": (1024, 2048, 4096)}
WORKSPACE = 32 << 20
ALGORITHMS = 16
ROTATED = 128e6  # bytes of all copies of a product's matrices: more than an L2 cache holds
SEARCH_S, FINAL_S = 0.012, 0.03  # of one timing
TURNS = 3
CASE_S = 1.5  # about what a product takes
OFF_MOST = 0.02  # of the largest number: bf16 keeps a 256th
Call = Callable[[int], object]  # of one copy


@dataclass(frozen=True)
class Case:
    """One product of a model, ``times`` in a step."""

    model: str
    name: str
    shape: cublaslt.Shape
    times: int

    def __str__(self) -> str:
        return f"{self.model}: product {self.name}, {self.shape.rows:,} rows"


class Matrices:
    """Copies of one product's matrices, which are used in turn, so that none is found in the cache."""

    def __init__(self, stand: Stand, shape: cublaslt.Shape) -> None:
        each = 2.0 * (shape.rows * (shape.inputs + shape.outputs) + shape.inputs * shape.outputs)
        self.copies = max(2, int(ROTATED / each) + 1) if stand.cuda else 2
        kinds: dict[str, Any] = {"dtype": torch.bfloat16, "device": stand.device}
        self._shape = shape
        self.x = [torch.randn(shape.rows, shape.inputs, **kinds) for _ in range(self.copies)]
        self.weight = [torch.randn(shape.outputs, shape.inputs, **kinds) for _ in range(self.copies)]
        for weight in self.weight:
            weight /= shape.inputs**0.5
        self.out = [torch.zeros(shape.rows, shape.outputs, **kinds) for _ in range(self.copies)]
        self.bias = torch.randn(shape.outputs, **kinds)
        self._workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device=stand.device)
        self._cuda = stand.cuda

    def torchs(self, copy: int) -> None:
        """As fastqps/ops/cuda/products.py calls it; the result goes into the copy."""
        x, weight, out = self.x[copy], self.weight[copy].t(), self.out[copy]
        if self._shape.adds:
            out.addmm_(x, weight)
        elif self._shape.epilogue == "gelu":
            torch._addmm_activation(self.bias, x, weight, use_gelu=True, out=out)
        elif self._shape.epilogue == "bias":
            torch.addmm(self.bias, x, weight, out=out)
        else:
            torch.mm(x, weight, out=out)

    def direct(self, product: Product, choice: Choice, copy: int) -> None:
        """The same by cuBLASLt."""
        x, weight, out = (each[copy].data_ptr() for each in (self.x, self.weight, self.out))
        room = self._workspace.data_ptr(), choice.workspace
        stream = torch.cuda.current_stream().cuda_stream if self._cuda else 0
        product.run(choice, x, weight, out, room, stream)

    def off(self, product: Product, choice: Choice) -> float:
        """How far its result is from torch's, by the largest number."""
        found = []
        for call in (self.torchs, partial(self.direct, product, choice)):
            self.out[0].zero_()
            call(0)
            found.append(self.out[0].float())
        return float((found[0] - found[1]).abs().max() / found[0].abs().max())


def measure(run: Run) -> None:
    """Each product alone; what fails or finds no time is named. Then all products of a step of each size."""
    stand = open_stand(run.dry)
    library = _library(stand)
    run.raw("cuBLASLt", {"version": library.version, "workspace": WORKSPACE, "algorithms": ALGORITHMS})
    found: dict[Case, tuple[float, float]] = {}
    for case in _cases(run):
        if found and not run.enough(CASE_S, str(case)):
            continue
        if times := run.attempt(str(case), partial(_case, run, stand, library, case)):
            found[case] = times
    _steps(run, found)
    library.close()
    run.finish()


def _library(stand: Stand) -> Library:
    """The one that torch uses; in a dry run a fake one of the tests."""
    if not stand.cuda:
        return Library(import_module("fake_cublaslt").library())
    torch.mm(torch.ones(8, 8, device=stand.device), torch.ones(8, 8, device=stand.device))
    return Library(loaded_path())


def _cases(run: Run) -> Iterator[Case]:
    """All products of MiniLM, and of the 135M shape with its head: epilogues as the models' layers have them."""
    for model, sizes in ROWS.items():
        shape = run.shape(model)
        encoder = shape.kind == "encoder"
        products = [(name, k, n, shape.layers) for name, k, n in shape.products()]
        products += [] if encoder else [("head", shape.hidden, shape.vocab, 1)]
        for rows in (8,) if run.dry else sizes:
            for name, inputs, outputs, times in products:
                epilogue = ("gelu" if name == "up" else "bias") if encoder else ""
                adds = not encoder and name in ("out", "down")  # the residual
                yield Case(model, name, cublaslt.Shape(rows, inputs, outputs, epilogue, adds), times)


def _case(run: Run, stand: Stand, library: Library, case: Case) -> tuple[float, float]:
    """µs of torch's choice and of the best one."""
    matrices = Matrices(stand, case.shape)
    with Product(library, case.shape, matrices.bias.data_ptr() if case.shape.epilogue else 0) as product:
        found: dict[bytes, Choice] = {}  # most are proposed with and without a workspace
        for workspace in (WORKSPACE, 0):
            found |= {each.algorithm: each for each in product.choices(workspace, ALGORITHMS)}
        if not found:
            raise LtError("cuBLASLt proposes no algorithm")
        timed = [(_search_us(stand, matrices, product, each), each) for each in found.values()]
        us, best = min(timed, key=lambda each: each[0])
        bare_us = min((us for us, each in timed if not each.workspace), default=None)
        if (off := matrices.off(product, best)) > OFF_MOST:
            raise LtError(f"algorithm {best.config} is off by {off:.3f} of the largest number")
        torch_us, us = _in_turn(stand, matrices, matrices.torchs, partial(matrices.direct, product, best))
    ways = {"torch_us": torch_us, "best_us": us, "without_workspace_us": bare_us, "copies": matrices.copies}
    tried = [{"us": us, "workspace": each.workspace, "waves": each.waves, **each.config} for us, each in timed]
    run.raw(str(case), {**ways, "best": best.config | {"workspace": best.workspace}, "tried": tried})
    config = ", ".join(f"{name} {value}" for name, value in best.config.items())
    bare = "none works" if bare_us is None else f"{bare_us:.1f} µs"
    note = f"torch {torch_us:.1f} µs, best of {len(timed)} {us:.1f} µs ({config}, workspace {best.workspace}); "
    run.figure(f"{case}: torch's time over the best one's", torch_us / us, "×", note + f"without workspace {bare}")
    return torch_us, us


def _search_us(stand: Stand, matrices: Matrices, product: Product, choice: Choice) -> float:
    return _us(stand, _graph(stand, matrices, partial(matrices.direct, product, choice)), matrices, SEARCH_S)


def _in_turn(stand: Stand, matrices: Matrices, *calls: Call) -> list[float]:
    """µs of each, in turn: the fastest of many was lucky too."""
    graphs = [_graph(stand, matrices, call) for call in calls]
    turns = [[_us(stand, graph, matrices, FINAL_S) for graph in graphs] for _ in range(TURNS)]
    return [median(times) for times in zip(*turns, strict=True)]


def _graph(stand: Stand, matrices: Matrices, call: Call) -> Graph:
    def all_copies() -> None:
        for copy in range(matrices.copies):
            call(copy)

    return stand.graph(all_copies)


def _us(stand: Stand, graph: Graph, matrices: Matrices, seconds: float) -> float:
    return time_us(stand, graph.replay, seconds=seconds, rounds=3) / matrices.copies


def _steps(run: Run, found: dict[Case, tuple[float, float]]) -> None:
    """What it would bring to all products of a step, where all of them were measured."""
    by_step: dict[tuple[str, int], dict[Case, tuple[float, float]]] = {}
    for case, times in found.items():
        by_step.setdefault((case.model, case.shape.rows), {})[case] = times
    whole: dict[tuple[str, int], int] = {}
    for case in _cases(run):
        whole[case.model, case.shape.rows] = whole.get((case.model, case.shape.rows), 0) + 1
    for step, times_of in by_step.items():
        if len(times_of) == whole[step]:
            sums: list[Any] = [sum(case.times * us[way] for case, us in times_of.items()) for way in (0, 1)]
            name = f"{step[0]}: all products of a step, {step[1]:,} rows: torch's time over the best ones'"
            run.figure(name, sums[0] / sums[1], "×", f"{sums[0]:.0f} µs against {sums[1]:.0f} µs, each alone")
