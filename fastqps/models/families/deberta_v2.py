"""DeBERTa v2 and v3: BERT with vectors of distances, by which attention knows positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.families import bert
from fastqps.models.families.encoder import BertConfig, Disentangled, HeadConfig, attention_heads
from fastqps.models.families.family import EncoderFamily
from fastqps.models.files.config_keys import ENCODER_KEYS
from fastqps.models.files.config_values import choice, flag, positive, size
from fastqps.models.files.keys import Refused, rules

_BOTH = ("c2p", "p2c")
_QUERY, _KEY = "attention.self.query_proj", "attention.self.key_proj"
_OWN = ("attention.self.pos_key_proj", "attention.self.pos_query_proj")


def read(config: Mapping[str, Any]) -> BertConfig:
    """The encoder that ``config`` describes. Scores are sums of three products, and scaled as such."""
    hidden, heads = size(config, "hidden_size"), attention_heads(config, "num_attention_heads", "hidden_size")
    for key, width in (("embedding_size", hidden), ("attention_head_size", hidden // heads)):
        if size(config, key, width) != width:
            raise ModelError(f"config.json: {key} {config[key]} is not supported; {width}, by hidden_size, is")
    return bert.read(
        config,
        "deberta.",
        positions=size(config, "max_position_embeddings", 512),
        eps=positive(config, "layer_norm_eps", 1e-7),
        types=size(config, "type_vocab_size", 0, smallest=0),
        tensors=replace(
            bert.TENSORS,
            qkv=(_QUERY, _KEY, "attention.self.value_proj"),
            positions=bert.TENSORS.positions if flag(config, "position_biased_input", True) else "",
        ),
        attention_scale=(3 * hidden // heads) ** -0.5,
        disentangled=_disentangled(config),
    )


def _disentangled(config: Mapping[str, Any]) -> Disentangled:
    if not flag(config, "relative_attention"):
        raise ModelError("config.json: relative_attention false is not supported; true is")
    stated = config.get("pos_att_type")
    kinds = [kind.strip() for kind in stated.lower().split("|")] if isinstance(stated, str) else stated
    if not isinstance(kinds, list) or sorted(map(str, kinds)) != sorted(_BOTH):
        raise ModelError(f"config.json: pos_att_type {stated!r} is not supported; {'|'.join(_BOTH)} is")
    farthest, buckets = (size(config, key, -1, smallest=-1) for key in ("max_relative_positions", "position_buckets"))
    farthest = farthest if farthest > 0 else size(config, "max_position_embeddings", 512)
    if buckets > 0 and not 1 <= buckets // 2 < farthest - 1:
        raise ModelError(
            f"config.json: position_buckets {buckets} is not supported with max_relative_positions {farthest}: buckets "
            f"are at least 2, and half of them is less than {farthest - 1}"
        )
    norms = [norm.strip() for norm in choice(config, "norm_rel_ebd", "none", ("none", "layer_norm")).split("|")]
    return Disentangled(
        table="encoder.rel_embeddings",
        norm="encoder.LayerNorm" if "layer_norm" in norms else "",
        projections=(_KEY, _QUERY) if flag(config, "share_att_key") else _OWN,
        span=buckets if buckets > 0 else farthest,
        farthest=farthest if buckets > 0 else 0,
    )


def _head(config: Mapping[str, Any]) -> HeadConfig:
    width = size(config, "hidden_size")
    if size(config, "pooler_hidden_size", width) != width:
        raise ModelError(f"config.json: pooler_hidden_size {config['pooler_hidden_size']} is not hidden_size {width}")
    activation = choice(config, "pooler_hidden_act", "gelu", ("gelu", "relu", "silu", "tanh"))
    return HeadConfig(pooling="cls", dense="pooler.dense", activation=activation)


FAMILY = EncoderFamily(
    name="deberta_v2",
    keys=ENCODER_KEYS
    | rules(
        honoured=(
            *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "type_vocab_size"),
            *("hidden_act", "layer_norm_eps", "embedding_size", "attention_head_size", "pooler_hidden_size"),
            *("relative_attention", "pos_att_type", "max_relative_positions", "position_buckets", "norm_rel_ebd"),
            *("share_att_key", "position_biased_input", "pooler_hidden_act"),
        ),
        irrelevant=(
            *("hidden_dropout_prob", "attention_probs_dropout_prob", "pooler_dropout", "cls_dropout"),
            *("conv_act", "conv_groups", "padding_idx", "legacy"),
        ),
        refused={"conv_kernel_size": Refused((0,), "a convolution behind the first layer is not computed")},
    ),
    tokenizer="DebertaV2Tokenizer",
    read=read,
    read_head=_head,
)
