"""ModernBERT: norm before each block, rotary positions, gated activations, attention alternately local and global."""

from __future__ import annotations

from typing import Any

import torch

from fastqps.models.attention import attend
from fastqps.models.card import ModelError
from fastqps.models.layers import Embedding, Linear, Norm, check_activation
from fastqps.models.step import Step
from fastqps.models.weights import Weights

_THETA = {"full_attention": 160_000.0, "sliding_attention": 10_000.0}
_OLD_THETA = {"full_attention": "global_rope_theta", "sliding_attention": "local_rope_theta"}


def layer_kinds(config: dict[str, Any]) -> list[str]:
    """The attention of each layer, ``full_attention`` or ``sliding_attention``; older files say every n-th is full."""
    every = config.get("global_attn_every_n_layers") or 3
    default = ["sliding_attention" if i % every else "full_attention" for i in range(config["num_hidden_layers"])]
    kinds: list[str] = config.get("layer_types") or default
    unknown = set(kinds) - set(_THETA)
    if unknown or len(kinds) != config["num_hidden_layers"]:
        raise ModelError(f"layer_types {kinds} are not supported: one of {', '.join(_THETA)} for each layer is")
    return kinds


def rotary_table(config: dict[str, Any], kind: str, positions: int) -> torch.Tensor:
    """cos and sin of every position and frequency: float32 [positions, 2, size / 2], of the given layer kind."""
    rope = (config.get("rope_parameters") or {}).get(kind) or {}
    if rope.get("rope_type", "default") != "default" or config.get("rope_scaling"):
        raise ModelError("scaled rotary positions are not supported; only rope_type 'default' is")
    theta = rope.get("rope_theta") or config.get(_OLD_THETA[kind]) or _THETA[kind]
    size = config["hidden_size"] // config["num_attention_heads"]
    frequencies = 1.0 / theta ** (torch.arange(0, size, 2, dtype=torch.float32) / size)
    angles = torch.arange(positions, dtype=torch.float32)[:, None] * frequencies
    return torch.stack((angles.cos(), angles.sin()), 1).contiguous()


class _Layer:
    def __init__(
        self,
        weights: Weights,
        number: int,
        config: dict[str, Any],
        rotary: torch.Tensor,
        window: int,
        dtype: torch.dtype,
    ) -> None:
        hidden, inner, at = config["hidden_size"], config["intermediate_size"], f"layers.{number}."
        self.heads: int = config["num_attention_heads"]
        self.activation = check_activation(config.get("hidden_activation", "gelu"))
        self.rotary, self.window = rotary, window

        def norm(name: str) -> Norm:
            return make_norm(weights, at + name, config)

        self.attention_norm = norm("attn_norm") if number else None
        self.qkv = Linear(
            weights(f"{at}attn.Wqkv.weight", 3 * hidden, hidden), weights.get(f"{at}attn.Wqkv.bias"), dtype
        )
        self.out = Linear(weights(f"{at}attn.Wo.weight", hidden, hidden), weights.get(f"{at}attn.Wo.bias"), dtype)
        self.mlp_norm = norm("mlp_norm")
        both = weights(f"{at}mlp.Wi.weight", 2 * inner, hidden)
        bias = weights.get(f"{at}mlp.Wi.bias")
        self.up = Linear(both[:inner], None if bias is None else bias[:inner], dtype)
        self.gate = Linear(both[inner:], None if bias is None else bias[inner:], dtype)
        self.down = Linear(weights(f"{at}mlp.Wo.weight", hidden, inner), weights.get(f"{at}mlp.Wo.bias"), dtype)

    def __call__(self, x: torch.Tensor, step: Step) -> torch.Tensor:
        normed = x if self.attention_norm is None else self.attention_norm(x)
        x = self.out.plus(attend(self.qkv(normed), step, self.heads, self.window, self.rotary), x)
        normed = self.mlp_norm(x)
        return self.down.plus(self.gate.times(normed, self.up(normed, self.activation)), x)


def make_norm(weights: Weights, name: str, config: dict[str, Any]) -> Norm:
    """The norm of that name, with a bias if the checkpoint has one."""
    weight = weights(f"{name}.weight", config["hidden_size"])
    return Norm(weight, weights.get(f"{name}.bias"), config.get("norm_eps", 1e-5))


class ModernBert:
    """The encoder: ``Step`` → last hidden states [tokens, hidden], for items of up to ``max_tokens``."""

    def __init__(self, weights: Weights, config: dict[str, Any], max_tokens: int, dtype: torch.dtype) -> None:
        self.hidden: int = config["hidden_size"]
        words = weights("embeddings.tok_embeddings.weight", config["vocab_size"], self.hidden)
        self._embedding = Embedding(make_norm(weights, "embeddings.norm", config), dtype, words, None, None)
        self._final = make_norm(weights, "final_norm", config)
        kinds = layer_kinds(config)
        tables = {kind: rotary_table(config, kind, max_tokens) for kind in set(kinds)}
        half = config.get("local_attention", 128) // 2
        self._layers = [
            _Layer(weights, i, config, tables[kind], half if kind == "sliding_attention" else 0, dtype)
            for i, kind in enumerate(kinds)
        ]

    def __call__(self, step: Step) -> torch.Tensor:
        x = self._embedding(step)
        for layer in self._layers:
            x = layer(x, step)
        return self._final(x, in_place=True)
