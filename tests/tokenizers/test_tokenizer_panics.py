"""The `tokenizers` package panics on some texts, and its panics are no ``Exception``: only that text may fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from decoders import write_decoder
from sentence_files import write
from tokenizer_checkpoints import gemma_file
from word_files import PANICS, write_words

from fastqps import Engine
from fastqps.models import ModelError
from fastqps.models.tokenizers.tokenizer import Tokenizer

pytestmark = pytest.mark.compute
REPLACED = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}


@pytest.fixture
def panicking(tmp_path: Path) -> Tokenizer:
    """A tokenizer that is not native here, with a text that the package cannot encode."""
    tokenizer = Tokenizer.from_file(write_words(tmp_path, special=False, native=False, panicking=True))
    if tokenizer.native:
        pytest.fail("this tokenizer has become native: the test needs another one")
    return tokenizer


def test_a_panic_is_a_value_error(panicking: Tokenizer) -> None:
    with pytest.raises(ValueError, match="the tokenizers package failed"):
        panicking.encode(PANICS)
    with pytest.raises(ValueError, match="the tokenizers package failed"):
        panicking.encode_items(["a", PANICS])
    assert panicking.encode("a") == [3]


def test_a_missing_unknown_token_is_named(tmp_path: Path) -> None:
    """The package's plain ``Exception`` of a text with an unknown character."""
    file = gemma_file()
    known = {name: id for name, id in file["model"]["vocab"].items() if not name.startswith(("<unk>", "<0x"))}
    file["model"]["vocab"] = known
    file["added_tokens"] = [token for token in file["added_tokens"] if token["content"] != "<unk>"]
    file["decoder"] = {"type": "Sequence", "decoders": [REPLACED, {"type": "ByteFallback"}, {"type": "Fuse"}]}
    write_decoder(tmp_path, "gemma", vocab_size=max(known.values()) + 1)
    write(tmp_path / "tokenizer.json", file)
    write(tmp_path / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    with pytest.raises(ModelError, match=r"tokenizer\.json: it cannot tokenize the prefix: .*`<unk>` not found"):
        Engine(str(tmp_path), prefix="the 🧿")
    template = tmp_path / "t.jinja"
    template.write_text("🧿 {{ text }}")
    with pytest.raises(ModelError, match="`<unk>` not found"):
        Engine(str(tmp_path), labels=["the", "of"], template=str(template))
    engine = Engine(str(tmp_path), prefix="the", max_output_tokens=4)
    with pytest.raises(ValueError, match="`<unk>` not found"):
        engine.generate(["the 🧿"])
    assert engine.generate(["the"], max_tokens=1)[0].token_ids
