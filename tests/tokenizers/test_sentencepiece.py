"""SentencePiece's models natively, Unigram and byte-pair encoding, against the `tokenizers` package.

FASTQPS_FUZZ_TEXTS=1000000 sets how many texts the differential fuzz generates for all configurations together
(`make fuzz-tokenizer`).
"""

from __future__ import annotations

import json
import os
import random
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
import spaced_files
import tokenizers
import unigram_files
from bpe_files import ByteLevelTexts, corpus
from charsmap import precompiled as written
from spaced_files import BYTES, SPACE
from tokenizers import AddedToken
from twins import Twins
from unigram_files import SpacedTexts, metaspace

from fastqps.models.names import packaged
from fastqps.models.tokenizers.tokenizer import Tokenizer

pytestmark = pytest.mark.compute

FUZZ = int(os.environ.get("FASTQPS_FUZZ_TEXTS", "500"))
CONTENTS: dict[str, Callable[[str], str]] = dict.fromkeys(unigram_files.NAMES, unigram_files.content)
CONTENTS |= dict.fromkeys(spaced_files.NAMES, spaced_files.content)


def content(name: str) -> str:
    return CONTENTS[name](name)


def odd_texts() -> list[str]:
    spaces = ["", " ", "  ", "   ", SPACE, f"{SPACE} ", f" {SPACE}", "\n", "\t ", "\u00a0", "\u3000", "\x01", "\u0301"]
    found = [a + b + c for a in spaces for b in ("a", "the", "é", "😀", "<s>", "\0", "\u00a8") for c in spaces]
    runs = [c * n for c in "!a0.é" for n in range(1, 40)]
    more = ["x" * 500, " x" * 300, "\0\0", "a\0", "</s>a", "<s> <s>", "<unk>x<unk>", "<0x41>", "<unk>", "日本語" * 50]
    return [*found, *runs, *more]


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", CONTENTS)
def test_fuzz(name: str) -> None:
    texts, pick, twins = SpacedTexts(list(CONTENTS).index(name)), random.Random(1), Twins(content(name))
    for text in [*odd_texts(), *corpus()[:100]]:
        twins.check_decode(twins.check(text), pick)
    for i in range(2 * FUZZ // len(CONTENTS) + 50):
        text = texts.text()
        ids = twins.check(text)
        if i % 4 == 0:
            ids = [pick.randint(0, twins.n_ids + 3) for _ in range(pick.randint(0, 40))]
            twins.check(text, special=False)
        twins.check_decode(ids, pick)
        if i % 8 == 0:
            twins.check_pair(text, texts.text())


@pytest.mark.parametrize("name", ["xlm-r", "albert", "nmt", "bytes", "llama2", "first-whole"])
def test_every_code_point(name: str) -> None:
    assigned = [chr(i) for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)) not in ("Cn", "Cs")]
    twins, pick = Twins(content(name)), random.Random(1)
    for at in range(0, len(assigned), 50):
        twins.check_decode(twins.check("".join(assigned[at : at + 50])), pick)
    for c in assigned[:: len(assigned) // 3000]:
        twins.check(f"a{c} {c}b {c}\u0301 {c} b")


@pytest.mark.parametrize("name", ["xlm-r", "albert", "t5-first", "llama2", "first-split", "always-whole", "mapped"])
@pytest.mark.parametrize("normalized", [False, True])
def test_added_tokens(name: str, normalized: bool) -> None:
    tokenizer: Any = tokenizers.Tokenizer.from_str(content(name))
    kinds: dict[str, dict[str, bool]] = {"[A]": {}, "fußﬁ": {}, "[L]": {"lstrip": True}, "[R]": {"rstrip": True}}
    kinds["solo"] = {"single_word": True}
    tokenizer.add_tokens([AddedToken(token, normalized=normalized, **kind) for token, kind in kinds.items()])
    twins, pick = Twins(tokenizer.to_str()), random.Random(2)
    parts = [*kinds, "[a]", "fußfi", "Solo", " ", "  ", "the", " of", SPACE, "é", "<s>", ""]
    for _ in range(1500):
        ids = twins.check("".join(pick.choices(parts, k=pick.randint(1, 8))))
        twins.check_decode(ids, pick)
    for _ in range(300):
        twins.check_decode([pick.randrange(twins.n_ids) for _ in range(6)], pick)


MARKS = [chr(cp) for cp in (0x300, 0x301, 0x340, 0x903, 0x93E, 0x94D, 0xE31, 0x200C, 0x200D, 0x20E3, 0xFE0F, 0x1F3FB)]
BASES = [
    *"abé\r\n\t \x00\x7f\u00ad\u00a9\u00ae\u0600\u0915\u0995\u1039\u1100\u1160\u11a8\uac00\uac01\ud7b0\u2600\u200b",
    "\U0001f600", "\U0001f1e6", "\U00011000", "\u0e01", "\u3042", "\ufeff", "\u2028", "\u0d4e", "\u1000", "\ua960",
]  # fmt: skip


def test_clusters_of_characters() -> None:
    """With maps whose keys are parts of clusters, it shows in the text where each cluster ends."""
    pick = random.Random(5)
    for _ in range(20):
        alone = [c for c in [*BASES, *MARKS] if c != "\0" and pick.random() < 0.4]
        keys = {c: pick.choice(["X", "", "YZ", "é", c * 2]) for c in alone}
        for _ in range(30):
            keys["".join(pick.choices([c for c in [*BASES, *MARKS] if c != "\0"], k=pick.randint(2, 3)))] = "W"
        file = json.loads(content("never")) | {"normalizer": json.loads(written(keys))}
        file["pre_tokenizer"] = metaspace(pick.choice(["first", "never"]))
        file["model"] |= {
            "vocab": [["<unk>", 0], *([[c, -i] for i, c in enumerate(["X", *BASES, *MARKS])])],
            "unk_id": 0,
        }
        file |= {"added_tokens": [], "post_processor": None}
        twins = Twins(json.dumps(file))
        for _ in range(400):
            twins.check("".join(pick.choices([*BASES, *MARKS, *MARKS], k=pick.randint(1, 9))))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("key", ["a", "\u0300", "\u00a9", "\u0915", "\u1100", "\u1160", "\u11a8"])
def test_clusters_with_every_code_point(key: str) -> None:
    """Each beside a key and between two, with marks."""
    file = json.loads(content("never")) | {"normalizer": json.loads(written({key: "X"})), "post_processor": None}
    marks = ["X", "\u0300", "\u0301", "\u200d", "\u094d"]
    file["model"] |= {"vocab": [["<unk>", 0], *([[c, -i] for i, c in enumerate(marks)])], "unk_id": 0}
    file |= {"added_tokens": [], "pre_tokenizer": metaspace("never")}
    twins = Twins(json.dumps(file))
    points = [*range(0x3400), *range(0xA000, 0xAC40), *range(0xD790, 0xD800), *range(0xF900, 0x12000)]
    points += [*range(0x12000, 0x20000, 3), *range(0xE0000, 0xE1000, 5)]
    chars = [chr(cp) for cp in points if not 0xD800 <= cp < 0xE000]
    texts = [
        "|".join(
            f"{c}{key}\u0300|{key}{c}|{c}\u0300\u0301|{c}\u200d{key}\u0300|{key}{c}\u094d{key}\u0300" for c in part
        )
        for part in (chars[at : at + 8] for at in range(0, len(chars), 8))
    ]
    twins.check_all(texts)


def test_much_of_little() -> None:
    """More ids than four for each byte."""
    keys = {"a": "bcdefghijklm" * 9}
    file = json.loads(content("bytes")) | {"normalizer": json.loads(written(keys))}
    twins = Twins(json.dumps(file))
    twins.check("aaa aa")
    twins.check_pair("aa", "aaaa a")


@pytest.mark.parametrize("name", ["xlm-r", "t5", "spaced", "llama2"])
def test_from_file(name: str) -> None:
    tokenizer = Tokenizer.from_source(content(name), max_tokens=40)
    assert tokenizer.native and not tokenizer.why_not_native
    text = corpus()[3]
    assert tokenizer.encode_batch([text, ""]) == [tokenizer.encode(text), tokenizer.encode("")]


def test_numbers_are_read_as_the_package_reads_them() -> None:
    """Its scores are off by the last bit, and orders of equal pieces depend on it."""
    pick = random.Random(9)
    spelled = ["-3.4635426998138428", "-1e-3", "-12345678901234567890123", "2.5E+2", "0.1e1", "-0.0", "7", "-1e-320"]
    spelled += [repr(pick.uniform(-20, 0)) for _ in range(200)] + [f"{pick.uniform(-20, 0):.25f}" for _ in range(50)]
    letters = "abcdefgh"
    for at in range(0, len(spelled), 8):
        file = json.loads(content("mbart")) | {"post_processor": None, "added_tokens": [], "pre_tokenizer": metaspace()}
        runs = [c * n for c in letters for n in (1, 2, 3)]
        marked = [["<unk>", 0], *([run, f"@{i}"] for i, run in enumerate(runs))]
        file["model"] |= {"vocab": marked, "unk_id": 0}
        text = json.dumps(file)
        for i in range(len(runs)):
            text = text.replace(f'"@{i}"', spelled[(at + i) % len(spelled)])
        twins = Twins(text)
        for c in letters:
            for n in range(1, 30):
                twins.check(c * n)


@pytest.mark.skipif(packaged("wordllama") is None, reason="needs the package wordllama")
def test_wordllama() -> None:
    folder = packaged("wordllama")
    assert folder is not None
    path = folder / "tokenizers/l2_supercat_tokenizer_config.json"
    assert Tokenizer.from_file(path).native
    texts, twins = ByteLevelTexts(5), Twins(path.read_text())
    for text in [*odd_texts(), *corpus()[:500], *(texts.text() for _ in range(FUZZ // 4))]:
        twins.check(text)
        twins.check(text, special=False)


@pytest.mark.parametrize("strip", [0, 1, 2, None])
def test_ids_to_text(strip: int | None) -> None:
    file = json.loads(content("llama2"))
    steps = file["decoder"]["decoders"]
    steps[3:] = [] if strip is None else [{**steps[3], "start": strip}]
    twins, pick, texts = Twins(json.dumps(file)), random.Random(3), ByteLevelTexts(7)
    vocab = file["model"]["vocab"]
    spaces, some_bytes = [vocab[SPACE * n] for n in (1, 2, 4)], [vocab[piece] for piece in BYTES]
    kinds = (range(len(vocab) + 3), some_bytes, spaces)
    for i in range(FUZZ // 2):
        twins.check_decode(twins.check(texts.text(), special=i % 2 > 0), pick)
        twins.check_decode([pick.choice(pick.choice(kinds)) for _ in range(pick.randint(0, 12))], pick)
