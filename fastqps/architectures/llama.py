"""Llama and families of its layout: a packed decoder. Prompts and running sequences share each matrix product."""

from __future__ import annotations

import torch

from fastqps.architectures.llama_layer import LlamaLayer, make_norm
from fastqps.architectures.rope import rotary_tables
from fastqps.architectures.weights import Weights
from fastqps.models.families.decoder import DecoderConfig
from fastqps.ops.decode_step import DecodeState, DecodeStep
from fastqps.ops.fp8 import Weight, projected, transposed
from fastqps.ops.interface import DecodeOps, Rows, Site


def _vocabulary(weights: Weights, config: DecoderConfig, ops: DecodeOps) -> tuple[torch.Tensor, Weight]:
    """The table of words, and the head's weight: both as wide as the model, with the projections from and to it."""
    names, width = config.tensors, config.embedding or config.hidden
    words = weights(f"{names.words}.weight", config.vocab, width)
    if config.tied_head:
        weights.check_tied(f"{names.head}.weight", f"{names.words}.weight")
    if config.embedding:
        into = transposed(weights(f"{names.project_in}.weight", config.hidden, width))
        back = weights(f"{names.project_out}.weight", width, config.hidden)
        head = words if config.tied_head else weights(f"{names.head}.weight", config.vocab, width)
        return ops.keep(projected(words, into).to(ops.dtype)), projected(head, back)
    kept = ops.keep(words.to(ops.dtype))
    return kept, kept if config.tied_head else weights.matrix(f"{names.head}.weight", config.vocab, width)


class Llama:
    """The decoder, for sequences of up to ``positions`` tokens, prefix included."""

    def __init__(self, weights: Weights, config: DecoderConfig, positions: int, ops: DecodeOps) -> None:
        self.config, self.ops, names = config, ops, config.tensors
        self._words, head = _vocabulary(weights, config, ops)
        self._head = ops.linear(head, None, Site("logits"))
        self._places: torch.Tensor | None = None
        if names.places:
            first = config.first_place
            places = weights(f"{names.places}.weight", config.context + first, config.hidden)
            self._places = ops.keep(places[first : first + positions].to(ops.dtype))
        self._norm = make_norm(weights, names.norm, config, ops, config.logits_scale)
        tables = rotary_tables(config.ropes, config.head_dim, positions, ops.keep)
        self._layers = [LlamaLayer(weights, i, config, ops) for i in range(config.layers)]
        of_layers = zip(self._layers, tables, config.distances, strict=True)
        self._attention = [layer.attention(rotary, window) for layer, rotary, window in of_layers]
        weights.check_unread(names.layers, config.layers, more_layers=False, buffers=names.buffers)

    def hidden(self, step: DecodeStep, state: DecodeState) -> Rows:
        """Last hidden states of the sampled rows, normalised; every row's keys and values are in ``state`` then."""
        ops, (first, *others) = self.ops, self._layers
        x = ops.embed(self._words, step, state, self._places, self.config.embedding_scale)
        normed = first.attention_norm(x, first.qkv)
        of_layers = zip(self._layers, self._attention, [*others, None], state.cache, state.prefix, strict=True)
        for layer, attention, after, cache, prefix in of_layers:
            last = after is None
            attended = ops.attend(layer.project(normed), attention, cache, prefix, step, last)
            x, h = layer.finish(ops.last_rows(x, step) if last else x, attended)
            if after:
                x, normed = after.attention_norm.add(layer.down, h, x, after.qkv)
        return self._norm.add_post(layer.down, h, x, self._head)

    def __call__(self, step: DecodeStep, state: DecodeState) -> None:
        """Computes the step and samples each of its runs."""
        self.sample(self.logits(step, state), step, state)

    def logits(self, step: DecodeStep, state: DecodeState) -> torch.Tensor:
        """Logits of each run, [S, vocabulary]: what can be computed before the step's masks are there."""
        logits = self._head(self.hidden(step, state))
        return self.ops.cap(logits, self.config.logits_cap) if self.config.logits_cap else logits

    def sample(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> None:
        """Samples each run from its ``logits``, which may change."""
        self.ops.sample(logits, step, state)
