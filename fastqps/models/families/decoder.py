"""The configuration of a decoder, as its architecture takes it, and what its families share in reading it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.families.llama_layer import LlamaOptions
from fastqps.models.files.config_values import choice, count, flag, positive, size

ROPE_TYPES = ("default", "linear", "llama3")
KINDS = ("full_attention", "sliding_attention")  # of layers


@dataclass(frozen=True)
class Rope:
    """The rotation of queries and keys by position. ``factor`` and the fields after it belong to scaled types only."""

    kind: str  # one of ROPE_TYPES
    theta: float
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 1.0
    original_context: int = 0


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(LlamaOptions):
    """Sizes and options of one decoder."""

    hidden: int
    inner: int
    layers: int
    heads: int
    vocab: int
    context: int
    eps: float
    rope: Rope | None = None  # None: attention knows no positions
    tied_head: bool  # the rows of the vocabulary are also the head's weight
    embedding: int | None = None  # the width of the words; None: the model's
    first_place: int = 0  # the row of the first position in the table of places
    activation: str = "silu"
    logits_scale: float = 1.0
    window: int = 0  # the positions that a token of a sliding layer sees, itself included; 0: no layer slides
    sliding: tuple[bool, ...] = ()  # by layer
    prefixes: tuple[str, ...] = ("model.",)  # of which one may stand in front of the tensors, but the head's

    @property
    def tied_modules(self) -> tuple[str, ...]:
        """The names of modules that share one tensor."""
        return (self.tensors.head, self.tensors.words) if self.tied_head else ()


def read_decoder(
    config: Mapping[str, Any],
    *,
    windows: bool = False,
    window: int = 0,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    eps: float = 0.0,
    **options: Any,
) -> DecoderConfig:
    """A decoder with the keys of a llama; ``ModelError`` with the reason where it cannot be computed.

    ``windows``: the file can say that tokens of some layers see a window. ``window``: that of all layers, or of those
    that ``layer_types`` names; else 0.
    ``kv_heads`` and ``head_dim`` are those of a file that does not name them; None: one key-value head for each head,
    and the width's share. ``eps`` is of norms whose key is another. ``options`` are fields with a default.
    """
    choice(config, "hidden_act", "silu", ("silu", "swish"))  # two names of one
    heads, layers = count(config, "num_attention_heads"), count(config, "num_hidden_layers")
    context = size(config, "max_position_embeddings")
    kinds = layer_kinds(config, KINDS if windows or window else KINDS[:1])
    sliding = _sliding(config, layers, kinds) if windows else _slides(kinds or (KINDS[window > 0],) * layers)
    if windows and any(sliding):
        window = size(config, "sliding_window", 4096)
    return DecoderConfig(
        hidden=size(config, "hidden_size"),
        inner=size(config, "intermediate_size"),
        layers=layers,
        heads=heads,
        kv_heads=read_kv_heads(config, heads, kv_heads),
        head_dim=read_head_dim(config, head_dim),
        vocab=size(config, "vocab_size"),
        context=context,
        window=window,
        sliding=sliding,
        eps=eps or positive(config, "rms_norm_eps", 1e-6),
        rope=_rope(config, context),
        tied_head=flag(config, "tie_word_embeddings"),
        **options,
    )


def read_sizes(config: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes of a decoder whose heads all have keys of their own, and share its width: fields by name."""
    heads = count(config, "num_attention_heads")
    return {
        "hidden": size(config, "hidden_size"),
        "layers": count(config, "num_hidden_layers"),
        "heads": heads,
        "kv_heads": heads,
        "head_dim": _even(_share(config, heads)),
        "vocab": size(config, "vocab_size"),
        "context": size(config, "max_position_embeddings"),
    }


def read_kv_heads(config: Mapping[str, Any], heads: int, default: int | None) -> int:
    """The number of key-value heads. null means one for each head; so does absence without a ``default``."""
    stated = config.get("num_key_value_heads", default)
    kv_heads = heads if stated is None else count({"num_key_value_heads": stated}, "num_key_value_heads")
    if heads % kv_heads:
        raise ModelError(f"config.json: num_attention_heads {heads} cannot share num_key_value_heads {kv_heads}")
    return kv_heads


def read_head_dim(config: Mapping[str, Any], default: int | None) -> int:
    """The size that config.json states, else ``default``, else the width's share."""
    if default is not None:
        return _even(size(config, "head_dim", default))  # whatever the width
    if config.get("head_dim") is not None:
        return _even(size(config, "head_dim"))
    return _even(_share(config, count(config, "num_attention_heads")))


def _share(config: Mapping[str, Any], heads: int) -> int:
    width = size(config, "hidden_size")
    if width % heads:
        raise ModelError(f"config.json says {heads} attention heads, which do not divide its width {width}")
    return width // heads


def _even(head_dim: int) -> int:
    if head_dim % 2:
        raise ModelError(f"heads of size {head_dim} are not supported: rotary positions turn pairs, so it must be even")
    return head_dim


def layer_kinds(config: Mapping[str, Any], known: tuple[str, ...]) -> tuple[str, ...] | None:
    """The kind of each layer, one of ``known``; None where the file does not say it."""
    kinds = config.get("layer_types")
    if kinds is None:
        return None
    if not isinstance(kinds, list) or len(kinds) != config["num_hidden_layers"] or any(k not in known for k in kinds):
        raise ModelError(
            f"config.json: layer_types {json.dumps(kinds)[:200]} is not supported: one of {', '.join(known)} for each "
            "layer is"
        )
    return tuple(kinds)


def ropes_by_kind(config: Mapping[str, Any], kinds: Collection[str]) -> dict[str, dict[str, Any]]:
    """``rope_parameters`` of a model whose kinds of layers have one each: an object for each, perhaps an empty one."""
    parameters = config.get("rope_parameters")
    parameters = {} if parameters is None else parameters
    if not isinstance(parameters, dict) or any(not isinstance(parameters.get(kind), dict | None) for kind in kinds):
        raise ModelError(
            f"config.json: rope_parameters is not supported: an object with one for {' and '.join(kinds)} is"
        )
    if unknown := parameters.keys() - set(kinds):
        raise ModelError(f"config.json: rope_parameters.{min(unknown)} is not supported; supported: {', '.join(kinds)}")
    return {kind: dict(parameters.get(kind) or {}) for kind in kinds}


def _sliding(config: Mapping[str, Any], layers: int, kinds: tuple[str, ...] | None) -> tuple[bool, ...]:
    """Which layers slide."""
    slides = flag(config, "use_sliding_window") and config.get("sliding_window", 4096) is not None
    if kinds is None:
        first = size(config, "max_window_layers", 28, smallest=0) if slides else layers
        return tuple(i >= first for i in range(layers))
    if "sliding_attention" in kinds and not slides:
        raise ModelError("config.json says layer_types with sliding_attention and no use_sliding_window for them")
    return _slides(kinds)


def _slides(kinds: tuple[str, ...]) -> tuple[bool, ...]:
    return tuple(kind == KINDS[1] for kind in kinds)


def _rope(config: Mapping[str, Any], context: int) -> Rope:
    """``rope_parameters`` of today, or ``rope_theta`` and ``rope_scaling`` of before, which hold where both are."""
    key = "rope_scaling" if config.get("rope_scaling") else "rope_parameters"
    parameters, where = config.get(key) or {}, f"{key} of config.json"
    if not isinstance(parameters, dict):
        raise ModelError(f"config.json says {key} {json.dumps(parameters)}, which is no object")
    if any(isinstance(value, dict) for value in parameters.values()):
        raise ModelError(f"{where}: rotary positions by kind of layer ({', '.join(parameters)}) are not supported")
    if "rope_theta" not in parameters:
        parameters = parameters | {"rope_theta": positive(config, "rope_theta", 10_000.0)}
    original = "original_max_position_embeddings"  # the file's top level decides, even over that of its parameters
    return read_rope(parameters | ({original: config[original]} if original in config else {}), where, context)


def read_rope(parameters: Mapping[str, Any], where: str, context: int) -> Rope:
    """The rotation that one object of rotary parameters states, ``rope_theta`` included; ``where`` names it."""
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind not in ROPE_TYPES:
        raise ModelError(f"{where}: rope_type {kind!r} is not supported; supported: {', '.join(ROPE_TYPES)}")
    if parameters.get("partial_rotary_factor", 1.0) != 1.0:
        raise ModelError(f"{where}: partial_rotary_factor is not supported: rotary positions turn the whole of a head")
    theta = positive(parameters, "rope_theta", where=where)
    if kind == "default":
        return Rope(kind, theta)
    keys = ("factor", "low_freq_factor", "high_freq_factor") if kind == "llama3" else ("factor",)
    if lacking := [key for key in keys if parameters.get(key) is None]:
        raise ModelError(f"{where} lacks {' and '.join(lacking)}, which its type {kind!r} needs")
    factor, *wavelengths = (positive(parameters, key, where=where) for key in keys)
    if kind == "linear":
        return Rope(kind, theta, factor)
    low, high = wavelengths
    if low >= high:
        raise ModelError(f"{where} has a low_freq_factor that is not below its high_freq_factor")
    original = size(parameters, "original_max_position_embeddings", context, where=where)
    return Rope(kind, theta, factor, low, high, original)
