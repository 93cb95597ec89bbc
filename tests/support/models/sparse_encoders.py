"""Random sparse encoders of every family, as sentence-transformers saves them, with a tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from checkpoints import write_checkpoint
from sentence_files import MODEL_FILE, write, write_modules
from token_classifiers import INPUT_TOKENS, KINDS

from fastqps.api.prediction import Vector
from fastqps.engine.answers import sparse_embedding
from fastqps.models import ModelCard

SPARSE_FAMILIES = ("bert", "distilbert", "roberta", "xlm-roberta", "electra", "albert", "mpnet", "modernbert")
_OWN = "sentence_transformers.sparse_encoder"
# Every published spelling: the transformer's class, and the pooling's.
SPELLINGS = [
    (f"{_OWN}.models.MLMTransformer", f"{_OWN}.models.SpladePooling"),
    (f"{_OWN}.models.MLMTransformer.MLMTransformer", f"{_OWN}.models.SpladePooling.SpladePooling"),
    (f"{_OWN}.modules.mlm_transformer.MLMTransformer", f"{_OWN}.modules.splade_pooling.SpladePooling"),
    ("sentence_transformers.base.modules.transformer.Transformer", f"{_OWN}.modules.splade_pooling.SpladePooling"),
]
FILL_MASK = {
    "transformer_task": "fill-mask",
    "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
    "module_output_name": "token_embeddings",
}


def write_sparse_encoder(
    folder: Path,
    family: str,
    activation: str = "relu",
    spelling: int = 0,
    model: dict[str, Any] | None = None,
    **options: Any,
) -> str:
    """A checkpoint, most of whose token ids get a weight from any text. Returns its path.

    ``model``: more keys of config_sentence_transformers.json.
    """
    kind = {"mpnet": "roberta"}.get(family, family)  # padding has id 1
    make, special, _ = KINDS.get(kind, KINDS["bert"])
    file = make()
    write_checkpoint(
        folder,
        family,
        "embed_sparse",
        vocab_size=len(file["model"]["vocab"]),
        max_position_embeddings=INPUT_TOKENS + 2,
        **options,
    )
    (folder / "tokenizer.json").write_text(json.dumps(file))
    named = {name: next(token for token in special if key in token.lower()) for name, key in _NAMED.items()}
    write(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": INPUT_TOKENS, **named},
    )
    write_splade(folder, activation, spelling, model)
    return str(folder)


def write_splade(
    folder: Path, activation: str = "relu", spelling: int = 0, model: dict[str, Any] | None = None
) -> None:
    """sentence-transformers' files beside a masked language model."""
    transformer, pooling = SPELLINGS[spelling]
    write_modules(folder, [(transformer, ""), (pooling, "1_SpladePooling")])
    write(
        folder / "1_SpladePooling/config.json",
        {"pooling_strategy": "max", "activation_function": activation, "word_embedding_dimension": None},
    )
    if transformer.endswith(".Transformer"):
        write(folder / "sentence_bert_config.json", FILL_MASK)
    write(folder / MODEL_FILE, {"model_type": "SparseEncoder", **(model or {})})


def dense_rows(card: ModelCard, rows: Vector) -> Vector:
    """Output rows with a column for each token id, and one for the number of weights."""
    dense = np.zeros((len(rows), card.vocab_size + 1), np.float32)
    for row, out in zip(rows, dense, strict=True):
        found = sparse_embedding(card, row)
        out[found.ids], out[-1] = found.weights, found.active
    return dense


_NAMED = {"unk_token": "unk", "pad_token": "pad"}
