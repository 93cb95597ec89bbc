"""The configuration of an encoder, as architectures take it, and what its families share in reading it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.families.rope import Rope
from fastqps.models.files.config_values import count, size

# Activations that can stand between two products, and those that can stand between a gate and its product.
ACTIVATIONS = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu")
GATES = (*ACTIVATIONS, "silu")


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The fields that every encoder has. The class of the configuration chooses the architecture that computes it.

    A field with a default is an option: a family that does not declare it does not have it.
    """

    prefixes: tuple[str, ...]  # of which one may stand in front of the encoder's tensors
    hidden: int
    inner: int
    layers: int
    heads: int
    vocab: int
    positions: int | None  # of the table, or that the model was made for; None: as many as an operator allows
    eps: float
    activation: str
    types: int = 0  # rows of the table of token types; 0: the model has none
    position_offset: int = 0  # position id of a sequence's first token

    @property
    def tied_modules(self) -> tuple[str, ...]:
        """The names of modules that share one tensor."""
        return ()

    @property
    def input_limit(self) -> int | None:
        """The most tokens of an input that its positions allow; None: they allow any number."""
        return None if self.positions is None else self.positions - self.position_offset


@dataclass(frozen=True)
class BertTensors:
    """The names of a family's tensors behind the prefix. ``layer`` is a format string for the layer's number."""

    layer: str
    qkv: tuple[str, ...]  # query, key and value; or one tensor of all three
    out: str
    out_norm: str
    down: str
    down_norm: str
    up: str = ""  # with an activation
    up_gate: tuple[str, ...] = ()  # instead: what the gate's activation multiplies, and the gate; or one tensor of both
    gate_first: bool = False  # in one tensor of both
    unbiased: tuple[str, ...] = ()  # products without a bias
    words: str = "embeddings.word_embeddings"
    positions: str = "embeddings.position_embeddings"  # "": there is no such table
    types: str = "embeddings.token_type_embeddings"
    embedding_norm: str = "embeddings.LayerNorm"
    embedding_projection: str = "embeddings_project"
    relative_bias: str = "encoder.relative_attention_bias"


@dataclass(frozen=True, kw_only=True)
class Disentangled:
    """Vectors of distances between tokens: queries are multiplied with those of keys, and keys with those of queries.

    A table has 2 · ``span`` rows, of which the middle one is of a distance of 0.
    """

    table: str  # its name
    norm: str  # the name of the table's norm; "": there is none
    projections: tuple[str, str]  # behind a layer's name: of the table to vectors of keys, and of queries
    span: int
    farthest: int  # rows from span / 2 on grow logarithmically, up to this many tokens; 0: a row is one distance


@dataclass(frozen=True, kw_only=True)
class BertConfig(EncoderConfig):
    """Norm after each residual; learned positions or rotary ones; an activation or a gate between two products."""

    positions: int
    tensors: BertTensors
    rotary: Rope | None = None  # rotary positions
    attention_scale: float | None = None  # by which scores are multiplied; None: 1 / sqrt(head size)
    embedding: int | None = None  # the width of the tables, if a projection leads from it to ``hidden``
    shared_layers: tuple[str, ...] = ()  # the names in front of each layer's tensors, where layers share them
    relative_buckets: int = 0  # of distances between tokens, by which a bias of each head is added to scores; 0: none
    alibi: bool = False  # scores fall with the distance of two tokens, for each head by a slope of its own
    disentangled: Disentangled | None = None

    @property
    def layer_names(self) -> tuple[str, ...]:
        """The prefix of the names of each layer's tensors."""
        return self.shared_layers or tuple(map(self.tensors.layer.format, range(self.layers)))

    @property
    def query_scale(self) -> float | None:
        """The factor of queries that makes attention's 1 / sqrt(head size) the ``attention_scale``."""
        size = self.hidden // self.heads
        return None if self.attention_scale is None else float(self.attention_scale * size**0.5)


@dataclass(frozen=True, kw_only=True)
class ModernBertConfig(EncoderConfig):
    """Norm before each block, rotary positions, gates. A layer is of ``full_attention`` or ``sliding_attention``."""

    kinds: tuple[str, ...]  # by layer
    half_window: int  # in a sliding layer, a token sees as many tokens before it, and as many behind it
    thetas: Mapping[str, float]  # by kind
    attention_bias: bool
    mlp_bias: bool
    norm_bias: bool


@dataclass(frozen=True, kw_only=True)
class T5Config(EncoderConfig):
    """Root mean square norm before each block, an activation or a gate, and a bias of attention by distance."""

    head_size: int
    gated: bool
    buckets: int  # of distances
    farthest: int  # tokens, from which on distances are of one bucket

    @property
    def tied_modules(self) -> tuple[str, ...]:
        """The table of words has two names, whatever config.json says."""
        return ("shared", "embed_tokens")


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """The head of a classifier: pooling, a projection with activation and norm, and the projection to labels."""

    pooling: str
    dense: str = ""  # the name of the first projection; "": there is none, and the labels' follows the pooling
    activation: str = "identity"
    bias: bool = True  # of the first projection
    norm: str = ""  # the name of the norm behind the activation; "": there is none
    norm_bias: bool = False
    labels: str = "classifier"  # the name of the projection to labels
    labels_bias: bool = True
    skipped: int | None = None  # an id that a pooling of the last token passes over


@dataclass(frozen=True)
class TokenLogits:
    """The logits of tokens: products with rows of the table ``module``, multiplied by ``scale``."""

    module: str
    scale: float


@dataclass(frozen=True, kw_only=True)
class VocabularyHead:
    """The head of a masked language model: a projection, an activation, a norm, a product with the vocabulary."""

    dense: str  # the name of the projection
    activation: str
    norm: str  # the name of the norm behind the activation
    decoder: str  # the name of the product with the vocabulary
    width: int  # of what the decoder reads
    tied: bool  # the decoder's weight is the table of words, and its bias has either name
    eps: float
    words: str = "embeddings.word_embeddings"  # the table
    bias: str = ""  # the other name of the decoder's bias, with its ending; "": it has none
    dense_bias: bool = True
    norm_bias: bool = True
    decoder_bias: bool = True

    @property
    def tied_modules(self) -> tuple[str, ...]:
        """The names of modules that share one tensor."""
        return (self.words.rpartition(".")[2], self.decoder.rpartition(".")[2]) if self.tied else ()


def attention_heads(config: Mapping[str, Any], key: str, width_key: str, even: bool = False) -> int:
    """The number of attention heads; ``even``: each must have an even size."""
    width, heads = size(config, width_key), count(config, key)
    if width % heads:
        raise ModelError(f"config.json says {key} {heads}, which do not divide its {width_key} {width}")
    if even and width // heads % 2:
        raise ModelError(
            f"config.json says {key} {heads} and {width_key} {width}: rotary positions turn pairs, so that the size of "
            "a head must be even"
        )
    return heads
