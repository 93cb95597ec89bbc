"""Checkpoints with sentence-transformers' files around them, plain or with chosen oddities."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch
from checkpoints import write_checkpoint
from word_files import write_words

WORDS = {"[PAD]": 5, "c": 6, "d": 7, "C": 8}
BASES = "sentence_transformers.base.modules", "sentence_transformers.sentence_transformer.modules"
TEXTS = ["a b c d a", "C", "d c b a b c d a b c d"]

# The spellings under which sentence-transformers has published each module.
SPELLINGS = {
    kind: [
        f"sentence_transformers.models.{kind}",
        f"sentence_transformers.models.{kind}.{kind}",
        f"{BASES[own]}.{kind}",
        f"{BASES[own]}.{file}.{kind}",
    ]
    for kind, file, own in (
        ("Transformer", "transformer", 0),
        ("Pooling", "pooling", 1),
        ("Dense", "dense", 0),
        ("Normalize", "normalize", 0),
        ("Dropout", "dropout", 1),
    )
}


def write_base(path: Path, task: str = "embed", **options: Any) -> None:
    """A BERT with a tokenizer of words, as transformers saves it."""
    write_checkpoint(path, "bert", task, num_hidden_layers=1, vocab_size=16, **options)
    write_words(path, WORDS)
    told = {"tokenizer_class": "BertTokenizer", "model_max_length": 60, "pad_token": "[PAD]", "unk_token": "[UNK]"}
    told |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "do_lower_case": False, "strip_accents": None}
    write(path / "tokenizer_config.json", told)


def write(path: Path, value: Any) -> None:
    """``value`` as JSON; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def write_modules(path: Path, modules: list[tuple[str, str]]) -> None:
    """modules.json of (type, folder) in order."""
    entries = [{"idx": i, "name": str(i), "path": folder, "type": kind} for i, (kind, folder) in enumerate(modules)]
    write(path / "modules.json", entries)


def write_dense(path: Path, seed: int = 0, **config: Any) -> None:
    """A random projection, 32 to 8."""
    from safetensors.torch import save_file

    chance = torch.Generator().manual_seed(seed)
    write(path / "config.json", {"in_features": 32, "out_features": 8, "bias": True, **config})
    tensors = {"linear.weight": torch.randn(8, 32, generator=chance)}
    if config.get("bias", True):
        tensors["linear.bias"] = torch.randn(8, generator=chance)
    save_file(tensors, path / "model.safetensors")


def write_random(path: Path, chance: random.Random) -> None:
    """Files beside a base that is there: modules, their options and the model's, each drawn from what could be read."""
    pick = chance.choice
    modules = [(pick(SPELLINGS["Transformer"]), ""), (pick(SPELLINGS["Pooling"]), "1_Pooling")]
    modes = {
        "old": {f"pooling_mode_{mode}": chance.random() < 0.5 for mode in ("cls_token", "mean_tokens", "max_tokens")},
        "new": {"pooling_mode": pick(["mean", "cls", "max", ["cls"], ["cls", "mean"], "lasttoken", "weightedmean"])},
        "none": {},
    }
    pooling = {pick(["word_embedding_dimension", "embedding_dimension"]): pick([32, 31]), **modes[pick(list(modes))]}
    if chance.random() < 0.2:
        pooling["include_prompt"] = pick([True, False])
    write(path / "1_Pooling/config.json", pooling)
    if chance.random() < 0.3:
        modules.append((pick(SPELLINGS["Dropout"]), "d_Dropout"))
        write(path / "d_Dropout/config.json", {"dropout": 0.5})
    if chance.random() < 0.4:
        modules.append((pick(SPELLINGS["Dense"]), "2_Dense"))
        options: dict[str, Any] = {"activation_function": f"torch.nn.modules.{pick(_ACTIVATIONS)}"}
        options |= pick([{}, {}, {"module_input_name": "sentence_embedding"}, {"use_residual": False}])
        options |= pick([{}, {}, {}, {"module_input_name": "token_embeddings"}, {"use_residual": True}, {"new": 1}])
        if chance.random() < 0.3:
            options["bias"] = False
        write_dense(path / "2_Dense", **options)
    if chance.random() < 0.5:
        modules.append((pick(SPELLINGS["Normalize"]), "3_Normalize"))
        names = pick([None, {}, {"module_input_name": "sentence_embedding"}, {"module_input_name": "token_embeddings"}])
        if names is not None:
            write(path / "3_Normalize/config.json", names)
    write_modules(path, modules)
    own = {key: pick(values) for key, values in _OWN.items() if chance.random() < 0.12}
    if "modality_config" in own:
        own["module_output_name"] = pick(["token_embeddings", "token_embeddings", "sentence_embedding"])
    if chance.random() < 0.6:
        own["max_seq_length"] = pick([None, 5, 7, 40])
    if own or chance.random() < 0.3:
        write(
            path / pick(["sentence_bert_config.json", "sentence_roberta_config.json", "sentence_xlnet_config.json"]),
            own,
        )
    if chance.random() < 0.2:
        write(path / "sentence_distilbert_config.json", {"max_seq_length": 6})
    if chance.random() < 0.4:
        write(path / MODEL_FILE, {k: pick(v) for k, v in _MODEL.items() if chance.random() < 0.3})
    if chance.random() < 0.3:
        add(path / "tokenizer_config.json", {"model_max_length": pick([8, 12, 10**30])})
    if chance.random() < 0.1:
        (path / "modules.json").unlink()


def write_random_cross_encoder(path: Path, chance: random.Random) -> None:
    """A cross-encoder's files beside a classifier that is there, each with options drawn from what could be read."""
    pick = chance.choice
    if chance.random() < 0.7:
        write_modules(path, [(pick(SPELLINGS["Transformer"]), "")])
    task = "sequence-classification"
    own = {"transformer_task": pick([task] * 5 + ["feature-extraction"]), "max_seq_length": pick([None, None, 5, 40])}
    if chance.random() < 0.3:
        text = {"method": "forward", "method_output_name": "logits"}
        more = pick([{}, {}, {"image": text}, {"message": {**text, "format": "flat"}}])
        own |= {"modality_config": {"text": text, **more}, "module_output_name": "scores"}
    write(path / pick(["sentence_bert_config.json", "sentence_roberta_config.json"]), own)
    if chance.random() < 0.8:
        kind = pick(["CrossEncoder"] * 5 + ["SentenceTransformer"])
        options = {"activation_fn": pick(_FUNCTIONS), "prompts": {"query": pick(["", "a "])}}
        options |= {"default_prompt_name": pick([None, None, "query"])}
        write(path / MODEL_FILE, {"model_type": kind, **{k: v for k, v in options.items() if chance.random() < 0.6}})
    if chance.random() < 0.4:
        inner = {"version": "4.1.0", **pick([{}, {"activation_fn": pick(_FUNCTIONS)}])}
        add(path / "config.json", {"sentence_transformers": inner})
    if chance.random() < 0.3:
        add(path / "config.json", {"sbert_ce_default_activation_function": pick(_FUNCTIONS)})
    if chance.random() < 0.3:
        add(path / "config.json", {"problem_type": pick(["regression", "multi_label_classification"])})
    if chance.random() < 0.3:
        add(path / "tokenizer_config.json", {"model_max_length": pick([8, 12])})


def add(path: Path, values: dict[str, Any]) -> None:
    """Sets keys of a JSON file that is there, or writes it."""
    write(path, (json.loads(path.read_text()) if path.exists() else {}) | values)


MODEL_FILE = "config_sentence_transformers.json"
_ACTIVATIONS = ("activation.Tanh", "linear.Identity", "activation.ReLU", "activation.GELU", "activation.SiLU")
_FUNCTIONS = (
    None,
    "torch.nn.modules.linear.Identity",
    "torch.nn.Identity",
    "torch.nn.modules.activation.Sigmoid",
    "torch.nn.modules.activation.Softmax",
    "torch.nn.modules.activation.ReLU",
    "my_code.Identity",
)
_OWN: dict[str, list[Any]] = {
    "do_lower_case": [True, False],
    "transformer_task": ["feature-extraction", "fill-mask"],
    "modality_config": [
        {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
        {"text": {"method": "forward", "method_output_name": "pooler_output"}},
        {kind: {"method": "forward", "method_output_name": "last_hidden_state"} for kind in ("text", "image")},
        {kind: {"method": "forward", "method_output_name": "last_hidden_state"} for kind in ("text", "message")},
    ],
    "tokenizer_args": [{}, {"use_fast": True}, {"model_max_length": 5}, {"do_lower_case": True}],
    "processor_kwargs": [{}, {"model_max_length": 12}, {"truncation_side": "left"}, {"padding_side": "left"}],
    "model_args": [{}, {"add_pooling_layer": False}],
    "model_kwargs": [{}, {"attn_implementation": "eager"}],
    "config_args": [{}, {"hidden_act": "relu"}],
    "new_key": [1],
    "processing_kwargs": [{}, {"text": {"max_length": 4}}],
    "unpad_inputs": [False],
}
_MODEL: dict[str, list[Any]] = {
    "__version__": [{"sentence_transformers": "2.0.0"}],
    "prompts": [{"query": "a ", "passage": ""}],
    "default_prompt_name": [None, "query", "passage"],
    "similarity_fn_name": ["cosine", "dot"],
    "truncate_dim": [None, 4],
    "model_type": ["SentenceTransformer", "CrossEncoder"],
}
