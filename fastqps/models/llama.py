"""Llama, Qwen2 and Qwen3: one packed decoder. Prompts and running sequences share each step's matrix products."""

from __future__ import annotations

import torch

from fastqps.models.card import ModelError
from fastqps.models.decode_ops import DecodeOps, Heads
from fastqps.models.decode_step import DecodeState, DecodeStep
from fastqps.models.decoder_config import DecoderConfig
from fastqps.models.layers import Linear
from fastqps.models.rope import rotary_table
from fastqps.models.weights import Weights


class _Layer:
    def __init__(
        self,
        weights: Weights,
        at: str,
        config: DecoderConfig,
        rotary: torch.Tensor,
        dtype: torch.dtype,
        ops: DecodeOps,
    ) -> None:
        c, self._ops, self._eps = config, ops, config.eps

        def linear(names: dict[str, int], inputs: int, bias: bool) -> Linear:
            """One product for all of ``names`` (with their outputs), which read the same input."""
            weight = torch.cat([weights(f"{at}{name}.weight", n, inputs) for name, n in names.items()])
            biases = [weights(f"{at}{name}.bias", n) for name, n in names.items()] if bias else []
            return Linear(weight, torch.cat(biases) if bias else None, dtype)

        queries, keys, attn = c.heads * c.head_dim, c.kv_heads * c.head_dim, "self_attn."
        parts = {f"{attn}q_proj": queries, f"{attn}k_proj": keys, f"{attn}v_proj": keys}
        q_norm, k_norm = (weights(f"{at}{attn}{x}_norm.weight", c.head_dim) if c.qk_norm else None for x in "qk")
        self._heads = Heads(c.heads, c.kv_heads, c.head_dim, rotary, q_norm, k_norm, c.eps)
        self._attention_norm = weights(f"{at}input_layernorm.weight", c.hidden)
        self._qkv = linear(parts, c.hidden, c.qkv_bias)
        self._out = linear({f"{attn}o_proj": c.hidden}, queries, c.out_bias)
        self._mlp_norm = weights(f"{at}post_attention_layernorm.weight", c.hidden)
        self._gate_up = linear({"mlp.gate_proj": c.inner, "mlp.up_proj": c.inner}, c.hidden, c.mlp_bias)
        self._down = linear({"mlp.down_proj": c.hidden}, c.inner, c.mlp_bias)

    def __call__(
        self, x: torch.Tensor, step: DecodeStep, cache: torch.Tensor, prefix: torch.Tensor, last_rows: bool
    ) -> torch.Tensor:
        """x [T, hidden] → [T, hidden]; with ``last_rows``, of the last layer, [S, hidden]: nobody reads the others."""
        ops = self._ops
        qkv = self._qkv(ops.rms_norm(x, self._attention_norm, self._eps))
        attended = ops.attend(qkv, self._heads, cache, prefix, step, last_rows)
        if last_rows and step.n_runs < step.n_tokens:
            x = x[step.starts[1:] - 1]
        x = self._out.plus(attended, x)
        gate_up = self._gate_up(ops.rms_norm(x, self._mlp_norm, self._eps))
        return self._down.plus(ops.gated_silu(gate_up), x)


def _check_unread(weights: Weights, config: DecoderConfig) -> None:
    """Refuses a checkpoint whose layers hold more than its configuration says: its answers would be another model's."""
    for name, tensor in weights.unread().items():
        kind, _, rest = name.partition(".")
        number = rest.partition(".")[0]
        if kind != "layers" or not number.isdecimal():
            continue
        if int(number) >= config.layers:
            raise ModelError(
                f"{weights.where}: the checkpoint has a tensor {name!r}, but config.json says num_hidden_layers "
                f"{config.layers}"
            )
        if name.endswith((".weight", ".bias")) and tensor.any():  # zeros change nothing
            raise ModelError(
                f"{weights.where}: the checkpoint has a tensor {name!r}, for which config.json's model has no place"
            )


class Llama:
    """The decoder, for sequences of up to ``positions`` tokens, prefix included."""

    def __init__(
        self, weights: Weights, config: DecoderConfig, positions: int, dtype: torch.dtype, ops: DecodeOps
    ) -> None:
        self.config, self.dtype = config, dtype
        self._ops = ops
        words = weights("embed_tokens.weight", config.vocab, config.hidden)
        head = words if config.tied else weights("lm_head.weight", config.vocab, config.hidden)
        self._words = words.to(dtype).contiguous()
        self._head = Linear(head, None, dtype)
        self._norm = weights("norm.weight", config.hidden)
        rotary = rotary_table(config.rope, config.head_dim, positions)
        self._layers = [_Layer(weights, f"layers.{i}.", config, rotary, dtype, ops) for i in range(config.layers)]
        _check_unread(weights, config)

    def hidden(self, step: DecodeStep, state: DecodeState) -> torch.Tensor:
        """Last hidden states of the sampled rows, [S, hidden]; every row's keys and values are in ``state`` then."""
        x = self._ops.embed(self._words, step, state)
        for layer, cache, prefix in zip(self._layers, state.cache, state.prefix, strict=True):
            x = layer(x, step, cache, prefix, layer is self._layers[-1])
        return x

    def __call__(self, step: DecodeStep, state: DecodeState) -> None:
        """Computes the step and samples each of its runs."""
        x = self._ops.rms_norm(self.hidden(step, state), self._norm, self.config.eps)
        self._ops.sample(self._head(x), step, state)
