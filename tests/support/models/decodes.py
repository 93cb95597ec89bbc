"""Compares a native detokenizer with the `tokenizers` package: whole texts, and the same texts streamed in parts."""

from __future__ import annotations

import random
from typing import Any

from fastqps._core import Detokenizer


def check_decode(native: Detokenizer, package: Any, ids: list[int], pick: random.Random) -> None:
    """Fails unless ``native`` decodes ``ids`` as ``package`` does, at once and in parts of random sizes."""
    expected = package.decode(ids, skip_special_tokens=True)
    assert native.decode(ids) == expected, ids
    stream, text, at = native.stream(), "", 0
    while at < len(ids):
        n = pick.choice([0, 1, 1, 1, 2, 5])
        text += stream.append(ids[at : at + n])
        assert expected.startswith(text), ids
        at += n
    assert text + stream.finish() == expected, ids
