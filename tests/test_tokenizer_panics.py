"""The `tokenizers` package panics on some texts, and its panics are no ``Exception``: only that text may fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastqps.slow_tokenizers import _encode
from fastqps.tokenizer import Tokenizer

pytestmark = pytest.mark.compute
BAD = "文"  # the normalizer takes the added token apart in front of it


@pytest.fixture
def panicking(tmp_path: Path) -> Tokenizer:
    """A tokenizer that is not native here, with a text that the package cannot encode."""
    import tokenizers
    from tokenizers import models, normalizers, pre_tokenizers

    made = tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(strip_accents=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_tokens([tokenizers.AddedToken("\u0301", normalized=True)])
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.from_file(tmp_path / "tokenizer.json")
    if tokenizer.native:
        pytest.fail("this tokenizer has become native: the test needs another one")
    return tokenizer


def test_a_panic_is_a_value_error(panicking: Tokenizer) -> None:
    with pytest.raises(ValueError, match="the tokenizers package failed"):
        panicking.encode(BAD)
    with pytest.raises(ValueError, match="the tokenizers package failed"):
        panicking.encode_items(["a", BAD])
    assert panicking.encode("a") == [1]


def test_only_its_own_item_fails(panicking: Tokenizer) -> None:
    assert _encode(panicking, ["a", BAD, ("a", BAD), "a a"]) == [
        ([1], 1, 1),
        (None, 0, 0),
        (None, 0, 0),
        ([1, 1], 2, 2),
    ]
