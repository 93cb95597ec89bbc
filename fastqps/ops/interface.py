"""The operations that a device must implement. Each architecture is written once, in terms of them.

Everything but matrix products is computed in fp32, whatever is read and written. A model is built with the objects that
the functions of its ``Ops`` make (``linear``, ``norm``, …), and those are called at each step. They may be fused as the
device likes: that is why a product takes what it reads as ``Rows``, why a norm adds the residual itself, and why what
writes rows gets their reader as an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

from fastqps.kernels.layers import Attention, Tables
from fastqps.ops.decode_step import DecodeState, DecodeStep
from fastqps.ops.fp8 import Weight
from fastqps.ops.step import Step


@dataclass(frozen=True)
class Rows:
    """Rows [n, width] as the next product reads them: in the model's type, or quantised, or both."""

    values: torch.Tensor | None = None  # None: nobody reads them
    fp8: torch.Tensor | None = None  # float8 [n, width]: values = fp8 · scale
    scale: torch.Tensor | None = None  # float32 [n, 1]

    @property
    def tensor(self) -> torch.Tensor:
        """``values``, which the reader has asked for."""
        assert self.values is not None, "these rows were made for a reader of fp8 alone"
        return self.values


SiteKind = Literal["qkv", "out", "up", "down", "head", "logits"]  # logits: of a generator


@dataclass(frozen=True)
class Site:
    """Where in a model a product stands: that may decide the type it is computed in."""

    kind: SiteKind
    layer: int = 0
    layers: int = 1


class Reader(Protocol):
    """A product, as those who write its rows see it."""

    @property
    def fp8(self) -> bool:
        """It reads ``Rows.fp8`` and ``Rows.scale``, not ``Rows.values``."""


class Linear(Reader, Protocol):
    def __call__(self, x: Rows) -> torch.Tensor:
        """x [rows, inputs] → x · weightᵀ + bias [rows, outputs]"""

    def add_residual(self, x: Rows, residual: torch.Tensor) -> torch.Tensor:
        """The product plus ``residual`` [rows, outputs], which nobody reads any more."""


class Activated(Reader, Protocol):
    def __call__(self, x: Rows, reader: Reader) -> Rows:
        """x [rows, inputs] → activation(x · weightᵀ + bias), or gated: activation(x · gateᵀ) * (x · upᵀ)."""


class BlockNorm(Protocol):
    """Between the residual and the block that reads it; ``x`` may be overwritten where a product is added to it."""

    def __call__(self, x: torch.Tensor, reader: Reader) -> Rows:
        """norm(x), x [rows, width]"""

    def add(self, linear: Linear, h: Rows, x: torch.Tensor, reader: Reader) -> tuple[torch.Tensor, Rows]:
        """x + linear(h) and the norm of it: of models that normalise what goes into a block."""


class Norm(Protocol):
    """A ``BlockNorm`` whose ``reader`` may be None: whoever asks for ``values``."""

    def __call__(self, x: torch.Tensor, reader: Reader | None) -> Rows:
        """norm(x), x [rows, width]"""

    def add(self, linear: Linear, h: Rows, x: torch.Tensor, reader: Reader | None) -> tuple[torch.Tensor, Rows]:
        """As ``BlockNorm.add``."""

    def add_post(self, linear: Linear, h: Rows, x: torch.Tensor, reader: Reader | None) -> Rows:
        """norm(x + linear(h)), with ``values``: of models that normalise what a block gives."""


class Ops(Protocol):
    """The operations that encoders and decoders share."""

    dtype: torch.dtype  # of weights, activations and keys and values
    device: torch.device
    reads_weights: bool  # False: `keep` asks a tensor's shape and type alone, and weights on `meta` will do

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        """A parameter where this device wants it, in its own type; no parameter gets there in any other way.

        Twice the same parameter is kept once. The order of the calls depends on nothing but the checkpoint and the
        settings.
        """

    def linear(self, weight: Weight, bias: torch.Tensor | None, site: Site) -> Linear:
        """weight [outputs, inputs], bias [outputs]"""

    def activated(self, weight: Weight, bias: torch.Tensor | None, activation: str, site: Site) -> Activated:
        """``activation`` is one of ``ACTIVATIONS`` in fastqps/models/families/encoder.py."""

    def gated(
        self, gate: Weight, up: Weight, biases: tuple[torch.Tensor, torch.Tensor] | None, activation: str, site: Site
    ) -> Activated:
        """gate, up: [inner, inputs]; ``biases`` are theirs. ``gate`` is what the activation is of."""

    def norm(self, weight: torch.Tensor, bias: torch.Tensor | None, eps: float, kind: Literal["layer", "rms"]) -> Norm:
        """weight, bias: [width]"""

    def rows(self, x: torch.Tensor, reader: Reader) -> Rows:
        """x [rows, width], quantised where ``reader`` reads that."""

    def norm_columns(self, x: torch.Tensor, first: int, weight: torch.Tensor, eps: float) -> None:
        """The root mean square norms of ``len(weight)`` columns of x [rows, width] from ``first`` on, in their place.

        ``weight`` is kept, float32.
        """

    def add(self, sums: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """sums + x, both [rows, width], in the place of ``sums``."""


class Embedding(Protocol):
    def __call__(self, step: Step, reader: Reader | None) -> tuple[Rows, Step]:
        """The sum of each token's rows [tokens, width] in the tables, normalised if there is a norm, with ``values``.

        And the step with what the device has found out of it in passing, for all that follows.
        """


def reach_of(max_tokens: int) -> int:
    """``max_tokens``, rounded up to 16: the CPU's kernels load whole vectors of biases."""
    return -(-max_tokens // 16) * 16


class EncoderOps(Ops, Protocol):
    def embedding(self, tables: Tables) -> Embedding: ...

    def attend(self, qkv: torch.Tensor, step: Step, attention: Attention) -> torch.Tensor:
        """qkv [tokens, (heads + 2 · kv_heads) · size] → [tokens, heads · size]; every token sees its item's tokens.

        ``reach`` of the attention's tables is ``reach_of`` the longest item.
        """

    def step_of(self, ids: Sequence[int]) -> Step:
        """A step of one item, without an answer: for what is computed once, while a model is loaded."""

    def last_rows(self, x: torch.Tensor, step: Step) -> torch.Tensor:
        """x [tokens, width] → [items, width]: the last row of each item."""

    def relative(self, tables: torch.Tensor) -> torch.Tensor:
        """``attend``'s tables of float32 [2, heads, size, 2 · reach + 16]: column ``reach`` + d is of distance d."""

    def projection(
        self, weight: torch.Tensor, bias: torch.Tensor | None, activation: str = "identity"
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        """x float32 [rows, inputs] → activation(x · weightᵀ + bias), float32 [rows, outputs]: a small product, of a
        head. ``activation`` is one of ``HEAD_FUNCTIONS`` in fastqps/ops/rows.py."""

    def pool(self, hidden: torch.Tensor, step: Step, mode: str, last: bool, skipped: int | None = None) -> torch.Tensor:
        """hidden [tokens, width] → float32 [items, width]: each item's first token (``cls``) or last one
        (``lasttoken``), ``mean`` or ``max``. Or with ``tokens`` float32 [tokens, width]: all of them.

        With ``last`` they are the step's answer. ``skipped``: an id that ``lasttoken`` passes over; an item of nothing
        else gives its first token.
        """

    def answer(self, rows: torch.Tensor, step: Step) -> torch.Tensor:
        """The same rows, as the step's answer: for what a projection behind the pooling gives."""

    def answer_by(
        self,
        what: str,
        compute: Callable[..., torch.Tensor],
        width: int,
        rows: Sequence[torch.Tensor],
        step: Step,
    ) -> torch.Tensor:
        """compute(*rows), float32 [items, width], as the step's answer. ``what`` it computes is for the log."""


class DecodeOps(Ops, Protocol):
    def embed(
        self,
        table: torch.Tensor,
        step: DecodeStep,
        state: DecodeState,
        places: torch.Tensor | None,
        scale: float,
    ) -> torch.Tensor:
        """The row of ``table`` [vocabulary, width] for each token, carried over ones included, times ``scale``; plus
        the row of its position in ``places`` [positions, width]: [T, width].

        First of all in a step: it keeps the parameters of the sequences that are new, ``step.admitted``, and the
        tokens of all rows in ``state.history``.
        """

    def attend(
        self,
        qkv: torch.Tensor,
        attention: Attention,
        cache: torch.Tensor,
        prefix: torch.Tensor,
        step: DecodeStep,
        last_rows: bool,
    ) -> torch.Tensor:
        """Keeps the keys and values of all rows in ``cache`` and attends; ``cache`` and ``prefix`` are one layer's.

        qkv [T, (heads + 2 kv_heads) · size] → [T, heads · size], or with ``last_rows`` [S, heads · size] of
        each run's last row alone. A row sees the prefix and its own cache slot up to itself.
        """

    def last_rows(self, x: torch.Tensor, step: DecodeStep) -> torch.Tensor:
        """x [T, width] → [S, width]: the last row of each run."""

    def cap(self, logits: torch.Tensor, cap: float) -> torch.Tensor:
        """cap · tanh(logits / cap), [S, vocabulary]; ``logits`` may be overwritten."""

    def sample(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> None:
        """logits [S, vocabulary] → ``tokens``, ``logprobs`` and ``finish`` of the step, and ``last_token``.

        First it changes the logits as each run's options and ``state.rules`` say; ``logits`` may be overwritten. Last
        of all in a step. The reference semantics are those of csrc/step/cpu/logit_options.h and decode_sample_kernel.h.
        """
