"""A token id beyond the vocabulary never reaches an embedding table: the item that holds it fails, and says why."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import VOCAB, write_checkpoint
from decoders import write_byte_tokenizer, write_decoder
from word_files import write_words

from fastqps import Engine, _core
from fastqps.models import load_card
from fastqps.runners import StepBuffers
from fastqps.runners.pack_items import UnknownTokenError, pack_items

pytestmark = pytest.mark.compute


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("far", [VOCAB, 3_000_000_000])
def test_engine_names_the_item(tmp_path: Path, native: bool, far: int) -> None:
    """The tokenizer has a word more than the embedding table has rows."""
    write_checkpoint(tmp_path, "bert")
    file = write_words(tmp_path, {"far": VOCAB}, native=native)
    # Written by hand: the package takes half a minute to save an id of this size.
    file.write_text(re.sub(rf'"far": ?{VOCAB}\b', f'"far": {far}', file.read_text()))
    engine = Engine(str(tmp_path), dtype="float32")
    with pytest.raises(ValueError, match=f"item 2: token id {far}, the vocabulary has {VOCAB}"):
        engine.predict(["a b a", "a", "a far", "b"])
    assert np.isfinite(np.asarray(engine.predict(["a", ("b", "a")]))).all()


def test_generate_names_the_prompt(tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama", vocab_size=256)  # <begin> is 256
    write_byte_tokenizer(tmp_path)
    engine = Engine(str(tmp_path), dtype="float32", max_input_tokens=40, max_output_tokens=8)
    with pytest.raises(ValueError, match="prompt 1: token id 256, must be at least 0 and below 256"):
        engine.generate([[5, 6], "a"])
    assert len(engine.generate([[5, 6]], max_tokens=3, ignore_eos=True)[0].token_ids) == 3


def test_a_text_without_tokens_is_refused(tmp_path: Path) -> None:
    """Its mean would be that of no rows."""
    write_checkpoint(tmp_path, "bert")
    write_words(tmp_path, special=False)
    with pytest.raises(ValueError, match="item 1 has no tokens"):
        Engine(str(tmp_path), dtype="float32").predict(["a", ""])


@pytest.mark.parametrize("token_id", [VOCAB, 2**31 - 1, 2**31, 2**32 - 1, -1])
def test_a_batch_is_checked_whoever_packs_it(tmp_path: Path, token_id: int) -> None:
    write_checkpoint(tmp_path, "bert")
    card = load_card(str(tmp_path))
    buffers = StepBuffers.allocate(card, 8, 64)
    assert pack_items(card, [([0, VOCAB - 1], 2), ([5], 1)], buffers) == (2, 3, 2)
    with pytest.raises(UnknownTokenError) as caught:
        pack_items(card, [([0, VOCAB - 1], 2), ([7, token_id], 2), ([5], 1)], buffers)
    assert (caught.value.item, caught.value.token_id) == (1, token_id)


@pytest.mark.parametrize(
    ("name", "index", "said"),
    [
        ("input_ids", VOCAB, "token id 200 at row 1 of the step; its table has 200 rows"),
        ("input_ids", -1, "token id -1"),
        ("position_ids", 64, "position 64 at row 1 of the step; its table has 64 rows"),
        ("token_type_ids", 2, "token type 2 at row 1 of the step; its table has 2 rows"),
        ("token_type_ids", -7, "token type -7"),
    ],
)
def test_the_cpu_reads_no_row_outside_of_a_table(tmp_path: Path, name: str, index: int, said: str) -> None:
    """Even where somebody fills a runner's buffers past all checks."""
    from fastqps.devices import make_runner

    write_checkpoint(tmp_path, "bert")
    card = load_card(str(tmp_path))
    runner = make_runner("cpu", card, 4, 64, dtype="float32")
    shape = pack_items(card, [([3, 4, 5], 3)], runner.buffers())
    getattr(runner.buffers(), name)[1] = index
    with pytest.raises(IndexError, match=said):
        runner.run(*shape)


@pytest.mark.parametrize("token_id", [7, -2])
def test_the_cpu_reads_no_token_outside_of_a_decoders_table(token_id: int) -> None:
    table, out = torch.randn(7, 64), torch.empty(2, 64)
    ids, zeros = torch.tensor([6, -1], dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    given = [ids.data_ptr(), zeros.data_ptr(), zeros.data_ptr(), table.data_ptr(), 7, 64]
    _core.Program.at_once(1).embed_tokens(out.data_ptr(), False, 2, *given)
    assert torch.equal(out, table[[6, 0]])
    ids[1] = token_id
    with pytest.raises(IndexError, match=f"token id {token_id} at row 1"):
        _core.Program.at_once(1).embed_tokens(out.data_ptr(), False, 2, *given)
