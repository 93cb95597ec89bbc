"""The layers of a llama and of the families that are computed as one, with what they declare to have otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class LlamaTensors:
    """The names of the tensors behind the prefix, without ``.weight`` and ``.bias``: a llama's, unless a family says.

    A norm or a table without a name is none.
    """

    words: str = "embed_tokens"
    places: str = ""  # a row for each position, which is added to the word's
    project_in: str = ""  # from the width of the words to the model's, where they differ
    project_out: str = ""  # and back, in front of the head
    norm: str = "norm"  # behind the last layer
    head: str = "lm_head"
    layers: str = "layers."  # in front of a layer's number
    attention_norm: str = "input_layernorm"  # of what goes into attention
    qkv: tuple[str, ...] = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")  # or one of all three
    out: str = "self_attn.o_proj"
    attention_post_norm: str = ""  # of what attention gives, before it is added
    mlp_norm: str = "post_attention_layernorm"
    up: tuple[str, ...] = ("mlp.gate_proj", "mlp.up_proj")  # or one of both, or of an MLP without a gate
    down: str = "mlp.down_proj"
    mlp_post_norm: str = ""
    buffers: tuple[str, ...] = ()  # of a layer, that old checkpoints have and nobody reads; with their endings
    transposed: bool = False  # a layer's weights are [inputs, outputs]
    by_head: bool = False  # one tensor of queries, keys and values has those of each head together


@dataclass(frozen=True, kw_only=True)
class LlamaOptions:
    """Attention of a llama, and options of its layers, each of which a family declares if it has it."""

    kv_heads: int
    head_dim: int
    attention_scale: float | None = None  # by which scores are multiplied; None: 1 / sqrt(head_dim)
    score_cap: float = 0.0  # scores become cap · tanh(score / cap); 0: they stay. Generators alone
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False  # queries and keys are normalised, head by head
    wide_qk_norm: bool = False  # queries are normalised as a whole, and so are keys
    norm_kind: Literal["rms", "layer"] = "rms"
    norm_bias: bool = False
    norm_offset: float = 0.0  # added to the weights of all norms
    gated: bool = True  # the activation is of a gate
    embedding_scale: float = 1.0  # by which words are multiplied
    parallel: bool = False  # attention and MLP read the same sum
    normed_sums: bool = False  # sums are normalised, and blocks read them so: a layer's ``attention_norm`` is behind it
    tensors: LlamaTensors = LlamaTensors()

    @property
    def query_scale(self) -> float | None:
        """The factor of queries that makes attention's 1 / sqrt(head_dim) the ``attention_scale``."""
        return None if self.attention_scale is None else float(self.attention_scale * self.head_dim**0.5)
