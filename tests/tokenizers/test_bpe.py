"""Native byte-level BPE and detokenizer against the `tokenizers` package: ids and texts must be identical.

FASTQPS_FUZZ_TEXTS=1000000 sets how many texts the differential fuzz generates for each pre-tokenizer
(`make fuzz-tokenizer`).
"""

import json
import os
import random
from pathlib import Path

import pytest
import tokenizers
from bpe_files import SPECIAL, ByteLevelTexts, changed, corpus, trained, variants
from nightly import nightly
from tokenizers import AddedToken
from twins import Twins

from fastqps.models.tokenizers.tokenizer import SpecialTokens, Tokenizer

pytestmark = pytest.mark.compute

FUZZ = int(os.environ.get("FASTQPS_FUZZ_TEXTS", "500"))
NAMES = ("gpt2", "llama3", "qwen", "smollm2")


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
            ids = twins.check(texts.text(), special=i % 4 > 0)
            if i % 4 == 0:
                ids = [pick.randint(0, twins.n_ids + 3) for _ in range(pick.randint(0, 40))]
            twins.check_decode(ids, pick)
            if i % 8 == 0:
                twins.check_pair(texts.text(), texts.text(), special=i % 16 > 0)


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
    twins.check_all(texts)


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


def test_texts_survive() -> None:
    for name in NAMES:
        twins = Twins(variants()[name][0])
        for text in corpus()[:200]:
            assert twins.detokenizer.decode(twins.bare.encode(text)) == text
        assert twins.detokenizer.decode(twins.bare.encode(f"a{SPECIAL[2]}b")) == "ab"
