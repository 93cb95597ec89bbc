"""NomicBERT: BERT with rotary positions, gates, and no biases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families import bert
from fastqps.models.families.encoder import GATES, BertConfig, BertTensors, attention_heads
from fastqps.models.families.family import EncoderFamily
from fastqps.models.families.rope import Rope
from fastqps.models.files.config_keys import ENCODER_KEYS
from fastqps.models.files.config_values import choice, rotary_theta, size
from fastqps.models.files.keys import Refused, rules

_OFF = (False,)
# transformers' keys, and those of the first files, which were published for code of their own.
_KEYS = ENCODER_KEYS | rules(
    honoured=(
        *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "type_vocab_size"),
        *("hidden_act", "layer_norm_eps", "rope_parameters", "rope_theta"),
        "activation_function",
    ),
    irrelevant=(
        *("hidden_dropout_prob", "attention_probs_dropout_prob", "default_theta", "head_dim"),
        *("attn_pdrop", "embd_pdrop", "resid_pdrop", "summary_first_dropout", "summary_activation", "summary_type"),
        *("summary_proj_to_labels", "summary_use_proj", "pad_vocab_size_multiple", "use_flash_attn", "use_xentropy"),
        *("fused_bias_fc", "fused_dropout_add_ln", "dense_seq_output", "last_layer_subset", "max_trained_positions"),
        "reorder_and_upcast_attn",
    ),
    refused={
        "rope_scaling": Refused(({},), "an encoder's rotary positions cannot be scaled"),
        "rotary_scaling_factor": Refused((), "an encoder's rotary positions cannot be scaled"),
        "rotary_emb_fraction": Refused((1, 1.0), "rotary positions turn the whole of each head"),
        "rotary_emb_interleaved": Refused(_OFF, "rotary positions turn the halves of each head against each other"),
        "prenorm": Refused(_OFF, "norms stand behind each residual"),
        "parallel_block": Refused(_OFF, "attention and the products behind it follow each other"),
        "parallel_block_tied_norm": Refused(_OFF, "attention and the products behind it follow each other"),
        "qkv_proj_bias": Refused(_OFF, "products have no biases"),
        "mlp_fc1_bias": Refused(_OFF, "products have no biases"),
        "mlp_fc2_bias": Refused(_OFF, "products have no biases"),
        "use_rms_norm": Refused(_OFF, "norms are layer norms"),
        "causal": Refused(_OFF, "an encoder's attention sees both directions"),
        "scale_attn_by_inverse_layer_idx": Refused(_OFF, "all layers scale their scores alike"),
        "rotary_emb_scale_base": Refused((), "rotary positions scale nothing"),
        "mup": Refused(_OFF, "no layer scales its products"),
        "scale_attn_weights": Refused((True,), "scores are divided by the root of a head's size"),
    },
)
_TENSORS = BertTensors(
    layer="encoder.layers.{}.",
    qkv=("attn.Wqkv",),
    out="attn.out_proj",
    out_norm="norm1",
    up_gate=("mlp.fc11", "mlp.fc12"),
    down="mlp.fc2",
    down_norm="norm2",
    embedding_norm="emb_ln",
    unbiased=("attn.Wqkv", "attn.out_proj", "mlp.fc11", "mlp.fc12", "mlp.fc2"),
    positions="",
)


def read(config: Mapping[str, Any]) -> BertConfig:
    """The encoder that ``config`` describes."""
    return bert.read(
        config,
        "nomic_bert.",
        heads=attention_heads(config, "num_attention_heads", "hidden_size", even=True),
        positions=size(config, "max_position_embeddings", 2048),
        activation=_gate(config),
        tensors=_TENSORS,
        rotary=Rope(theta=rotary_theta(config, 1000.0)),
    )


def _gate(config: Mapping[str, Any]) -> str:
    """``activation_function`` is the older key."""
    if config.get("hidden_act") is not None or config.get("activation_function") is None:
        return choice(config, "hidden_act", "silu", GATES)
    gates = {"swiglu": "silu", "geglu": "gelu"}
    return gates[choice(config, "activation_function", "swiglu", tuple(gates))]


FAMILY = EncoderFamily(
    name="nomic_bert",
    keys=_KEYS,
    older={
        "n_embd": "hidden_size",
        "n_head": "num_attention_heads",
        "n_inner": "intermediate_size",
        "n_layer": "num_hidden_layers",
        "n_positions": "max_position_embeddings",
        "layer_norm_epsilon": "layer_norm_eps",
        "rotary_emb_base": "rope_theta",
    },
    tokenizer="BertTokenizer",
    read=read,
    read_head=bert.FAMILY.read_head,
)
