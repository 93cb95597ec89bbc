"""The products and norms of one layer of a llama, as decoders and encoders of that layout have them."""

from __future__ import annotations

import torch

from fastqps.architectures.weights import Weights
from fastqps.kernels.layers import Attention
from fastqps.models.families.decoder import DecoderConfig
from fastqps.models.families.llama_encoder import LlamaEncoderConfig
from fastqps.ops.fp8 import concatenate, joined, scaled
from fastqps.ops.interface import Activated, Linear, Norm, Ops, Site, SiteKind


class LlamaParts:
    """The layer ``number``. ``activation`` is the gate's; ``norm_offset`` is added to the weights of norms."""

    def __init__(
        self,
        weights: Weights,
        number: int,
        config: DecoderConfig | LlamaEncoderConfig,
        ops: Ops,
        activation: str = "silu",
        norm_offset: float = 0.0,
    ) -> None:
        self._weights, self._config, self._ops = weights, config, ops
        self._at, self._number, self._offset = f"layers.{number}.", number, norm_offset
        # Attention's scale is in the queries, or in the norm that they pass through.
        self._scales = {"self_attn.q_norm" if config.qk_norm else "self_attn.q_proj": config.query_scale}
        c, queries, keys = config, config.heads * config.head_dim, config.kv_heads * config.head_dim
        self._head_norms = self._kept("q_norm"), self._kept("k_norm")
        self.attention_norm = self.norm("input_layernorm")
        qkv = {f"self_attn.{name}_proj": outputs for name, outputs in (("q", queries), ("k", keys), ("v", keys))}
        self.qkv = self._linear("qkv", qkv, c.hidden, c.qkv_bias)
        self.out = self._linear("out", {"self_attn.o_proj": c.hidden}, queries, c.out_bias)
        self.up = self._gated(activation)
        self.down = self._linear("down", {"mlp.down_proj": c.hidden}, c.inner, c.mlp_bias)

    def attention(self, rotary: torch.Tensor, window: int = 0, causal: bool = True) -> Attention:
        """The layer's attention."""
        c, eps = self._config, self._config.eps if self._config.qk_norm else 0.0
        return Attention(c.heads, c.kv_heads, rotary, *self._head_norms, eps, window, causal)

    def norm(self, name: str) -> Norm:
        """The layer's norm of that name."""
        return rms_norm(self._weights, f"{self._at}{name}.weight", self._config, self._ops, self._offset)

    def _linear(self, kind: SiteKind, names: dict[str, int], inputs: int, bias: bool) -> Linear:
        """One product for all of ``names`` (with their outputs), which read the same input."""
        matrices = [
            scaled(self._weights.matrix(f"{self._at}{name}.weight", outputs, inputs), self._scales.get(name))
            for name, outputs in names.items()
        ]
        biases = [
            scaled(self._weights(f"{self._at}{name}.bias", outputs), self._scales.get(name))
            for name, outputs in names.items()
            if bias
        ]
        return self._ops.linear(concatenate(matrices), joined(biases) if bias else None, self._site(kind))

    def _gated(self, activation: str) -> Activated:
        c, names = self._config, [f"{self._at}mlp.{name}_proj" for name in ("gate", "up")]
        gate, up = (self._weights.matrix(f"{name}.weight", c.inner, c.hidden) for name in names)
        biases = None
        if c.mlp_bias:
            gate_bias, up_bias = (self._weights(f"{name}.bias", c.inner) for name in names)
            biases = gate_bias, up_bias
        return self._ops.gated(gate, up, biases, activation, self._site("up"))

    def _kept(self, head_norm: str) -> torch.Tensor | None:
        if not self._config.qk_norm:
            return None
        name = f"self_attn.{head_norm}"
        weight = self._weights(f"{self._at}{name}.weight", self._config.head_dim) + self._offset
        return self._ops.keep(scaled(weight, self._scales.get(name)))

    def _site(self, kind: SiteKind) -> Site:
        return Site(kind, self._number, self._config.layers)


def rms_norm(
    weights: Weights, name: str, config: DecoderConfig | LlamaEncoderConfig, ops: Ops, offset: float = 0.0
) -> Norm:
    """The root mean square norm whose weight has that name; ``offset`` is added to it."""
    return ops.norm(weights(name, config.hidden) + offset, None, config.eps, "rms")
