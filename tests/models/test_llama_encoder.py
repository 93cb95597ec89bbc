"""Decoders that embed or give scores: which ones do, and that they equal sentence-transformers and transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import write_checkpoint, write_sentence_modules
from decoders import write_decoder
from embedding_decoders import KINDS
from model_runs import reference, run
from sentence_transformers import SentenceTransformer

from fastqps import Engine
from fastqps.devices import make_runner
from fastqps.models import load_card
from fastqps.ops.cpu.matrix import multiplies

pytestmark = pytest.mark.compute

TEXTS = ["the day", "", "Where does the sun rise? 世界", "one\nand  another text " * 3, "the <eos> of <|endoftext|>"]
BF16 = pytest.mark.skipif(not multiplies(), reason="products are torch's on this CPU, which may have no bf16")


@pytest.mark.parametrize("kind", KINDS)
def test_equal_to_sentence_transformers(kind: str, tmp_path: Path) -> None:
    """Alone and together, cut where they are too long, with every prompt."""
    prompts = KINDS[kind](tmp_path)
    theirs, engine = SentenceTransformer(str(tmp_path), device="cpu"), Engine(str(tmp_path), dtype="float32")
    assert engine.card.task == "embed" and not [said for said in engine.card.warnings if "tokenizer" in said]
    assert prompts.items() <= dict(engine.card.prompts).items()
    texts = TEXTS if kind != "e5-mistral" else [text for text in TEXTS if text]  # which has no tokens without a prompt
    for name in ("", *prompts):
        asked = {"prompt_name": name} if name else {}
        wanted = theirs.encode(texts, **asked)
        found = engine.embed(texts, truncate=True, **asked)
        np.testing.assert_allclose(found, wanted, atol=1e-4)
        alone = np.concatenate([engine.embed([text], truncate=True, **asked) for text in texts])
        np.testing.assert_allclose(alone, found, atol=1e-5)


@BF16
@pytest.mark.parametrize("kind", KINDS)
def test_bf16_stays_close(kind: str, tmp_path: Path) -> None:
    KINDS[kind](tmp_path)
    exact, found = (Engine(str(tmp_path), dtype=dtype).embed(TEXTS[:-1]) for dtype in ("float32", "bfloat16"))
    assert (exact * found).sum(1).min() > 0.999


def test_a_modules_file_makes_an_embedder_of_a_generator(tmp_path: Path) -> None:
    """Whatever config.json calls it, and with or without the prefix of its tensors."""
    model = write_decoder(tmp_path, "qwen3")
    assert load_card(str(tmp_path), 40, max_output_tokens=8).task == "generate"
    write_sentence_modules(tmp_path, "lasttoken")
    ids = list(range(5, 45))
    with torch.inference_mode():
        wanted = model.model(torch.tensor([ids])).last_hidden_state[0, -1].numpy()
    np.testing.assert_allclose(Engine(str(tmp_path), dtype="float32").embed([ids])[0], wanted, atol=1e-4)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_decoder_of_both_directions(attention: str, tmp_path: Path) -> None:
    import transformers as tr

    write_checkpoint(tmp_path, "qwen2", is_causal=False)
    write_sentence_modules(tmp_path)
    model = tr.AutoModel.from_pretrained(tmp_path, attn_implementation=attention).eval()
    items = [list(range(3, 3 + n)) for n in (1, 17, 40)]
    with torch.inference_mode():
        wanted = [model(torch.tensor([ids])).last_hidden_state[0].mean(0).numpy() for ids in items]
    np.testing.assert_allclose(Engine(str(tmp_path), dtype="float32").embed(items), wanted, atol=1e-4)


@pytest.mark.parametrize("padding", [0, None])
@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
def test_scores_are_of_the_last_token_that_is_no_padding(family: str, padding: int | None, tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path, family, "classify", num_labels=3, pad_token_id=padding)
    items = [([5, 6, 0, 7, 0, 0], []), ([0, 0], []), ([9, 8], []), ([0], [])]
    wanted = torch.cat([reference(model, item, False).logits for item in items]).numpy()
    runner = make_runner("cpu", load_card(str(tmp_path)), 8, 64, dtype="float32", threads=1)
    found = run(runner, [(ids, [0] * len(ids)) for ids, _ in items])
    np.testing.assert_allclose(found, wanted, atol=1e-4)
