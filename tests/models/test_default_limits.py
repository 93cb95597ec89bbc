"""Without --max-input-tokens a model takes what it was made for, memory stays bounded, and what is less is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checkpoints import write_checkpoint, write_sentence_modules
from decoders import write_byte_tokenizer, write_decoder
from word_files import write_words

from fastqps.config import Config, decide
from fastqps.engine.engine import Engine
from fastqps.models import load_card
from fastqps.supervisor.plan import make_plan

pytestmark = pytest.mark.compute


def _long_model(path: Path, positions: int = 8192) -> str:
    write_checkpoint(path, "modernbert", num_hidden_layers=1, vocab_size=300, max_position_embeddings=positions)
    write_sentence_modules(path)
    write_byte_tokenizer(path)
    return str(path)


def test_an_encoder_takes_its_own_limit(tmp_path: Path) -> None:
    path = _long_model(tmp_path)
    card = load_card(path)
    assert (card.max_input_tokens, card.warnings) == (8192, ())
    (warning,) = load_card(path, 512).warnings
    assert "at most 512 tokens and the model takes 8192" in warning and "--max-input-tokens" in warning
    assert len(Engine(path, dtype="float32").embed(["x" * 3000])) == 1
    with pytest.raises(ValueError, match=r"3002 tokens|3001 tokens"):
        Engine(path, dtype="float32", max_input_tokens=512).embed(["x" * 3000])


def test_a_limit_beyond_the_bound_is_said(tmp_path: Path) -> None:
    card = load_card(_long_model(tmp_path, 32768))
    assert card.max_input_tokens == 8192
    assert "at most 8192 tokens and the model takes 32768" in card.warnings[0]


def test_a_generator_takes_512(tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama", max_position_embeddings=4096, eos_token_id=1)
    write_byte_tokenizer(tmp_path)
    card = load_card(str(tmp_path))
    assert card.max_input_tokens == 512
    assert "at most 512 tokens and the model's context has room for 3072" in card.warnings[0]
    assert load_card(str(tmp_path), 3968).warnings == ()


def test_a_long_model_has_fewer_slots(tmp_path: Path) -> None:
    """The shared segment is bounded: 64 MiB of ids for each front door."""
    usual = {"device": "null", "frontdoors": 1, "dispatchers": 1}
    found = decide(Config(model=(f"m={_long_model(tmp_path)}",), **usual))  # type: ignore[arg-type]
    assert (found.slots, found.max_batch_tokens) == (2048, 16384)
    sizes = make_plan(found).sizes()
    assert sizes.slots * sizes.max_tokens * 4 == 64 << 20
    assert decide(Config(model=("minilm",), **usual)).slots == 8192  # type: ignore[arg-type]
    short = decide(Config(model=(f"m={tmp_path}",), max_input_tokens=512, **usual))  # type: ignore[arg-type]
    assert short.slots == 8192


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert")
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"architectures": ["BertForMaskedLM"]}))
    head, splade, ids = load_card(str(tmp_path)).warnings
    assert "The head of BertForMaskedLM is left out" in head and "mean of all tokens' last states" in head
    assert splade.startswith("If it is a SPLADE model, run in this folder: ")
    assert "no tokenizer.json: requests can send token ids alone" in ids
    write_words(tmp_path)
    write_sentence_modules(tmp_path)
    assert load_card(str(tmp_path)).warnings == ()


CROSS = {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}}


def test_a_cross_encoder_takes_pairs_alone(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert", "classify", num_labels=1, vocab_size=300)
    write_words(tmp_path)
    assert not load_card(str(tmp_path)).pairs_only, "a classifier may take single texts"
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | CROSS))
    engine = Engine(str(tmp_path), dtype="float32")
    assert engine.card.pairs_only
    with pytest.raises(ValueError, match=r"item 1: one text, and .* scores pairs .*allow_single_texts"):
        engine.predict([("a", "b"), "a"])
    assert len(engine.predict([("a", "b"), [5, 6]])) == 2
    assert len(Engine(str(tmp_path), dtype="float32", allow_single_texts=True).predict(["a"])) == 1


@pytest.mark.parametrize("mark", ["modules", "config_sentence_transformers", "old key"])
def test_marks_of_a_cross_encoder(mark: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert", "classify", num_labels=1)
    if mark == "modules":
        listing = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
        (tmp_path / "modules.json").write_text(json.dumps(listing))
    elif mark == "old key":
        config = tmp_path / "config.json"
        own = {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}
        config.write_text(json.dumps(json.loads(config.read_text()) | own))
    else:
        (tmp_path / "config_sentence_transformers.json").write_text(json.dumps({"model_type": "CrossEncoder"}))
    assert load_card(str(tmp_path)).pairs_only
    assert not load_card(str(tmp_path), allow_single_texts=True).pairs_only
