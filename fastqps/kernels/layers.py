"""The tensors that a model hands to its embedding, to attention and to options of logits, on any device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from fastqps.kernels.results import check_contiguous


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables [any, width] of which each token has the sum of its rows, and the layer norm of that sum.

    Where ``position_offset`` is not 0, the id below it is that of padding in texts: it is not counted, and is its own
    place.
    """

    words: torch.Tensor  # by token id
    places: torch.Tensor | None = None  # by position id
    kinds: torch.Tensor | None = None  # by token type
    weight: torch.Tensor | None = None  # float32 [width], of the norm; None: there is none
    bias: torch.Tensor | None = None
    eps: float = 0.0
    position_offset: int = 0  # of an item's first token

    def kept(self, keep: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype) -> Tables:
        """The same with each tensor as ``keep`` returns it, the tables in ``dtype``."""

        def optional(tensor: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
            return None if tensor is None else keep(tensor.to(dtype))

        return replace(
            self,
            words=keep(self.words.to(dtype)),
            places=optional(self.places, dtype),
            kinds=optional(self.kinds, dtype),
            weight=optional(self.weight, torch.float32),
            bias=optional(self.bias, torch.float32),
        )


@dataclass(frozen=True, eq=False)
class Attention:
    """Attention of rows [rows, (heads + 2 · kv_heads) · size]: queries, keys and values.

    Raises ``ValueError`` where parts exclude each other, or a tensor is not contiguous.
    """

    heads: int
    kv_heads: int  # those that heads share, in their order
    rotary: torch.Tensor | None = None  # float32 [positions, 2, size / 2]: cos and sin by which queries and keys turn
    q_norm: torch.Tensor | None = None  # float32 [size]: root mean square norms of each query and key, before they turn
    k_norm: torch.Tensor | None = None
    eps: float = 0.0  # of both norms
    window: int = 0  # a row sees only those at most so many positions away; 0: all
    causal: bool = False  # a row sees none behind itself
    # float32 [heads, 2 · reach + 1], added to the scores: at reach + d for a key d rows before its query
    bias: torch.Tensor | None = None
    # two vectors for each distance: the score of a query and a key has the query's product with the first, and the
    # key's with the second; as the device's ``EncoderOps.relative`` makes them
    relative: torch.Tensor | None = None
    # [2, kv_heads, tokens, size]: keys, normalised and turned, and values that an encoder's items can begin with; the
    # place of an item's first row says how many of them are in front of it
    opening: torch.Tensor | None = None
    cap: float = 0.0  # a decoder's scores become cap · tanh(score / cap); 0: they stay

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.kv_heads} of keys and values")
        if self.q_norm is not None and self.rotary is None:
            raise ValueError("norms of queries and keys are computed together with rotary positions alone")
        if self.relative is not None and (self.rotary is not None or self.bias is not None):
            raise ValueError("tables by distance exclude rotary positions and biases")
        if self.opening is not None and (not self.causal or self.bias is not None or self.relative is not None):
            raise ValueError("an opening is of causal attention without biases or tables by distance")
        check_contiguous(rotary=self.rotary, bias=self.bias, relative=self.relative, opening=self.opening)
        check_contiguous(q_norm=self.q_norm, k_norm=self.k_norm)

    def size(self, qkv: torch.Tensor) -> int:
        """The width of a head of ``qkv``."""
        return qkv.shape[1] // (self.heads + 2 * self.kv_heads)


@dataclass(frozen=True, eq=False)
class LogitChanges:
    """The runs of a step and what changes their logits: ``LogitChanges`` of csrc/step/cpu/logit_options.h."""

    starts: torch.Tensor  # int32 [S + 1]
    kv_slots: torch.Tensor  # int32 [T]
    positions: torch.Tensor  # int32 [T]
    made: torch.Tensor  # int32 [S]
    params: torch.Tensor  # int32 [slots, ADMITTED_WORDS]
    biases: torch.Tensor  # int32 [slots, BIAS_WORDS], in memory of the host
    history: torch.Tensor  # int32 [slots, positions]: each sequence's tokens
    eos_ids: torch.Tensor  # int32
    rules: torch.Tensor  # int32 [rules, RULE_WORDS]: first the ``n_forced`` that force a token
    rule_ids: torch.Tensor  # int32: the tokens that have to stand before another one, rule after rule
    counts: torch.Tensor  # int32 [≥ 2]: rows, runs
    n_forced: int
    longest: int  # most tokens that a rule has in ``rule_ids``
    targets: torch.Tensor | None = None  # int32 [S, TARGET_WORDS], if the header ``counts`` says so: of runs that stay
    # int32 [≥ S, (vocabulary + 31) // 32], in memory of the host: bit i of word w of a masked run allows token
    # 32·w + i; None: no run is masked
    masks: torch.Tensor | None = None
