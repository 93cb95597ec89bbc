"""A table of published configurations: answers equal the reference's.

A model that is served and answers otherwise than transformers does with the same files is a silent difference. There
must be none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tr
from checkpoints import write_sentence_modules
from decoders import expected
from jina_bert import JinaBert
from model_runs import random_items, reference, run
from nightly import nightly_but
from published_bases import Config, Published
from published_configs import PUBLISHED

from fastqps.devices import make_runner
from fastqps.engine.generator import Generator
from fastqps.models import ModelCard, load_card
from fastqps.models.families import GENERATORS

pytestmark = pytest.mark.compute

VOCAB, HEADS, WIDTH = 200, 4, 32
TOLERANCE = 1e-4
PROMPTS = [[7], [9, 4, 6], list(range(5, 45))]
MAX_OUTPUT = 6
DECODERS = ("gemma3_text", *GENERATORS)


def shrink(config: Config) -> Config:
    """The configuration with small sizes. What is odd in it stays so: shared heads, heads of another size, windows."""
    small = dict(config)
    decoder = config.get("model_type") in DECODERS
    tables = "roberta" in str(config.get("model_type")) or config.get("model_type") == "camembert"
    sizes = {"hidden_size": WIDTH, "dim": WIDTH, "intermediate_size": 64, "hidden_dim": 64, "vocab_size": VOCAB}
    sizes |= {"num_hidden_layers": 4 if config.get("model_type") == "modernbert" else 2, "n_layers": 2}
    sizes |= {"max_position_embeddings": 128 if decoder else 66 if tables else 64}
    sizes |= {"position_buckets": 16, "pooler_hidden_size": WIDTH, "attention_head_size": WIDTH // HEADS}
    sizes |= {"d_model": WIDTH, "d_ff": 64, "d_kv": 16, "num_layers": 2, "num_decoder_layers": 2, "num_heads": HEADS}
    sizes |= {"n_heads": HEADS} if "n_heads" in config else {"num_attention_heads": HEADS}
    sizes |= {"n_embd": WIDTH, "n_head": HEADS, "n_layer": 2, "n_positions": 128, "ffn_dim": 64}
    sizes |= {"shared_intermediate_size": 64, "mamba_n_heads": HEADS}
    if config.get("word_embed_proj_dim"):
        sizes["word_embed_proj_dim"] = WIDTH if config["word_embed_proj_dim"] == config["hidden_size"] else WIDTH // 2
    small |= {key: size for key, size in sizes.items() if key in config}
    if config.get("num_key_value_heads"):
        small["num_key_value_heads"] = HEADS if config["num_key_value_heads"] == config["num_attention_heads"] else 2
    if "head_dim" in config:
        usual = config["head_dim"] * config["num_attention_heads"] == config["hidden_size"]
        small["head_dim"] = WIDTH // HEADS if usual else 16
    if config.get("local_attention") == 128:
        small["local_attention"] = 16  # so that a short text is longer than the window
    if (config.get("sliding_window") or 0) > 128 and (decoder and "use_sliding_window" not in config):
        small["sliding_window"] = 16
    if "layer_types" in config:
        small["layer_types"] = config["layer_types"][-2:]
    for key in ("bos", "cls", "eos", "pad", "sep"):
        if isinstance(id := config.get(f"{key}_token_id"), int) and id >= VOCAB:
            small[f"{key}_token_id"] = 3
    return _shorter_context(small)


def _shorter_context(config: Config) -> Config:
    """And factors of fewer waves: half as many as are turned of a head. No text of longrope may be longer."""
    scaling = config.get("rope_scaling")
    key, by = "original_max_position_embeddings", 64 if config["model_type"] == "phi3" else 512
    waves = int(WIDTH // HEADS * config.get("partial_rotary_factor", 1)) // 2
    if isinstance(scaling, dict):
        scaling = {name: each[:waves] if isinstance(each, list) else each for name, each in scaling.items()}
        config["rope_scaling"] = scaling
    if isinstance(scaling, dict) and key in scaling:
        config["rope_scaling"] = scaling | {key: scaling[key] // by}
    return config | {key: config[key] // by} if key in config else config


def write(path: Path, model: Published) -> Any:
    """Writes the checkpoint; returns what transformers makes of it."""
    path.mkdir()
    config = shrink(model.config)
    classes = {
        "ForSequenceClassification": tr.AutoModelForSequenceClassification,
        "ForCausalLM": tr.AutoModelForCausalLM,
        "LMHeadModel": tr.AutoModelForCausalLM,
    }
    architecture = str((config.get("architectures") or [""])[0])
    plain = tr.T5EncoderModel if config["model_type"] == "t5" else tr.AutoModel
    auto = next((found for ending, found in classes.items() if architecture.endswith(ending)), plain)
    auto = tr.AutoModel if model.pooling and plain is tr.AutoModel else auto
    _write_config(path, as_transformers_has_it(config))
    torch.manual_seed(0)
    make = auto._from_config if auto is tr.T5EncoderModel else auto.from_config
    jina = config.get("position_embedding_type") == "alibi"
    read = tr.AutoConfig.from_pretrained(path)
    made = JinaBert(read, "embed" if auto is tr.AutoModel else "classify") if jina else make(read).float()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    made.save_pretrained(path)
    (path / "generation_config.json").unlink(missing_ok=True)
    _write_config(path, config)
    if model.pooling:
        write_sentence_modules(path, model.pooling, normalize=model.normalize)
    if config["model_type"] == "new" or jina:
        return made.eval()
    return auto.from_pretrained(path, attn_implementation="eager", dtype=torch.float32).eval()


def as_transformers_has_it(config: Config) -> Config:
    """The type ``new`` is transformers' GTE with positions that it can scale as well."""
    if config["model_type"] != "new":
        return config
    factor, size = config["rope_scaling"]["factor"], config["hidden_size"] // config["num_attention_heads"]
    rope = {"rope_type": "linear", "rope_theta": config["rope_theta"] * factor, "factor": factor ** (2 / size)}
    dropped = ("rope_scaling", "rope_theta", "auto_map", "position_embedding_type")
    return {k: v for k, v in config.items() if k not in dropped} | {"model_type": "gte", "rope_parameters": rope}


def _write_config(path: Path, config: Config) -> None:
    (path / "config.json").write_text(json.dumps(config))


def encoder_difference(path: Path, card: ModelCard, model: Published, wanted: Any) -> float:
    items = random_items(np.random.default_rng(0), 5, card.max_input_tokens, pairs=card.family == "bert")
    outputs = [reference(wanted, item, card.second_segment_type == 1) for item in items]
    if card.task == "classify":
        rows = [out.logits for out in outputs]
    else:
        pooled = {"cls": lambda x: x[:, 0], "lasttoken": lambda x: x[:, -1]}.get(model.pooling, lambda x: x.mean(1))
        rows = [pooled(out[0]) for out in outputs]
    runner = make_runner("cpu", card, 8, 512, dtype="float32", threads=1)
    return float(np.abs(run(runner, items) - torch.cat(rows).numpy()).max())


def generator_difference(card: ModelCard, wanted: Any) -> float:
    """Of the tokens' log probabilities; infinite where a token differs."""
    found = Generator(card, dtype="float32").generate(PROMPTS, max_tokens=MAX_OUTPUT, logprobs=True)
    most = 0.0
    for prompt, made in zip(PROMPTS, found, strict=True):
        if made.token_ids != expected(wanted, prompt, MAX_OUTPUT, list(card.eos_ids)):
            return float("inf")
        with torch.inference_mode():
            logits = wanted(input_ids=torch.tensor([prompt + made.token_ids])).logits[0, len(prompt) - 1 : -1]
        logprobs = logits.log_softmax(-1)[range(len(made.token_ids)), made.token_ids]
        assert made.logprobs is not None
        most = max(most, float((logprobs - torch.tensor(made.logprobs)).abs().max()))
    return most


def quick() -> list[Published]:
    """The first of each family and task; the others are combinations of keys that test_key_values.py walks, too."""
    found: dict[tuple[str, str], Published] = {}
    for model in PUBLISHED:
        found.setdefault((model.config["model_type"], model.activation and "classify"), model)
    return list(found.values())


@pytest.mark.parametrize("model", nightly_but(quick(), PUBLISHED), ids=lambda model: model.name)
def test_equal_to_transformers(model: Published, tmp_path: Path) -> None:
    path = tmp_path / "model"
    wanted = write(path, model)
    card = load_card(str(path), 60, max_output_tokens=MAX_OUTPUT)
    assert card.normalize == model.normalize
    assert not model.warned or any(model.warned in warning for warning in card.warnings), card.warnings
    if not model.warned:
        assert not [warning for warning in card.warnings if "does not know" in warning or "auto_map" in warning]
    if card.task == "classify":
        assert card.labels == tuple(str(wanted.config.id2label[i]) for i in range(wanted.config.num_labels))
        assert card.activation == model.activation
    if card.task == "generate":
        assert generator_difference(card, wanted) < TOLERANCE
    else:
        assert encoder_difference(path, card, model, wanted) < TOLERANCE


def test_no_row_repeats_another() -> None:
    """Nor is one like another but for its sizes, which are shrunk."""
    rows = [(shrink(model.config), model.pooling, model.normalize) for model in PUBLISHED]
    assert len({json.dumps(row, sort_keys=True) for row in rows}) == len({model.name for model in PUBLISHED})
    assert sum("/" in model.name for model in PUBLISHED) >= 60
