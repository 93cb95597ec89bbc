"""Llama and families of its layout: a packed decoder. Prompts and running sequences share each matrix product."""

from __future__ import annotations

import torch

from fastqps.architectures.llama_parts import LlamaParts, rms_norm
from fastqps.architectures.rope import rotary_table
from fastqps.architectures.weights import Weights
from fastqps.errors import ModelError
from fastqps.models.families.decoder import DecoderConfig
from fastqps.ops.decode_step import DecodeState, DecodeStep
from fastqps.ops.interface import DecodeOps, Rows, Site


class _Layer:
    def __init__(
        self, weights: Weights, number: int, config: DecoderConfig, rotary: torch.Tensor, ops: DecodeOps
    ) -> None:
        parts = LlamaParts(weights, number, config, ops)
        self._attention, self._ops = parts.attention(rotary), ops
        self.attention_norm, self.qkv, self._out = parts.attention_norm, parts.qkv, parts.out
        self._mlp_norm = parts.norm("post_attention_layernorm")
        self._up, self.down = parts.up, parts.down

    def __call__(
        self,
        x: torch.Tensor,
        normed: Rows,
        step: DecodeStep,
        cache: torch.Tensor,
        prefix: torch.Tensor,
        last_rows: bool,
    ) -> tuple[torch.Tensor, Rows]:
        """x [T, hidden] and its norm → a new x, and the rows of which ``down`` is still to be added to it.

        With ``last_rows``, of the last layer, they are [S, …]: nobody reads the others.
        """
        ops = self._ops
        attended = ops.attend(self.qkv(normed), self._attention, cache, prefix, step, last_rows)
        if last_rows:
            x = ops.last_rows(x, step)
        x, normed = self._mlp_norm.add(self._out, ops.rows(attended, self._out), x, self._up)
        return x, self._up(normed, self.down)


def _check_tied_head(weights: Weights, words: torch.Tensor) -> None:
    """Refuses a head of its own where the configuration ties it: versions of transformers answer differently."""
    head = weights.get("lm_head.weight")
    if head is not None and not head.is_meta and not torch.equal(head, words):
        raise ModelError(
            f"{weights.where}: config.json says tie_word_embeddings true, and the checkpoint has an lm_head.weight "
            "that differs from embed_tokens.weight; write false if the model's head is its own, or take the tensor out"
        )


class Llama:
    """The decoder, for sequences of up to ``positions`` tokens, prefix included."""

    def __init__(self, weights: Weights, config: DecoderConfig, positions: int, ops: DecodeOps) -> None:
        self.config, self.ops = config, ops
        words = weights("embed_tokens.weight", config.vocab, config.hidden)
        if config.tied_head:
            _check_tied_head(weights, words)
        self._words = ops.keep(words.to(ops.dtype))
        head = self._words if config.tied_head else weights.matrix("lm_head.weight", config.vocab, config.hidden)
        self._head = ops.linear(head, None, Site("logits"))
        self._norm = rms_norm(weights, "norm.weight", config, ops)
        rotary = ops.keep(rotary_table(config.rope, config.head_dim, positions))
        self._layers = [_Layer(weights, i, config, rotary, ops) for i in range(config.layers)]
        weights.check_unread("layers.", config.layers, more_layers=False)

    def hidden(self, step: DecodeStep, state: DecodeState) -> Rows:
        """Last hidden states of the sampled rows, normalised; every row's keys and values are in ``state`` then."""
        first, *others = self._layers
        x = self.ops.embed(self._words, step, state)
        normed = first.attention_norm(x, first.qkv)
        for layer, after, cache, prefix in zip(self._layers, [*others, None], state.cache, state.prefix, strict=True):
            x, h = layer(x, normed, step, cache, prefix, last_rows=after is None)
            if after:
                x, normed = after.attention_norm.add(layer.down, h, x, after.qkv)
        return self._norm.add_post(layer.down, h, x, self._head)

    def __call__(self, step: DecodeStep, state: DecodeState) -> None:
        """Computes the step and samples each of its runs."""
        self.ops.sample(self._head(self.hidden(step, state)), step, state)
