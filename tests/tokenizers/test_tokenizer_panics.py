"""The `tokenizers` package panics on some texts, and its panics are no ``Exception``: only that text may fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from word_files import PANICS, write_words

from fastqps.models.tokenizers.tokenizer import Tokenizer

pytestmark = pytest.mark.compute


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
