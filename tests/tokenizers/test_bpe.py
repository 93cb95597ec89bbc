"""Native byte-level BPE and detokenizer against the `tokenizers` package: ids and texts must be identical.

FASTQPS_FUZZ_TEXTS=1000000 sets how many texts the differential fuzz generates for each pre-tokenizer
(`make fuzz-tokenizer`).
"""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from bpe_files import ADDED, SPECIAL, ByteLevelTexts, changed, corpus, trained, variants
from decodes import check_decode
from nightly import nightly
from tokenizers import AddedToken, normalizers, pre_tokenizers

from fastqps._core import Detokenizer, NativeTokenizer
from fastqps.models.tokenizers.tokenizer import SpecialTokens, Tokenizer

pytestmark = pytest.mark.compute

FUZZ = int(os.environ.get("FASTQPS_FUZZ_TEXTS", "500"))
NAMES = ("gpt2", "llama3", "qwen", "smollm2")


class Twins:
    """A native tokenizer and the package's, from the same bytes."""

    def __init__(self, content: str) -> None:
        self.native = NativeTokenizer(content)
        self.bare = NativeTokenizer(content, "none")
        self.detokenizer = Detokenizer(content)
        self.package: Any = tokenizers.Tokenizer.from_str(content)
        self.n_ids = self.package.get_vocab_size()

    def check(self, text: str, add_special_tokens: bool = True) -> list[int]:
        expected: list[int] = self.package.encode(text, add_special_tokens=add_special_tokens).ids
        native = self.native if add_special_tokens else self.bare
        assert native.encode(text) == expected, ascii(text)
        return expected

    def check_pair(self, first: str, second: str, add_special_tokens: bool) -> None:
        found = self.package.encode(first, second, add_special_tokens=add_special_tokens)
        native = self.native if add_special_tokens else self.bare
        ids, n_first = native.encode_pair(first, second)
        assert ids == found.ids, (ascii(first), ascii(second))
        second_type = native.second_type_id
        assert [0] * n_first + [second_type] * (len(ids) - n_first) == found.type_ids, (ascii(first), ascii(second))

    def check_decode(self, ids: list[int], pick: random.Random) -> None:
        check_decode(self.detokenizer, self.package, ids, pick)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", NAMES)
def test_fuzz(name: str) -> None:
    files = variants()[name]
    texts = ByteLevelTexts(NAMES.index(name))
    pick = random.Random(1)
    each = max(1, FUZZ // len(files))
    for content in files:
        twins = Twins(content)
        for i in range(each):
            ids = twins.check(texts.text(), add_special_tokens=i % 4 > 0)
            if i % 4 == 0:
                ids = [pick.randint(0, twins.n_ids + 3) for _ in range(pick.randint(0, 40))]
            twins.check_decode(ids, pick)
            if i % 8 == 0:
                twins.check_pair(texts.text(), texts.text(), add_special_tokens=i % 16 > 0)


@pytest.mark.parametrize("name", NAMES)
def test_cut_texts(name: str) -> None:
    twins = Twins(variants()[name][1])
    texts = ByteLevelTexts(77)
    for i in range(120):
        if i % 20 == 0:
            max_tokens = [4, 5, 9, 16, 33, 64][i // 20]
            twins.package.enable_truncation(max_tokens)
        first, second = texts.text(), texts.text()
        assert twins.native.encode(first, max_tokens) == twins.package.encode(first).ids, ascii(first)
        bare = twins.package.encode(first, add_special_tokens=False).ids
        assert twins.bare.encode(first, max_tokens) == bare, ascii(first)
        pair = twins.native.encode_pair(first, second, max_tokens)[0]
        assert pair == twins.package.encode(first, second).ids, (ascii(first), ascii(second), max_tokens)


def code_points() -> list[str]:
    dense = [*range(0x3100), *range(0xA000, 0xAC00), *range(0xF900, 0x12400), *range(0x16000, 0x20000)]
    sparse = [*range(0x3100, 0xA000, 41), *range(0xAC00, 0xD7A4, 9), *range(0x12400, 0x16000, 7)]
    sparse += [*range(0x20000, 0x33000, 97), *range(0xE0000, 0xE1000, 3), 0xE000, 0x10FFFF]
    return [chr(cp) for cp in dense + sparse]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", [4, *nightly(1)])
@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_code_point_in_every_place(name: str, step: int) -> None:
    """``step``: every so many-th run of 16 code points."""
    twins = Twins(changed(trained(name, 600)))
    chars = code_points()
    texts = [
        "|".join(f"{c}a{c} {c}1{c}{c}\t{c}'{c}!{c}\n{c}\u0301{c}  {c}" for c in chars[at : at + 16])
        for at in range(16 * NAMES.index(name), len(chars), 16 * step)
    ]
    for text, found in zip(texts, twins.package.encode_batch_fast(texts), strict=True):
        assert twins.native.encode(text) == found.ids, ascii(text)


def test_contractions_in_every_case() -> None:
    letters = "sStTrRvVmMlLdDeE\u017fßﬆŉK'"
    texts = [f"a'{a}{b}{c}x" for a in letters for b in letters for c in ("", "e", "L", "\u017f")]
    for name in NAMES:
        twins = Twins(changed(trained(name, 600)))
        for text in texts:
            twins.check(text)


def test_long_words_and_long_spaces() -> None:
    for name in NAMES:
        twins = Twins(variants()[name][0])
        pick = random.Random(4)
        for part in ("ab", "the", "0", " ", "\n", "é", "日本", "!?", "a'"):
            twins.check("".join(pick.choices(part, k=20000)))
        twins.check("x".join([" " * 3000, "\n \n" * 500, "7" * 3000, "\t"]))


def test_compositions() -> None:
    """NFC of random runs of starters and marks, and of Hangul, which the fuzz meets more rarely."""
    twins = Twins(variants()["qwen"][0])
    pick = random.Random(6)
    marks = [chr(cp) for cp in [*range(0x300, 0x370), 0x591, 0x5BF, 0x93C, 0x9BE, 0xB3E, 0x1B35, 0x302E, 0x3099, 0xF71]]
    starts = "aAeoqÅñẹΐऩक가각각\u1112\u1161\u11ab\u0958\ufb1d\U0001d15f\u0b47\u0dd9\u1025"
    for _ in range(4 * FUZZ):
        twins.check(
            "".join(pick.choices([*starts, *marks], [3] * len(starts) + [1] * len(marks), k=pick.randint(1, 12)))
        )


def test_decoding_every_token_and_all_bytes() -> None:
    for name in NAMES:
        for content in variants()[name]:
            twins = Twins(content)
            for token in range(twins.n_ids + 2):
                assert twins.detokenizer.decode([token]) == twins.package.decode([token]), token
            pick = random.Random(8)
            n_bytes = min(twins.n_ids, 260)
            for _ in range(500):
                twins.check_decode([pick.randrange(n_bytes) for _ in range(pick.randint(1, 12))], pick)


def test_a_special_token_that_normalizes_to_something_else_is_text() -> None:
    """What the package does: it asks for the normalized text whether a token is special."""
    tokenizer = tokenizers.Tokenizer.from_str(trained("qwen"))
    added = [AddedToken("<e\u0323>", normalized=True), AddedToken("<o\u0323>", normalized=False)]
    tokenizer.add_special_tokens(added)
    twins = Twins(tokenizer.to_str())
    ids = twins.check("<e\u0323><o\u0323><\u1eb9> ")
    assert twins.detokenizer.decode(ids) == twins.package.decode(ids) == "<\u1eb9><\u1eb9> "


@pytest.mark.parametrize("variant", [0, 1])  # a Sequence with a template, and one that puts special tokens behind too
def test_from_file_with_and_without_special_tokens(tmp_path: Path, variant: int) -> None:
    content = changed(variants()["llama3"][0], post=["sequence", "roberta"][variant], ignore_merges=True)
    path, other = tmp_path / "tokenizer.json", tmp_path / "other.json"
    path.write_text(content)
    file = json.loads(content)
    file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] += "|x"  # matches nothing more, but is not native
    other.write_text(json.dumps(file))
    texts = ["Hello there, world! 12345", "", "<|eot_id|>I'LL", *corpus()[:50]]
    kinds: tuple[SpecialTokens, ...] = ("all", "none", "trailing")
    for special in kinds:
        native = Tokenizer.from_file(path, max_tokens=40, special_tokens=special)
        package = Tokenizer.from_file(other, max_tokens=40, special_tokens=special)
        assert native.native and not package.native and "regular expressions" in package.why_not_native
        assert native.encode_batch(texts) == package.encode_batch(texts)
        assert native.encode_items([*texts, (texts[0], texts[2])]) == package.encode_items(
            [*texts, (texts[0], texts[2])]
        )
        assert [native.encode(t) for t in texts] == [package.encode(t) for t in texts]
        assert native.encode_pair("a", "b c") == package.encode_pair("a", "b c")
        ids = native.encode(texts[0])
        assert native.decode(ids) == package.decode(ids) == texts[0]
        front = "<|im_start|>" if special == "all" else ""
        behind = "<|im_end|>" if special != "none" and variant else ""
        assert native.decode(ids, skip_special_tokens=False) == front + texts[0] + behind
        assert len(native.encode("")) == bool(front) + bool(behind)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"normalizer": normalizers.NFKC()}, "only NFC"),
        ({"normalizer": normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])}, "only NFC"),
        ({"pre_tokenizer": pre_tokenizers.Whitespace()}, "pre_tokenizer"),
        ({"pre_tokenizer": pre_tokenizers.ByteLevel(use_regex=False)}, "use_regex"),
        (
            {"pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.ByteLevel()])},
            "add_prefix_space",
        ),
        ({"model": tokenizers.models.BPE({"a": 0, "b": 1}, [], unk_token="a")}, "lacks a byte"),
        ({"model": tokenizers.models.BPE({"a": 0, "b": 1}, [], dropout=0.5)}, "dropout"),
    ],
)
def test_what_is_not_understood_is_refused_with_the_reason(change: dict[str, Any], reason: str) -> None:
    tokenizer: Any = tokenizers.Tokenizer.from_str(trained("gpt2", 400))
    for part, value in change.items():
        setattr(tokenizer, part, value)
    with pytest.raises(ValueError, match=reason):
        NativeTokenizer(tokenizer.to_str())


def test_decoders_that_are_not_native_are_refused() -> None:
    tokenizer: Any = tokenizers.Tokenizer.from_str(trained("gpt2", 400))
    tokenizer.add_tokens([AddedToken(t.content, normalized=True) for t in ADDED])
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    with pytest.raises(ValueError, match="only ByteLevel"):
        Detokenizer(tokenizer.to_str())
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    assert Detokenizer(tokenizer.to_str()).decode(tokenizer.encode("solo x").ids) == "solo x"
    tokenizer.normalizer = normalizers.BertNormalizer()  # it would change what the added tokens decode to
    with pytest.raises(ValueError, match="BertNormalizer is not native"):
        Detokenizer(tokenizer.to_str())


def test_texts_survive() -> None:
    for name in NAMES:
        twins = Twins(variants()[name][0])
        for text in corpus()[:200]:
            assert twins.detokenizer.decode(twins.bare.encode(text)) == text
        assert twins.detokenizer.decode(twins.bare.encode(f"a{SPECIAL[2]}b")) == "ab"
