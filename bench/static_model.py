"""A model2vec directory of potion-base-8M's shape: 30,522 WordPieces, 256 dimensions in float32, normalized."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from model2vec import StaticModel
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from fastqps.models.names import resolve

_WIDTH = 256
_TABLE = "embeddings.word_embeddings.weight"


def write_static_model(folder: Path) -> Path:
    """Saves MiniLM's own token vectors, reduced by PCA as model2vec does it, and its tokenizer. Returns ``folder``."""
    _, path = resolve("minilm")
    table = load_file(path / "model.safetensors")[_TABLE].astype(np.float32)
    centred = table - table.mean(0)
    _, axes = np.linalg.eigh(centred.T @ centred)  # ascending
    reduced = np.ascontiguousarray(centred @ axes[:, ::-1][:, :_WIDTH])
    config = {"model_type": "model2vec", "architectures": ["StaticModel"]}
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    StaticModel(reduced, tokenizer, config, normalize=True).save_pretrained(folder)
    return folder
