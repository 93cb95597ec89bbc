"""ModernBERT: norm before each block, rotary positions, gated activations, attention alternately local and global."""

from __future__ import annotations

from typing import Any

import torch

from fastqps.models.card import ModelError
from fastqps.models.fp8 import halves
from fastqps.models.ops import EncoderOps, Linear, Norm, Rows, Site, SiteKind
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
        ops: EncoderOps,
    ) -> None:
        hidden, inner, at = config["hidden_size"], config["intermediate_size"], f"layers.{number}."
        self._heads: int = config["num_attention_heads"]
        self._rotary, self._window, self._ops = rotary, window, ops

        def site(kind: SiteKind) -> Site:
            return Site(kind, number, config["num_hidden_layers"])

        def linear(kind: SiteKind, name: str, outputs: int, inputs: int) -> Linear:
            return ops.linear(
                weights.matrix(f"{at}{name}.weight", outputs, inputs), weights.get(f"{at}{name}.bias"), site(kind)
            )

        if number:  # the embedding has normalised the first one's
            self.attention_norm = make_norm(weights, f"{at}attn_norm", config, ops)
        self.qkv = linear("qkv", "attn.Wqkv", 3 * hidden, hidden)
        self._out = linear("out", "attn.Wo", hidden, hidden)
        self._mlp_norm = make_norm(weights, f"{at}mlp_norm", config, ops)
        gate, up = halves(weights.matrix(f"{at}mlp.Wi.weight", 2 * inner, hidden))
        bias = weights.get(f"{at}mlp.Wi.bias")
        biases = None if bias is None else (bias[:inner], bias[inner:])
        self._up = ops.gated(gate, up, biases, config.get("hidden_activation", "gelu"), site("up"))
        self.down = linear("down", "mlp.Wo", hidden, inner)

    def __call__(self, x: torch.Tensor, normed: Rows, step: Step) -> tuple[torch.Tensor, Rows]:
        """x [tokens, hidden] and its norm → a new x, and the rows of which ``down`` is still to be added to it."""
        ops = self._ops
        attended = ops.attend(self.qkv(normed), step, self._heads, self._window, self._rotary)
        x, normed = self._mlp_norm.add(self._out, ops.rows(attended, self._out), x, self._up)
        return x, self._up(normed, self.down)


def make_norm(weights: Weights, name: str, config: dict[str, Any], ops: EncoderOps) -> Norm:
    """The norm of that name, with a bias if the checkpoint has one."""
    return ops.norm(*norm_of(weights, name, config), "layer")


def norm_of(weights: Weights, name: str, config: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor | None, float]:
    weight = weights(f"{name}.weight", config["hidden_size"])
    return weight, weights.get(f"{name}.bias"), config.get("norm_eps", 1e-5)


class ModernBert:
    """The encoder: ``Step`` → last hidden states [tokens, hidden], for items of up to ``max_tokens``."""

    def __init__(self, weights: Weights, config: dict[str, Any], max_tokens: int, ops: EncoderOps) -> None:
        self.hidden: int = config["hidden_size"]
        words = weights("embeddings.tok_embeddings.weight", config["vocab_size"], self.hidden)
        self._embedding = ops.embedding(words, None, None, norm_of(weights, "embeddings.norm", config), 0)
        self._final = make_norm(weights, "final_norm", config, ops)
        kinds = layer_kinds(config)
        tables = {kind: ops.keep(rotary_table(config, kind, max_tokens)) for kind in sorted(set(kinds))}
        half = config.get("local_attention", 128) // 2
        self._layers = [
            _Layer(weights, i, config, tables[kind], half if kind == "sliding_attention" else 0, ops)
            for i, kind in enumerate(kinds)
        ]

    def __call__(self, step: Step) -> torch.Tensor:
        first, *others = self._layers
        normed, step = self._embedding(step, first.qkv)
        x = normed.tensor
        for layer, after in zip(self._layers, [*others, None], strict=True):
            x, h = layer(x, normed, step)
            if after:
                x, normed = after.attention_norm.add(layer.down, h, x, after.qkv)
        return self._final.add_post(layer.down, h, x, None).tensor
