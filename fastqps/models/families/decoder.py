"""The configuration of a decoder, as its architecture takes it, and what its families share in reading it."""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.families.llama_layer import LlamaOptions
from fastqps.models.families.rope import LongRope, Rope, check_turned, read_rope
from fastqps.models.files.config_values import choice, count, flag, positive, size

KINDS = ("full_attention", "sliding_attention")  # of layers


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
    ropes: tuple[Rope | None, ...]  # by layer; None: attention knows no positions
    windows: tuple[int, ...]  # by layer: the positions that a token sees, itself included; 0: all
    tied_head: bool  # the rows of the vocabulary are also the head's weight
    embedding: int | None = None  # the width of the words; None: the model's
    first_place: int = 0  # the row of the first position in the table of places
    activation: str = "silu"
    logits_scale: float = 1.0
    logits_cap: float = 0.0  # logits become cap · tanh(logit / cap); 0: they stay
    causal: bool = True  # a token sees those before it alone
    prefixes: tuple[str, ...] = ("model.",)  # of which one may stand in front of the tensors, but the head's

    def __post_init__(self) -> None:
        if self.causal and 1 in self.windows:
            raise ModelError(
                "config.json says a sliding_window in which a token sees itself alone; that is not supported"
            )

    @property
    def distances(self) -> tuple[int, ...]:
        """By layer: a token sees those at most so many positions away; 0: all.

        In transformers, a window is one position shorter where attention is causal.
        """
        return tuple(window - 1 if window and self.causal else window for window in self.windows)

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
    theta: float = 10_000.0,
    turned: float | None = None,
    inner: int = 0,
    eps: float = 0.0,
    **options: Any,
) -> DecoderConfig:
    """A decoder with the keys of a llama; ``ModelError`` with the reason where it cannot be computed.

    ``windows``: the file can say that tokens of some layers see a window. ``window``: that of all layers, or of those
    that ``layer_types`` names; else 0.
    ``kv_heads`` and ``head_dim`` are those of a file that does not name them; None: one key-value head for each head,
    and the width's share. ``theta`` as well, and ``turned``, the share of a head that positions turn; None: the whole.
    ``inner`` and ``eps`` are those of files with other keys for them. ``options`` are fields with a default.
    """
    if "activation" not in options:
        choice(config, "hidden_act", "silu", ("silu", "swish"))  # two names of one
    heads, layers = count(config, "num_attention_heads"), count(config, "num_hidden_layers")
    context = size(config, "max_position_embeddings")
    kinds = layer_kinds(config, KINDS if windows or window else KINDS[:1])
    sliding = _sliding(config, layers, kinds) if windows else _slides(kinds or (KINDS[window > 0],) * layers)
    if windows and any(sliding):
        window = size(config, "sliding_window", 4096)
    rope, head_dim = read_rope(config, context, theta, turned), read_head_dim(config, head_dim)
    check_turned(rope, head_dim)
    return DecoderConfig(
        hidden=size(config, "hidden_size"),
        inner=inner or size(config, "intermediate_size"),
        layers=layers,
        heads=heads,
        kv_heads=read_kv_heads(config, heads, kv_heads),
        head_dim=head_dim,
        vocab=size(config, "vocab_size"),
        context=min(context, rope.context) if isinstance(rope, LongRope) else context,
        windows=tuple(window if slides else 0 for slides in sliding),
        eps=eps or positive(config, "rms_norm_eps", 1e-6),
        ropes=(rope,) * layers,
        tied_head=flag(config, "tie_word_embeddings"),
        causal=flag(config, "is_causal", True),
        **options,
    )


def read_sizes(config: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes of a decoder whose heads all have keys of their own, and share its width: fields by name.

    Attention of it sees all, and knows no positions.
    """
    heads, layers = count(config, "num_attention_heads"), count(config, "num_hidden_layers")
    return {
        "hidden": size(config, "hidden_size"),
        "layers": layers,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": _even(_share(config, heads)),
        "vocab": size(config, "vocab_size"),
        "context": size(config, "max_position_embeddings"),
        "ropes": (None,) * layers,
        "windows": (0,) * layers,
    }


def overlaid(
    config: Mapping[str, Any], *, over: Mapping[str, Any] | None = None, under: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    """``config`` with the values ``over`` before its own, and ``under`` where it has none."""
    return ChainMap(dict(over or {}), config, dict(under or {}))  # type: ignore[arg-type]


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
    if isinstance(kinds, list):
        kinds = [KINDS[0] if kind == "attention" else kind for kind in kinds]  # its name of before
    if not isinstance(kinds, list) or len(kinds) != config["num_hidden_layers"] or any(k not in known for k in kinds):
        raise ModelError(
            f"config.json: layer_types {json.dumps(kinds)[:200]} is not supported: one of {', '.join(known)} for each "
            "layer is"
        )
    return tuple(kinds)


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
