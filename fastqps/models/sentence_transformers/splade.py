"""SPLADE: sparse embeddings out of the logits of a masked language model, as SpladePooling describes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from fastqps.errors import ModelError
from fastqps.models.files.keys import read_keys
from fastqps.models.sentence_transformers.keys import SPLADE_POOLING

# The function of a logit, in front of the log1p that makes a weight of it.
SpladeActivation = Literal["relu", "log1p_relu"]

_LOOK_UP = "weights of token ids need no server; look them up where queries are made"
_OTHER = "sparse embeddings are those of a masked language model, with SpladePooling"
# Modules of other sparse embeddings, and why they are not served.
UNSERVED: Mapping[str, str] = {
    **dict.fromkeys(
        ("Router", "Asym"),
        "what a text is for would decide which of several models embeds it; serve one of them alone",
    ),
    "SparseStaticEmbedding": _LOOK_UP,
    "IDF": _LOOK_UP,
    "SparseAutoEncoder": _OTHER,
    "CSRSparsity": _OTHER,
}


def read_splade(path: Path) -> SpladeActivation:
    """The activation that the config.json of a SpladePooling says. ``ModelError`` for what is not supported."""
    config = read_keys(path, SPLADE_POOLING)
    config.check_known()
    if (strategy := config.get("pooling_strategy", "max")) != "max":
        raise ModelError(f"{path}: pooling_strategy {strategy!r} is not supported; supported: max")
    chosen = config.get("activation_function", "relu")
    for activation in get_args(SpladeActivation):
        if chosen == activation:
            return activation  # type: ignore[no-any-return]
    raise ModelError(
        f"{path}: activation_function {chosen!r} is not supported; supported: {', '.join(get_args(SpladeActivation))}"
    )
