"""Texts and pairs that are cut without reading what is beyond: the same ids as when the whole is tokenized.

FASTQPS_FUZZ_CUTS=1000 sets how many random tokenizers there are.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
import tokenizers as tk
from tokenizer_checkpoints import Checkpoints, bpe_file, gemma_file, stripping_file, text, unigram_file, wordpiece_file

from fastqps.models.tokenizers.tokenizer import Item, Tokenizer

pytestmark = pytest.mark.compute
FUZZ = int(os.environ.get("FASTQPS_FUZZ_CUTS", "6"))
ITEMS = 20
SIDES = ("right", "left")


def long(r: random.Random) -> str:
    """With and without spaces, and of all scripts: what is behind the cut may not matter, but may decide."""
    kind = r.random()
    if kind < 0.6:
        return r.choice(["", " ", "\n", "\u3000"]).join(text(r) for _ in range(r.choice([1, 3, 10])))
    if kind < 0.8:
        return r.choice(["中国人民。", "helloworld", "solo the\n", "Straße\t", "é", "a b", "<q>"]) * r.randint(1, 60)
    return "".join(r.choices("abcdefgh中国 é", k=r.randint(1, 400)))


def in_the_package(package: Any, item: Item, most: int, strategy: str, side: str) -> list[int] | None:
    """None: it can cut so little that it refuses."""
    package.enable_truncation(most, strategy=strategy, direction=side)
    try:
        found: list[int] = (package.encode(item) if isinstance(item, str) else package.encode(*item)).ids
    except Exception as refused:
        assert "too short" in str(refused)
        return None
    return found


def check(file: dict[str, Any], side: str, r: random.Random) -> bool:
    """Whether it is native, which both are compared with."""
    usual = {"direction": side.capitalize(), "max_length": 512, "strategy": "LongestFirst", "stride": 0}
    source = json.dumps(file | {"truncation": usual, "padding": None})
    package, made = tk.Tokenizer.from_str(source), Tokenizer.from_source(source)
    through = Tokenizer.from_source(source)
    through._native = None
    least = made.n_special(pair=True) + 2
    for _ in range(ITEMS):
        most = r.choice([least, least + 1, r.randint(least, 40), r.randint(least, 200)])
        item: Item = long(r) if r.random() < 0.4 else (long(r), long(r))
        package.no_truncation()
        n_total = len((package.encode(item) if isinstance(item, str) else package.encode(*item)).ids)
        for cut, strategy in (("longest", "longest_first"), ("first", "only_first")):
            wanted = in_the_package(package, item, most, strategy, side)
            for tokenizer in (made, through):
                (found,) = tokenizer.encode_items([item], most, cut)  # type: ignore[arg-type]
                assert found.ids == (wanted or []), (tokenizer.native, cut, most, item)
                assert found.n_total == n_total if n_total <= most else found.n_total > most
    return made.native


FILES = {"wordpiece": wordpiece_file, "bpe": bpe_file, "unigram": unigram_file, "gemma": gemma_file}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", FILES)
def test_each_family_is_cut_as_the_package_cuts(kind: str, side: str) -> None:
    assert check(FILES[kind](), side, random.Random(f"{kind} {side}"))


@pytest.mark.parametrize("side", SIDES)
def test_random_tokenizers_are_cut_as_the_package_cuts(tmp_path: Path, side: str) -> None:
    native = 0
    for seed in range(FUZZ):
        Checkpoints(seed).write(tmp_path)
        native += check(json.loads((tmp_path / "tokenizer.json").read_text()), side, random.Random(seed))
    assert native >= FUZZ // 3


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("side", SIDES)
def test_added_tokens_across_the_cut(normalized: bool, side: str) -> None:
    check(stripping_file(normalized=normalized), side, random.Random(3))
