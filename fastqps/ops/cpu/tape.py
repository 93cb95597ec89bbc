"""Records a step of the CPU: a model's operations add themselves to the program, in memory that steps share."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from fastqps._core import ITEMS, NEW_ITEMS, TOKENS, Program
from fastqps.ops.step import address


class Arena:
    """The memory between the operations of programs that never run at the same time.

    A tensor's memory is given to another one once nobody holds the tensor or a view of it. The system provides only
    what steps touch.
    """

    def __init__(self) -> None:
        self._free: list[torch.Tensor] = []

    def take(self, size: int) -> torch.Tensor:
        """uint8 of at least ``size``, until ``give``."""
        fitting = [i for i, block in enumerate(self._free) if len(block) >= size]
        if not fitting:
            return torch.empty(size, dtype=torch.uint8)
        return self._free.pop(min(fitting, key=lambda i: len(self._free[i])))

    def give(self, block: torch.Tensor) -> None:
        """Takes the block back."""
        self._free.append(block)


class Tape:
    """Where the operations of a model go: to the program that is being recorded; without one they run at once."""

    def __init__(self) -> None:
        self._program: Program | None = None
        self._arena = Arena()
        self._counts: dict[int, int] = {}  # by the address of what the program writes: TOKENS or ITEMS
        self._aliases: dict[int, torch.Tensor] = {}  # by the same: the tensor, of which nobody holds the memory
        self.torch_calls: Counter[str] = Counter()  # of the newest program, by what they compute

    @contextmanager
    def record(self, arena: Arena) -> Iterator[Program]:
        """Operations are added to the program, until the end of the block. Their tensors are as large as any step's."""
        self._program, self._arena = Program(), arena
        self._counts.clear()
        self._aliases.clear()
        self.torch_calls.clear()
        try:
            yield self._program
        finally:
            self._program = None

    @property
    def program(self) -> Program:
        """To which the next operation is added."""
        return self._program if self._program is not None else Program.at_once(torch.get_num_threads())

    def tokens(self, ids: torch.Tensor) -> int:
        """The number of rows that belong to ``ids`` [tokens], as operations take it."""
        return len(ids) if self._program is None else TOKENS

    def items(self, starts: torch.Tensor) -> int:
        """The number of items of ``starts`` [items + 1]."""
        return len(starts) - 1 if self._program is None else ITEMS

    def admitted(self, records: torch.Tensor) -> int:
        """The number of ``records`` of new items."""
        return len(records) if self._program is None else NEW_ITEMS

    def count(self, x: torch.Tensor) -> int:
        """The number of rows of ``x``, which an operation of this tape has made."""
        return len(x) if self._program is None else self._counts[address(x)]

    def empty(self, count: int, rows: int, width: int, dtype: torch.dtype) -> torch.Tensor:
        """[rows, width], of which an operation writes ``count`` rows."""
        if self._program is None:
            return torch.empty(rows, width, dtype=dtype)
        n_bytes = rows * width * dtype.itemsize
        block = self._arena.take(n_bytes)
        lent = block.numpy()[:n_bytes]  # which the tensor's storage holds, and with it each of its views
        weakref.finalize(lent, self._arena.give, block)
        out, alias = (x.view(dtype).view(rows, width) for x in (torch.from_numpy(lent), block[:n_bytes]))
        self._counts[address(out)], self._aliases[address(out)] = count, alias
        return out

    def beside(self, x: torch.Tensor, width: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """An empty row of ``width`` for each row of ``x``; of its type, unless another is given."""
        return self.empty(self.count(x), len(x), width, dtype or x.dtype)

    def call_torch(
        self,
        what: str,
        compute: Callable[..., Sequence[torch.Tensor]],
        out: Sequence[torch.Tensor],
        *x: torch.Tensor,
    ) -> None:
        """Fills ``out`` with compute(*x), row by row: where there is no operation of our own.

        ``what`` it computes is for the log.
        """
        if self._program is None:
            _copy(out, compute(*x))
            return
        self.torch_calls[what] += 1
        of_items = self.count(out[0]) == ITEMS
        # If the program held the tensors themselves, nobody else could have their memory.
        results, inputs = [self._alias(each) for each in out], [self._alias(each) for each in x]

        def call(tokens: int, items: int) -> None:
            n = items if of_items else tokens
            with torch.inference_mode():
                _copy([each[:n] for each in results], compute(*(each[:n] for each in inputs)))

        self._program.call(call)

    def _alias(self, x: torch.Tensor) -> torch.Tensor:
        alias = self._aliases[address(x)]
        assert alias.shape == x.shape and alias.dtype == x.dtype, "a part of what an operation has made"
        return alias


def _copy(to: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
    for out, tensor in zip(to, tensors, strict=True):
        out.copy_(tensor)
