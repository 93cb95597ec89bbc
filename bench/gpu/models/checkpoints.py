"""Checkpoints of true shapes with seeded random weights, written where they are needed: nothing is downloaded.

fastqps, transformers and sentence-transformers all load the same directory.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

from bench.gpu.models.shapes import Shape
from bench.gpu.models.vocabulary import write_tokenizer

CACHE = Path(__file__).parents[3] / "build/gpu-check/checkpoints"
_VERSION = 4  # of what is written here: another one is written anew
_MARK = "fastqps-bench.json"


def checkpoint(shape: Shape, cache: Path = CACHE, seed: int = 1) -> Path:
    """The directory of this shape's checkpoint, in bf16; written if it is not there yet."""
    path = cache / shape.name
    mark = {"version": _VERSION, "seed": seed, "config": shape.config}
    if (path / _MARK).is_file() and json.loads((path / _MARK).read_text()) == json.loads(json.dumps(mark)):
        return path
    partial = cache / f".{shape.name}.{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _write(shape, partial, seed)
        (partial / _MARK).write_text(json.dumps(mark))
        shutil.rmtree(path, ignore_errors=True)
        partial.rename(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return path


def _write(shape: Shape, path: Path, seed: int) -> None:
    import torch
    import transformers as tr
    from safetensors.torch import save_file

    config = tr.AutoConfig.for_model(shape.family, **shape.config)
    auto: Any = tr.AutoModel if shape.kind == "encoder" else tr.AutoModelForCausalLM
    with torch.device("meta"):
        model = auto.from_config(config)
    config.dtype = torch.bfloat16
    config.architectures = [type(model).__name__]
    config.save_pretrained(path)
    # Ten times as fast on a GPU: a billion numbers take a CPU as long as a measurement.
    chance = torch.Generator("cuda" if torch.cuda.is_available() else "cpu").manual_seed(seed)
    tensors = {
        name: _values(name, tuple(meta.shape), shape, chance)
        for name, meta in model.named_parameters()
        if name != "lm_head.weight"  # it is the embedding's
    }
    save_file(tensors, path / "model.safetensors", {"format": "pt"})
    if chance.device.type == "cuda":
        torch.cuda.empty_cache()  # servers need it
    write_tokenizer(shape, path)
    if shape.kind == "encoder":
        _write_sentence_modules(path, shape.hidden)
    else:
        (path / "generation_config.json").write_text(json.dumps({"do_sample": False, "max_new_tokens": 50}))


def _values(name: str, size: tuple[int, ...], shape: Shape, chance: Any) -> Any:
    """Random numbers with which every layer's output is about as large as its input, and no answer repeats itself.

    A product's weights are of 1/sqrt(inputs). A decoder whose embeddings serve as its head too would say its last token
    again and again: so they are small beside what the layers add, and attention is sharp enough to see the whole text.
    """
    import torch

    normal = torch.randn(size, generator=chance, dtype=torch.float32, device=chance.device)
    if "norm" in name.lower():
        values = 1 + 0.1 * normal if name.endswith("weight") else 0.02 * normal
    elif len(size) == 1:
        values = 0.02 * normal
    elif "embed" in name:
        values = normal / (1 if shape.kind == "encoder" else math.sqrt(shape.hidden))
    else:
        values = normal / math.sqrt(size[1])
    return (values * _gain(name)).to(torch.bfloat16).cpu()


def _gain(name: str) -> float:
    """The scale of a decoder's parameter; 1 for all others."""
    if "o_proj.weight" in name or "down_proj.weight" in name:
        return 3.0
    return 2.0 if any(part in name for part in ("q_proj.weight", "k_proj.weight", "q_norm", "k_norm")) else 1.0


def _write_sentence_modules(path: Path, width: int) -> None:
    """Mean pooling and normalisation, as all-MiniLM has them."""
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    listing = [
        {"idx": i, "name": str(i), "path": folder, "type": f"sentence_transformers.models.{kind}"}
        for i, (folder, kind) in enumerate(kinds)
    ]
    (path / "modules.json").write_text(json.dumps(listing, indent=1))
    (path / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True}
    (path / "1_Pooling/config.json").write_text(json.dumps(pooling))
    (path / "2_Normalize").mkdir()
    (path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 256, "do_lower_case": False}))
