"""Kinds of checkpoints with files of sentence-transformers, PyLate or PEFT: who writes them, and who answers.

``rows`` of the reference and of fastqps are lists of one array for each role that a text can have.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sentence_transformers as st
import static_models
import torch
import transformers as tr
from adapter_files import write_adapter
from checkpoints import write_checkpoint
from embedding_decoders import write_e5_mistral
from key_values import Place
from multi_vectors import write_multi, write_pylate
from peft import PeftModel
from rerankers import write_logit_score, write_qwen
from sentence_files import MODEL_FILE, SPELLINGS, TEXTS, write, write_base, write_dense, write_modules
from sparse_encoders import write_sparse_encoder
from token_classifiers import texts

from fastqps import Engine
from fastqps.models.adapters.adapter import ADAPTER_KEYS
from fastqps.models.files.keys import Rules, rules
from fastqps.models.sentence_transformers import keys

Rows = list[np.ndarray | None]  # None: a role that cannot be named
OWN = "sentence_bert_config.json"
ACTIVATION = "torch.nn.modules.activation."
_IDS = [[1, 5, 9, 30], [2, 7], [11] * 12]
_PAIRS = [("a b", "c d a"), ("C", "b"), ("d c b a b c d", "a b c")]
_WORDS = [*texts(6), "Hello, world! (a word...)", ".,!", "word " * 30]
_PROMPTS = {"prompts": {"query": "c d ", "document": "", "other": "b"}}


class Form(NamedTuple):
    """A kind of checkpoint: how it is written, whose keys are walked, and who answers."""

    write: Callable[[Path], Any]
    places: dict[Place, Rules]
    reference: Callable[[Path], Rows]
    answers: Callable[[Path], Rows]


def write_embedder(path: Path) -> None:
    write_base(path)
    kinds = {"Transformer": "", "Pooling": "1_Pooling", "Dropout": "d", "Dense": "2_Dense", "Normalize": "3_Normalize"}
    write_modules(path, [(SPELLINGS[kind][3], folder) for kind, folder in kinds.items()])
    write(path / "1_Pooling/config.json", {"embedding_dimension": 32, "pooling_mode": "mean", "include_prompt": True})
    write(path / "d/config.json", {"dropout": 0.5})
    write_dense(path / "2_Dense", activation_function=f"{ACTIVATION}Tanh")
    write(path / "3_Normalize/config.json", {})
    write(path / MODEL_FILE, {"model_type": "SentenceTransformer", **_PROMPTS})
    write(path / OWN, {"max_seq_length": 40, "do_lower_case": False})


def write_cross_encoder(path: Path) -> None:
    write_base(path, "classify", num_labels=3)
    write_modules(path, [(SPELLINGS["Transformer"][3], "")])
    write(path / OWN, {"transformer_task": "sequence-classification"})
    write(path / MODEL_FILE, {"model_type": "CrossEncoder"})


def write_reranker(path: Path) -> None:
    write_qwen(path)
    write_logit_score(path, "yes", "no")


def write_lora(path: Path) -> None:
    write_adapter(path / "adapter", write_checkpoint(path / "base", "bert"), target_modules=["query", "value"])


def by_prompt(encode: Callable[[str], Any]) -> Rows:
    """The rows of a text without a role, of a query and of a document."""
    found: Rows = []
    for name in ("", "query", "document"):
        try:
            rows = encode(name)
        except ValueError:
            found.append(None)
        else:
            found.append(np.concatenate(rows) if isinstance(rows, list) else np.asarray(rows))
    return found


def their_vectors(kind: Any, path: Path, given: list[str]) -> Rows:
    model = kind(str(path), device="cpu")
    options = {"convert_to_sparse_tensor": False} if kind is st.SparseEncoder else {"convert_to_numpy": True}
    found = [encode(given, **options) for encode in (model.encode, model.encode_query, model.encode_document)]
    return [np.concatenate(rows) if isinstance(rows, list) else np.asarray(rows) for rows in found]


def our_vectors(path: Path) -> Rows:
    engine = Engine(str(path), dtype="float32")
    return by_prompt(lambda name: engine.embed(TEXTS, prompt_name=name, truncate=True))


def our_tokens(path: Path) -> Rows:
    engine = Engine(str(path), dtype="float32")
    return by_prompt(lambda name: engine.embed_multi(_WORDS, prompt_name=name, truncate=True))


def our_sparse_vectors(path: Path) -> Rows:
    engine = Engine(str(path), dtype="float32")
    rows = np.zeros((len(_WORDS), engine.card.vocab_size), np.float32)
    for row, found in zip(rows, engine.embed_sparse(_WORDS, truncate=True), strict=True):
        row[found.ids] = found.weights
    return [rows, None, None]


def their_scores(path: Path) -> Rows:
    return [st.CrossEncoder(str(path), device="cpu").predict(_PAIRS).reshape(len(_PAIRS), -1)]


def our_scores(path: Path) -> Rows:
    engine = Engine(str(path), dtype="float32")
    return [np.array([[score for _, score in sorted(row)] for row in engine.predict(_PAIRS, truncate=True)])]  # type: ignore[misc]


def their_adapted(path: Path) -> Rows:
    model = PeftModel.from_pretrained(tr.AutoModel.from_pretrained(path / "base"), path / "adapter").eval()
    with torch.inference_mode():
        return [np.concatenate([model(input_ids=torch.tensor([ids]))[0].mean(1) for ids in _IDS])]


def our_adapted(path: Path) -> Rows:
    return [Engine(str(path / "base"), dtype="float32", adapter=str(path / "adapter")).embed(_IDS)]


def of_transformer(known: Rules, more: Rules = keys.MODEL) -> dict[Place, Rules]:
    """The places that every model with a Transformer in its root has."""
    arguments = {(OWN, name): keys.LOADING for name in ("model_kwargs", "model_args", "config_kwargs", "config_args")}
    arguments |= {(OWN, name): keys.TOKENIZER_LOADING for name in ("processor_kwargs", "tokenizer_args")}
    return {("modules.json", 0): keys.MODULE, (MODEL_FILE,): more, (OWN,): known, **arguments}


FORMS = {
    "embedder": Form(
        write_embedder,
        {
            **of_transformer(keys.TRANSFORMER),
            ("modules.json", 1): keys.MODULE,
            ("1_Pooling/config.json",): keys.POOLING,
            ("d/config.json",): rules(irrelevant=("dropout",)),
            ("2_Dense/config.json",): keys.DENSE,
            ("3_Normalize/config.json",): keys.NORMALIZE,
        },
        lambda path: their_vectors(st.SentenceTransformer, path, TEXTS),
        our_vectors,
    ),
    "decoder": Form(
        write_e5_mistral,
        {**of_transformer(keys.TRANSFORMER), ("1_Pooling/config.json",): keys.POOLING},
        lambda path: their_vectors(st.SentenceTransformer, path, TEXTS),
        our_vectors,
    ),
    "static": Form(
        lambda path: static_models.sentence_transformers(path, dense="Tanh"),
        {
            (MODEL_FILE,): keys.MODEL,
            ("modules.json", 0): keys.MODULE,
            ("1_Dense/config.json",): keys.DENSE,
            ("2_Normalize/config.json",): keys.NORMALIZE,
        },
        lambda path: their_vectors(st.SentenceTransformer, path, TEXTS),
        our_vectors,
    ),
    "cross-encoder": Form(write_cross_encoder, of_transformer(keys.TRANSFORMER), their_scores, our_scores),
    "logit-score": Form(
        write_reranker,
        {**of_transformer(keys.TRANSFORMER), ("1_LogitScore/config.json",): keys.LOGIT_SCORE},
        their_scores,
        our_scores,
    ),
    "sparse": Form(
        lambda path: write_sparse_encoder(path, "bert", spelling=3),
        of_transformer(keys.TRANSFORMER) | {("1_SpladePooling/config.json",): keys.SPLADE_POOLING},
        lambda path: their_vectors(st.SparseEncoder, path, _WORDS),
        our_sparse_vectors,
    ),
    "multi-vector": Form(
        lambda path: shutil.copytree(write_multi(path.parent / f"{path.name}-made"), path),
        {
            **of_transformer(keys.MULTI_TRANSFORMER, keys.MULTI_MODEL),
            (OWN, "query_expansion"): keys.EXPANSION,
            ("modules.json", 3): keys.MODULE,
            ("1_Dense/config.json",): keys.TOKEN_DENSE,
            ("3_MultiVectorMask/config.json",): keys.TOKEN_MASK,
            ("4_Normalize/config.json",): keys.TOKEN_NORMALIZE,
        },
        lambda path: their_vectors(st.MultiVectorEncoder, path, _WORDS),
        our_tokens,
    ),
    "pylate": Form(
        write_pylate,
        {
            **of_transformer(keys.MULTI_TRANSFORMER, keys.MULTI_MODEL),
            (MODEL_FILE, "query_expansion"): keys.EXPANSION,
            ("modules.json", 1): keys.MODULE,
            ("1_Dense/config.json",): keys.TOKEN_DENSE,
        },
        lambda path: their_vectors(st.MultiVectorEncoder, path, _WORDS),
        our_tokens,
    ),
    "adapter": Form(write_lora, {("adapter/adapter_config.json",): ADAPTER_KEYS}, their_adapted, our_adapted),
}
