"""Small decoders that embed, with all files of their published models: tokenizer, prompts, pooling, projections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers as tk
import torch
from bpe_files import QWEN
from checkpoints import write_checkpoint
from safetensors.torch import save_file
from sentence_files import MODEL_FILE, SPELLINGS, write, write_modules
from tokenizer_checkpoints import END, GEMMA_TOKENS, bpe_file, gemma_file

WIDTH = 32
INPUT_TOKENS = 64
QWEN3_PROMPTS = {"query": "Instruct: Given a query, find what answers it\nQuery:", "document": ""}
GEMMA_PROMPTS = {"query": "task: search result | query: ", "document": "title: none | text: ", "Clustering": "the of"}
MISTRAL_PROMPTS = {"sts_query": "Instruct: Retrieve similar text.\nQuery: ", "passage": "passage: "}


def write_qwen3(path: Path, **options: Any) -> dict[str, str]:
    """As Qwen3-Embedding: a ...ForCausalLM in name, its end token behind each text, the last token's vector."""
    file = bpe_file()
    vocab = file["model"]["vocab"]
    file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = QWEN
    file["post_processor"] = _template(f"$A {END}", f"$A {END} $B:1 {END}:1", [(END, vocab[END])])
    _write(path, "qwen3", file, ["Qwen3ForCausalLM"], pad_token_id=vocab[END], eos_token_id=vocab[END], **options)
    write(path / "tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer", "pad_token": END, "eos_token": END})
    _write_pooling(path, "pooling_mode_lasttoken")
    write(path / MODEL_FILE, {"prompts": QWEN3_PROMPTS, "default_prompt_name": None, "similarity_fn_name": "cosine"})
    return QWEN3_PROMPTS


def write_embedding_gemma(path: Path, **options: Any) -> dict[str, str]:
    """As EmbeddingGemma: the mean, then two projections without bias or activation."""
    _write(path, "gemma3_text", gemma_file(), ["Gemma3TextModel"], **options)
    named = {f"{name.strip('<>')}_token": name for name in GEMMA_TOKENS}
    write(path / "tokenizer_config.json", {"tokenizer_class": "GemmaTokenizer", **named})
    _write_pooling(path, "pooling_mode_mean_tokens", (WIDTH, 96), (96, 24))
    write(path / MODEL_FILE, {"prompts": GEMMA_PROMPTS, "default_prompt_name": None})
    return GEMMA_PROMPTS


def write_e5_mistral(path: Path, **options: Any) -> dict[str, str]:
    """As e5-mistral: begin and end tokens of the file's own template, prompts of every name."""
    file = gemma_file()
    _write(path, "mistral", file, ["MistralModel"], pad_token_id=0, **options)
    told = {"tokenizer_class": "LlamaTokenizer", "add_eos_token": True, "padding_side": "left", "pad_token": "<pad>"}
    write(path / "tokenizer_config.json", told)
    write(path / "sentence_bert_config.json", {"max_seq_length": 60, "processor_kwargs": {"padding_side": "left"}})
    _write_pooling(path, "pooling_mode_lasttoken")
    write(path / MODEL_FILE, {"prompts": MISTRAL_PROMPTS, "default_prompt_name": "passage"})
    return MISTRAL_PROMPTS


KINDS = {"qwen3": write_qwen3, "embedding-gemma": write_embedding_gemma, "e5-mistral": write_e5_mistral}


def _write(path: Path, family: str, file: dict[str, Any], architectures: list[str], **options: Any) -> None:
    size = max(max(file["model"]["vocab"].values()), *(token["id"] for token in file["added_tokens"])) + 1
    sizes = {"vocab_size": size, "max_position_embeddings": INPUT_TOKENS}
    write_checkpoint(path, family, **{**sizes, **options})
    config = json.loads((path / "config.json").read_text())
    write(path / "config.json", config | {"architectures": architectures})
    write(path / "tokenizer.json", file)


def _template(single: str, pair: str, ids: list[tuple[str, int]]) -> dict[str, Any]:
    made = tk.Tokenizer(tk.models.BPE())
    made.post_processor = tk.processors.TemplateProcessing(single, pair, ids)
    found: dict[str, Any] = json.loads(made.to_str())["post_processor"]
    return found


def _write_pooling(path: Path, mode: str, *projections: tuple[int, int]) -> None:
    """Pooling, projections of these sizes, and Normalize."""
    write(path / "1_Pooling/config.json", {"word_embedding_dimension": WIDTH, mode: True, "include_prompt": True})
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    for number, (inputs, outputs) in enumerate(projections, 2):
        folder, function = f"{number}_Dense", "torch.nn.modules.linear.Identity"
        own = {"in_features": inputs, "out_features": outputs, "bias": False, "activation_function": function}
        write(path / folder / "config.json", own)
        chance = torch.Generator().manual_seed(number)
        weight = torch.randn(outputs, inputs, generator=chance) * inputs**-0.5
        save_file({"linear.weight": weight}, path / folder / "model.safetensors")
        modules.append(("Dense", folder))
    modules.append(("Normalize", f"{len(modules)}_Normalize"))
    write_modules(path, [(SPELLINGS[kind][0], folder) for kind, folder in modules])
