"""Checkpoints whose tokenizer is SentencePiece's byte-pair encoding, in the forms of published decoders.

Ids, generated tokens and text, whole and streamed, equal those of transformers. So do embeddings and scores.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tr
from checkpoints import write_checkpoint, write_sentence_modules
from decoders import expected, write_decoder
from spaced_files import content
from tokenizer_checkpoints import gemma_file
from tokenizer_texts import BLOCKS
from unigram_files import SpacedTexts

from fastqps import Engine
from fastqps.models.card_tokenizer import load_tokenizer

pytestmark = pytest.mark.compute

TEXTS = 8
LLAMA, FAST = {"tokenizer_class": "LlamaTokenizer"}, {"tokenizer_class": "LlamaTokenizerFast"}
# model_type, tokenizer.json, tokenizer_config.json
FORMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "TinyLlama": ("llama", "llama2", LLAMA | {"legacy": False, "add_bos_token": True, "padding_side": "right"}),
    "Danube 2": ("mistral", "llama2", LLAMA | {"legacy": True, "add_prefix_space": True}),
    "Danube 3": ("llama", "llama2", FAST | {"legacy": True, "add_prefix_space": True}),
    "Yi": ("llama", "llama2-normalized", LLAMA | {"legacy": True, "add_bos_token": False}),
    "Mistral v0.1": ("mistral", "llama2", LLAMA | {"legacy": True, "use_default_system_prompt": False}),
    "Mistral v0.3": ("mistral", "first-whole", FAST | {"legacy": False, "add_prefix_space": None}),
    "Gemma": ("llama", "gemma", {"tokenizer_class": "GemmaTokenizer"}),
    "without a class": ("llama", "llama2", {}),
}


def every_script(seed: int) -> list[str]:
    """Random texts: of one block of characters, of all of them, and of what SentencePiece treats in its own way."""
    r, spaced = random.Random(seed), SpacedTexts(seed)
    blocks = [range(first, last + 1) for _, first, last in BLOCKS]
    found = ["", " ", "\n", "hello", " hello  world", "\u2581x", "<s>", "a</s> b"]
    for i in range(TEXTS):
        block = r.choice(blocks)
        points = r.choices(block, k=12) if i % 2 else [r.choice(r.choice(blocks)) for _ in range(12)]
        found.append("".join(" " if r.random() < 0.2 or 0xD800 <= p < 0xE000 else chr(p) for p in points))
        found.append(spaced.text()[:24])
    return found


def write_tokenizer(folder: Path, kind: str, config: dict[str, Any]) -> int:
    """The size of its vocabulary."""
    file = gemma_file() if kind == "gemma" else json.loads(content(kind))
    (folder / "tokenizer.json").write_text(json.dumps(file))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return 1 + max(*file["model"]["vocab"].values(), *(each["id"] for each in file["added_tokens"]))


@pytest.mark.parametrize("form", FORMS)
def test_generation(tmp_path: Path, form: str) -> None:
    family, kind, config = FORMS[form]
    size = write_tokenizer(tmp_path, kind, config)
    model = write_decoder(tmp_path, family, vocab_size=size, max_position_embeddings=256)
    auto = tr.AutoTokenizer.from_pretrained(tmp_path)
    engine = Engine(str(tmp_path), dtype="float32", max_input_tokens=200, max_output_tokens=12)
    tokenizer = load_tokenizer(engine.card)
    assert tokenizer is not None and tokenizer.native
    leading, _ = tokenizer.around()
    texts = [text for text in every_script(1) if auto(text)["input_ids"]]
    answers = engine.generate(texts, max_tokens=12)
    for text, answer in zip(texts, answers, strict=True):
        ids = auto(text)["input_ids"]
        assert tokenizer.encode(text) == ids, ascii(text)
        twice = leading == 1 and ids[:1] == ids[1:2]  # a text that begins with the special token itself has it once
        assert answer.token_ids == expected(model, ids[twice:], 12), ascii(text)
        assert answer.text == auto.decode(answer.token_ids, skip_special_tokens=True), answer.token_ids
    for text, answer in list(zip(texts, answers, strict=True))[::8]:
        assert "".join(chunk.text for chunk in engine.generate_stream(text, max_tokens=12)) == answer.text
    engine.close()


@pytest.mark.parametrize("task", ["embed", "classify"])
def test_vectors_and_scores(tmp_path: Path, task: str) -> None:
    size = write_tokenizer(tmp_path, "llama2", LLAMA | {"legacy": False, "pad_token": "</s>"})
    options = {"num_labels": 3} if task == "classify" else {}
    model = write_checkpoint(tmp_path, "llama", task, vocab_size=size, max_position_embeddings=256, **options)
    if task == "embed":
        write_sentence_modules(tmp_path, "lasttoken")
    auto, engine = tr.AutoTokenizer.from_pretrained(tmp_path), Engine(str(tmp_path), dtype="float32")
    texts = [text for text in every_script(2) if auto(text)["input_ids"]]
    found = engine.predict(texts)
    for text, answer in zip(texts, found, strict=True):
        with torch.inference_mode():
            made = model(**auto(text, return_tensors="pt"))
        wanted = made.logits[0].softmax(0) if task == "classify" else made.last_hidden_state[0, -1]
        row = [dict(answer)[f"LABEL_{i}"] for i in range(3)] if task == "classify" else answer
        np.testing.assert_allclose(row, wanted.numpy(), atol=1e-4, err_msg=ascii(text))
