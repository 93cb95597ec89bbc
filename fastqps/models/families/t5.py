"""T5's encoder, as sentence-t5 and gtr have it: norm before each block, a bias by distance, no other positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.families.encoder import ACTIVATIONS, GATES, T5Config
from fastqps.models.families.family import EncoderFamily
from fastqps.models.files.config_keys import ENCODER_KEYS
from fastqps.models.files.config_values import count, flag, positive, size
from fastqps.models.files.keys import rules

_OLD_GATED_GELU = "gated-gelu"  # it means the approximation


def read(config: Mapping[str, Any]) -> T5Config:
    """The encoder that ``config`` describes."""
    gated, activation = _feed_forward(config)
    buckets, farthest = (
        size(config, f"relative_attention_{key}", default, smallest=4)
        for key, default in (("num_buckets", 32), ("max_distance", 128))
    )
    if buckets % 4 or farthest <= buckets // 4:
        raise ModelError(
            f"config.json: relative_attention_num_buckets {buckets} with relative_attention_max_distance {farthest} is "
            "not supported; a multiple of 4 is, with a distance above a quarter of it"
        )
    return T5Config(
        prefixes=(),
        hidden=size(config, "d_model"),
        inner=size(config, "d_ff"),
        layers=count(config, "num_layers"),
        heads=count(config, "num_heads"),
        head_size=size(config, "d_kv", 64),
        vocab=size(config, "vocab_size"),
        positions=None,
        eps=positive(config, "layer_norm_epsilon", 1e-6),
        activation=activation,
        gated=gated,
        buckets=buckets,
        farthest=farthest,
    )


def _feed_forward(config: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether there is a gate, and the activation. As in transformers, ``feed_forward_proj`` says both where
    ``is_gated_act`` and ``dense_act_fn`` do not."""
    stated = str(config.get("feed_forward_proj", "relu"))
    kind, *gate = stated.split("-")
    if gate and (kind != "gated" or len(gate) > 1):
        raise ModelError(f"config.json: feed_forward_proj {stated!r} is neither an activation nor gated-ACTIVATION")
    gated = flag(config, "is_gated_act", kind == "gated")
    implied = "gelu_new" if stated == _OLD_GATED_GELU else stated.removeprefix("gated-")
    activation = config.get("dense_act_fn", implied)
    known = GATES if gated else ACTIVATIONS
    if activation not in known:
        key = "dense_act_fn" if "dense_act_fn" in config else "feed_forward_proj"
        raise ModelError(
            f"config.json: {key} {config.get(key, stated)!r} is not supported; its activation has to be one of "
            f"{', '.join(known)}"
        )
    return gated, str(activation)


FAMILY = EncoderFamily(
    name="t5",
    keys=ENCODER_KEYS
    | rules(
        honoured=(
            *("d_model", "d_kv", "d_ff", "num_layers", "num_heads", "layer_norm_epsilon", "feed_forward_proj"),
            *("relative_attention_num_buckets", "relative_attention_max_distance", "dense_act_fn", "is_gated_act"),
        ),
        # The decoder's keys, and those that follow from others.
        irrelevant=(
            *("is_encoder_decoder", "num_decoder_layers", "scale_decoder_outputs", "dropout_rate", "dropout"),
            *("initializer_factor", "n_positions", "max_position_embeddings"),
            *("id2label", "label2id", "num_labels", "problem_type"),
            *("sentence_transformers", "sbert_ce_default_activation_function"),
        ),
    ),
    aliases={
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers",
        "head_dim": "d_kv",
    },
    tokenizer="T5Tokenizer",
    read=read,
)
