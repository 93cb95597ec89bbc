"""Random models with a vector for each token, as sentence-transformers and as PyLate save them."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from token_classifiers import write_token_classifier

DIMENSIONS = 24
INPUT_TOKENS, QUERY_TOKENS, DOCUMENT_TOKENS = 64, 16, 40
EXPANDED = {"strategy": "fixed", "attend": True, "length": QUERY_TOKENS}
PYLATE = {
    "model_type": "ColBERT",
    "query_prefix": "[Q] ",
    "document_prefix": "[D] ",
    "query_length": QUERY_TOKENS,
    "document_length": DOCUMENT_TOKENS,
    "attend_to_expansion_tokens": True,
}


def write_multi(folder: Path, family: str = "bert", *, tokens: int = INPUT_TOKENS, **knobs: Any) -> str:
    """As sentence-transformers saves it. ``knobs`` of its Transformer, such as query_length, and of its mask."""
    # Here: every worker collects this, and seconds of imports are only for the one that writes such a model.
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    base = write_token_classifier(folder / "base", family, tokens)
    mask = {key: knobs.pop(key) for key in ("skiplist_words", "skiplist_tasks") if key in knobs}
    torch.manual_seed(3)
    modules = [
        Transformer(base, query_length=knobs.pop("query_length", None), **knobs),
        _dense(Dense, folder / "base", 48, torch.nn.GELU()),
        _dense(Dense, folder / "base", DIMENSIONS, torch.nn.Identity(), 48),
        MultiVectorMask(**({"skiplist_words": list(string.punctuation)} | mask)),
        Normalize(module_input_name="token_embeddings"),
    ]
    prompts = {"query": "query: ", "document": "a passage: ", "other": "word "}
    MultiVectorEncoder(modules=modules, prompts=prompts, device="cpu").save(str(folder / "model"))
    return str(folder / "model")


def _dense(kind: Any, base: Path, width: int, activation: torch.nn.Module, inputs: int = 0) -> Any:
    inputs = inputs or json.loads((base / "config.json").read_text())["hidden_size"]
    return kind(inputs, width, bias=False, activation_function=activation, module_input_name="token_embeddings")


def write_pylate(folder: Path, family: str = "bert", *, marked: bool = True, **config: Any) -> str:
    """As PyLate saves it. ``marked``: the prefixes are added tokens; else words of the text."""
    path = Path(write_token_classifier(folder, family, INPUT_TOKENS))
    if marked:
        file = json.loads((path / "tokenizer.json").read_text())
        mask = {"bert": "[MASK]"}.get(family, "<mask>")
        vocab = dict(file["model"]["vocab"]) if isinstance(file["model"]["vocab"], dict) else {}
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
        added = file.setdefault("added_tokens", []) or []
        first = max([len(file["model"]["vocab"]) - 1, *(each["id"] for each in added)]) + 1
        new = [mask] if mask not in vocab and not any(each["content"] == mask for each in added) else []
        for i, content in enumerate([*new, "[Q] ", "[D] "]):
            added.append({"id": first + i, "content": content, **flags})
        file["added_tokens"] = added
        (path / "tokenizer.json").write_text(json.dumps(file))
        _grow(path, len(new) + 2)
    width = json.loads((path / "config.json").read_text())["hidden_size"]
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
    ]
    dense = {"in_features": width, "out_features": DIMENSIONS, "bias": False, "use_residual": False}
    dense["activation_function"] = "torch.nn.modules.linear.Identity"
    (path / "1_Dense").mkdir()
    for name, found in (
        ("modules.json", modules),
        ("config_sentence_transformers.json", PYLATE | config),
        ("sentence_bert_config.json", {"max_seq_length": DOCUMENT_TOKENS - 1, "do_lower_case": False}),
        ("1_Dense/config.json", dense),
    ):
        (path / name).write_text(json.dumps(found))
    torch.manual_seed(4)
    save_file({"linear.weight": torch.randn(DIMENSIONS, width) * 0.1}, path / "1_Dense/model.safetensors")
    return str(path)


def _grow(path: Path, tokens: int) -> None:
    """Gives the encoder embeddings of so many tokens more."""
    import transformers as tr

    model = tr.AutoModelForTokenClassification.from_pretrained(path)
    model.resize_token_embeddings(model.config.vocab_size + tokens, mean_resizing=False)
    model.save_pretrained(path)
