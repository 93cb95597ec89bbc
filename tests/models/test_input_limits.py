"""An input limit holds the special tokens and a token of each text, or the model is refused: both tokenizers alike."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from checkpoints import write_checkpoint
from decoders import write_byte_tokenizer, write_decoder
from word_files import write_words

from fastqps import Engine, Tokenizer
from fastqps.models import ModelError, load_card
from fastqps.models.card_tokenizer import load_tokenizer

pytestmark = pytest.mark.compute
BOTH = pytest.mark.parametrize("native", [True, False])


@BOTH
def test_the_least_limit_of_an_encoder(tmp_path: Path, native: bool) -> None:
    """Of a pair, [CLS] and [SEP] and [SEP], and a token of each text."""
    write_checkpoint(tmp_path, "bert")
    write_words(tmp_path, native=native)
    for limit in range(1, 5):
        with pytest.raises(ModelError, match=rf"limit is {limit} tokens.* at least 5: .*--max-input-tokens"):
            Engine(str(tmp_path), dtype="float32", max_input_tokens=limit)
    engine = Engine(str(tmp_path), dtype="float32", max_input_tokens=5)
    answers = engine.predict(["a b a b", ("a b", "b a b")], truncate=True)
    assert np.array_equal(answers, engine.predict([[1, 3, 4, 3, 2], ("a", "b")]))


def test_the_least_limit_without_special_tokens(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert")
    write_words(tmp_path, special=False)
    with pytest.raises(ModelError, match=r"limit is 1 tokens.* at least 2"):
        Engine(str(tmp_path), max_input_tokens=1)
    assert len(Engine(str(tmp_path), dtype="float32", max_input_tokens=2).predict(["a", ("a", "b")])) == 2


def test_the_least_limit_of_token_ids_alone(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert")
    assert len(Engine(str(tmp_path), dtype="float32", max_input_tokens=1).predict([[3]])) == 1


def test_the_least_limit_of_a_generator(tmp_path: Path) -> None:
    """<begin> and a token: generators take no pairs. Behind a prefix, which has <begin>, a token is enough."""
    write_decoder(tmp_path, "llama", vocab_size=300)
    write_byte_tokenizer(tmp_path)
    with pytest.raises(ModelError, match=r"limit is 1 tokens.* at least 2"):
        Engine(str(tmp_path), max_input_tokens=1, max_output_tokens=8)
    assert load_tokenizer(load_card(str(tmp_path), 2, max_output_tokens=8))
    assert load_tokenizer(load_card(str(tmp_path), 1, max_output_tokens=8, prefix_text="x"))


@BOTH
@pytest.mark.parametrize(
    ("limit", "single", "of_pair"), [(1, [], 0), (2, [1, 2], 0), (3, [1, 3, 2], 3), (4, [1, 3, 4, 2], 4)]
)
def test_a_tokenizer_without_room_gives_no_ids(
    tmp_path: Path, native: bool, limit: int, single: list[int], of_pair: int
) -> None:
    tokenizer = Tokenizer.from_file(write_words(tmp_path, native=native), max_tokens=limit)
    assert tokenizer.native == native
    assert (tokenizer.n_special(pair=False), tokenizer.n_special(pair=True)) == (2, 3)
    assert tokenizer.encode("a b") == tokenizer.encode_batch(["a b", "b"])[0] == single
    assert len(tokenizer.encode_pair("a b", "b")[0]) == of_pair
    found = tokenizer.encode_items(["a b", ("a b", "b")])
    assert (found[0].ids, found[0].n_total) == (single, 4)
    assert (len(found[1].ids), found[1].n_total) == (of_pair, 6)


@BOTH
def test_a_server_refuses_to_start(tmp_path: Path, native: bool) -> None:
    write_checkpoint(tmp_path, "bert")
    write_words(tmp_path, native=native)
    command = [
        sys.executable,
        "-m",
        "fastqps",
        "serve",
        "--device=null",
        "--port=0",
        "--admin-port=0",
        "--http-port=off",
    ]
    flags = [f"--model=short={tmp_path}", "--max-input-tokens=4"]
    ended = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
    assert ended.returncode == 4, ended.stderr
    assert "its input limit is 4 tokens" in ended.stderr and "at least 5" in ended.stderr
    assert "--max-input-tokens" in ended.stderr and "Traceback" not in ended.stderr


def state_side(folder: Path, side: str) -> None:
    """In tokenizer_config.json; "": it names none."""
    config = folder / "tokenizer_config.json"
    stated = json.loads(config.read_text()) if config.exists() else {"tokenizer_class": "PreTrainedTokenizerFast"}
    config.write_text(json.dumps(stated | ({"truncation_side": side} if side else {})))


@BOTH
@pytest.mark.parametrize(("side", "keeps_end"), [("", False), ("right", False), ("left", True)])
def test_the_side_that_an_encoder_cuts(tmp_path: Path, native: bool, side: str, keeps_end: bool) -> None:
    write_checkpoint(tmp_path, "bert")
    write_words(tmp_path, native=native)
    state_side(tmp_path, side)
    engine = Engine(str(tmp_path), dtype="float32", max_input_tokens=5)
    ids = [3, 4, 4, 3, 4, 4]
    found = engine.predict(["a b a b b b", ids], truncate=True)
    wanted = engine.predict(["b b b" if keeps_end else "a b a", ids[1:] if keeps_end else ids[:-1]])
    assert np.allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize(("side", "keeps_end"), [("", True), ("right", False), ("left", True)])
def test_the_side_that_a_generator_cuts(tmp_path: Path, side: str, keeps_end: bool) -> None:
    """Without a stated side the end is kept: the question, or the turn that is to be answered. Token ids alike."""
    write_decoder(tmp_path, "llama", vocab_size=300)
    write_byte_tokenizer(tmp_path)
    state_side(tmp_path, side)
    engine = Engine(str(tmp_path), dtype="float32", max_input_tokens=6, max_output_tokens=8)
    ids = [7, 8, 9, 10, 11, 12, 13]
    found = engine.generate(["first, last", ids], truncate=True)
    wanted = engine.generate([" last" if keeps_end else "first", ids[1:] if keeps_end else ids[:-1]])
    assert [answer.token_ids for answer in found] == [answer.token_ids for answer in wanted]
