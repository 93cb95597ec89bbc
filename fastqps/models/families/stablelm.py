"""StableLM and StableLM 2: layer norms, a part of each head turned, and perhaps blocks that read the same norm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families.decoder import DecoderConfig, read_decoder
from fastqps.models.families.family import DecoderFamily
from fastqps.models.families.llama_layer import LlamaTensors
from fastqps.models.files.config_keys import DECODER_KEYS
from fastqps.models.files.config_values import flag, positive
from fastqps.models.files.keys import Refused, rules

_KV_HEADS, _TURNED = 32, 0.25  # where the file does not name them


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes."""
    parallel = flag(config, "use_parallel_residual")
    return read_decoder(
        config,
        kv_heads=_KV_HEADS,
        turned=_TURNED,
        eps=positive(config, "layer_norm_eps", 1e-5),
        qkv_bias=flag(config, "use_qkv_bias"),
        norm_kind="layer",
        norm_bias=True,
        parallel=parallel,
        tensors=LlamaTensors(mlp_norm="input_layernorm") if parallel else LlamaTensors(),
    )


FAMILY = DecoderFamily(
    name="stablelm",
    keys=DECODER_KEYS
    | rules(
        honoured=("layer_norm_eps", "use_qkv_bias", "use_parallel_residual", "partial_rotary_factor"),
        irrelevant=("rms_norm_eps", "hidden_dropout", "attention_bias", "mlp_bias"),
        refused={
            "qk_layernorm": Refused((False,), "queries and keys are not normalised; stablelm-2-1_6b has no norms")
        },
    ),
    encodes=False,
    read=read,
)
