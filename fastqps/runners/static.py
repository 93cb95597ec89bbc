"""Runs a static model: one C++ call for the means of a step, straight into its output rows, and no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fastqps._core import mean_bags
from fastqps.errors import ModelError
from fastqps.models.card import ModelCard
from fastqps.models.cards import check_files
from fastqps.models.static import StaticModel, open_static
from fastqps.models.static.model import TABLE_KINDS
from fastqps.ops.cpu.strips import Strips
from fastqps.runners.buffers import StepBuffers, aligned
from fastqps.runners.first_steps import first_steps
from fastqps.runners.tensor_values import check_finite, read_floats, read_values, share_values

Rows = NDArray[np.float32]
_NOTHING = 0xFFFFFFFF
_GELU_ERF = np.array([0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429])


def _read_mapping(model: StaticModel) -> NDArray[np.int32] | None:
    """[n_ids]: the row of each token id; None: the id itself. ``ModelError`` for rows that are not there."""
    tensor, rows = model.by_id.get("mapping"), model.table.shape[0]
    if tensor is None:
        return None
    rows_by_id = read_values(tensor)
    if rows_by_id.min() < 0 or rows_by_id.max() >= rows:
        wrong = rows_by_id.min() if rows_by_id.min() < 0 else rows_by_id.max()
        raise ModelError(f"{tensor.file}: mapping names row {wrong} of {rows}")
    return np.ascontiguousarray(rows_by_id, np.int32)


class StaticTable:
    """The table of a static model, and what follows the mean. Shared by the runners of a process.

    ``table_fd``: as of ``Place``.
    """

    def __init__(self, model: StaticModel, card: ModelCard, table_fd: int = -1) -> None:
        self.card = card
        self.tensor = model.table
        self.table = (
            read_values(self.tensor)
            if table_fd < 0
            else share_values(self.tensor, table_fd, lambda: check_files(card))  # or later processes took a wrong one
        )
        check_finite(self.tensor, self.table)
        self.mapping = _read_mapping(model)
        self.weights = read_floats(model.by_id["weights"]) if "weights" in model.by_id else None
        self.unknown_id = model.unknown_id() if model.drops_unknown else None  # an id that counts for nothing
        self.n_ids, self.width = model.n_ids, model.table.shape[1]
        self.dense = [(read_floats(w), None if b is None else read_floats(b), f) for w, b, f in model.dense_tensors()]
        self.head = [(read_floats(weight), read_floats(bias)) for weight, bias in model.head_tensors()]
        self.normalize = model.normalize and bool(self.head)  # else that is done when answers are written

    @property
    def answers_means(self) -> bool:
        """Whether nothing follows the mean."""
        return not self.dense and not self.head

    def means(self, b: StepBuffers, out: Rows) -> Callable[[int], None]:
        """Writes the means of the first so many items' rows, float32 [n_items, width], to ``out``.

        Addresses are looked up only here: numpy takes longer for five of them than the mean of a text takes.
        """
        to, ids, starts = out.ctypes.data, b.input_ids.ctypes.data, b.cu_seqlens.ctypes.data
        table, kind, width, n_ids = self.table.ctypes.data, TABLE_KINDS[self.tensor.kind], self.width, self.n_ids
        mapping = 0 if self.mapping is None else self.mapping.ctypes.data
        weights = 0 if self.weights is None else self.weights.ctypes.data
        skipped = _NOTHING if self.unknown_id is None else self.unknown_id
        return lambda n_items: mean_bags(to, ids, starts, n_items, table, kind, width, n_ids, mapping, weights, skipped)

    @cached_property
    def _products(self) -> tuple[list[Strips], list[Strips]]:
        """The layers as the CPU multiplies with them: a GPU's runner takes the tensors."""
        return [Strips(weight, bias) for weight, bias, _ in self.dense], [Strips(*layer) for layer in self.head]

    def finish(self, rows: Rows) -> Rows:
        """Applies projections, and a classifier's normalisation and layers, to means. Leaves out its activation."""
        dense, head = self._products
        for product, (_, _, activation) in zip(dense, self.dense, strict=True):
            rows = _ACTIVATIONS[activation](product(rows))
        if self.normalize:
            rows = rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 1e-32)
        for i, product in enumerate(head):
            rows = product(rows)
            if i + 1 < len(head):
                rows = np.maximum(rows, 0)
        return rows


class StaticRunner:
    """Static buffers over a table."""

    def __init__(self, table: StaticTable, max_items: int, max_tokens: int) -> None:
        self.card = table.card
        self.instant = table.answers_means  # a handover to another thread costs more than the means of a step
        self._table = table
        self._buffers = StepBuffers.allocate(table.card, max_items, max_tokens)
        self._means = (
            self._buffers.output
            if table.answers_means
            else aligned(max_items * table.width, np.float32).reshape(max_items, table.width)
        )
        self._mean = table.means(self._buffers, self._means)

    def buffers(self) -> StepBuffers:
        return self._buffers

    def run(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        """Computes the rows of ``n_items`` items."""
        del n_tokens, n_new
        self._mean(n_items)
        if not self._table.answers_means:
            self._buffers.output[:n_items] = self._table.finish(self._means[:n_items])

    def for_another_step(self) -> StaticRunner:
        return StaticRunner(self._table, self._buffers.max_items, self._buffers.max_tokens)

    def for_another_lane(self) -> StaticRunner:
        return self.for_another_step()

    def warm_up(self) -> None:
        """Runs a step of one short item and a full one; ``ModelError`` where the answers are no numbers."""
        first_steps(self.card, self._buffers, self.run)


def open_table(card: ModelCard, table_fd: int = -1) -> StaticTable:
    """Reads the model's table. ``ModelError`` where its files cannot be used."""
    model = open_static(Path(card.path))
    if model is None:
        raise ModelError(f"{card.path}: no static model any more; reload it")
    return StaticTable(model, card, table_fd)


def load_static(card: ModelCard, max_items: int, max_tokens: int, table_fd: int = -1) -> StaticRunner:
    """The runner over the model's table. ``ModelError`` where its files cannot be used."""
    return StaticRunner(open_table(card, table_fd), max_items, max_tokens)


def _gelu(x: Rows) -> Rows:
    # The error function to 1.5e-7 (Abramowitz and Stegun, 7.1.26): numpy has none.
    z = np.abs(x.astype(np.float64)) / np.sqrt(2)
    t = 1 / (1 + 0.3275911 * z)
    erf = 1 - (np.polyval(_GELU_ERF[::-1], t) * t) * np.exp(-z * z)
    values: Rows = (0.5 * x * (1 + np.copysign(erf, x))).astype(np.float32)
    return values


# By the name of the class of torch.nn.
_ACTIVATIONS: Mapping[str, Callable[[Rows], Rows]] = {
    "Identity": lambda x: x,
    "Tanh": np.tanh,
    "ReLU": lambda x: np.maximum(x, 0),
    "GELU": _gelu,
    "Sigmoid": lambda x: (0.5 * (1 + np.tanh(0.5 * x))).astype(np.float32),
}
