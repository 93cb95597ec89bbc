"""A static model on a GPU: its table as it is stored, one kernel for the means, and torch for what follows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fastqps.ops.cuda.operations import Operations
from fastqps.ops.parameters import Parameters
from fastqps.ops.step import Step
from fastqps.runners.static import StaticTable

# By the name of the class of torch.nn.
_ACTIVATIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Identity": lambda x: x,
    "Tanh": torch.tanh,
    "ReLU": torch.relu,
    "GELU": functional.gelu,
    "Sigmoid": torch.sigmoid,
}


class StaticBags:
    """``Step`` → float32 [items, card.dimensions]; float32 is computed."""

    def __init__(self, files: StaticTable, where: Parameters, kernels: Operations) -> None:
        def keep(array: NDArray[Any]) -> torch.Tensor:
            return where.keep(torch.from_numpy(np.array(array)))

        def keep_optional(array: NDArray[Any] | None) -> torch.Tensor | None:
            return None if array is None else keep(array)

        table = torch.from_numpy(np.array(files.table))
        self.hidden = files.width
        self._table = where.keep(table.view(torch.bfloat16) if table.dtype == torch.uint16 else table)
        self._mapping, self._weights = keep_optional(files.mapping), keep_optional(files.weights)
        self._n_ids, self._skipped_id = files.n_ids, -1 if files.unknown_id is None else files.unknown_id
        self._dense = [(keep(weight), keep_optional(bias), kind) for weight, bias, kind in files.dense]
        self._head = [(keep(weight), keep(bias)) for weight, bias in files.head]
        self._normalize = files.normalize
        self._bag_means, self._end_step = kernels.bag_means, kernels.end_step

    def __call__(self, step: Step) -> torch.Tensor:
        assert step.counts is not None and step.output is not None and step.stamps is not None
        bags = self._table, self._mapping, self._weights, step.ids, step.starts, step.counts
        out = None if self._dense or self._head else step.output
        rows = self._bag_means(*bags, self._n_ids, self._skipped_id, out=out, stamps=step.stamps)
        if out is None:
            rows = step.output.copy_(self._finish(rows))
        self._end_step(step.stamps)
        return rows

    def _finish(self, rows: torch.Tensor) -> torch.Tensor:
        for weight, bias, activation in self._dense:
            rows = _ACTIVATIONS[activation](functional.linear(rows, weight, bias))
        if self._normalize:
            rows = rows / (torch.linalg.vector_norm(rows, dim=1, keepdim=True) + 1e-32)
        for i, (weight, bias) in enumerate(self._head):
            rows = functional.linear(rows, weight, bias)
            if i + 1 < len(self._head):
                rows = torch.relu(rows)
        return rows
