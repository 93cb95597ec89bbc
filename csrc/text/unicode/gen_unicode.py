"""Writes unicode_tables.inc: how the `tokenizers` package treats every code point, as the package itself answers.

The package's Unicode tables have several ages (white space from one crate, punctuation from another), so no single
Unicode database reproduces them. Run `python csrc/text/unicode/gen_unicode.py`. With `--check` it compares its output
with the file and exits 1 if they differ: a new release of the package has new tables.
"""

import itertools
import sys
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

import tokenizers
from graphemes import grapheme_tables
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

TARGET = Path(__file__).with_name("unicode_tables.inc")
HANGUL = range(0xAC00, 0xAC00 + 11172)
POINTS = [cp for cp in range(0x110000) if not 0xD800 <= cp < 0xE000]


def bert(**on: bool) -> Callable[[str], str]:
    flags = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False} | on
    return normalizers.BertNormalizer(**flags).normalize_str  # type: ignore[no-any-return]


def ranges(points: Iterable[int]) -> list[tuple[int, int]]:
    """Sorted code points as (first, last) ranges; the surrogates never occur, so a range may span them."""
    out: list[tuple[int, int]] = []
    for cp in points:
        if out and (out[-1][1] == cp - 1 or (out[-1][1] == 0xD7FF and cp == 0xE000)):
            out[-1] = (out[-1][0], cp)
        else:
            out.append((cp, cp))
    return out


def pieces() -> tuple[list[int], list[int]]:
    """Code points that BertPreTokenizer takes as white space, and those that it splits off as punctuation."""
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    count = {cp: len(split(f"a{chr(cp)}b")) for cp in POINTS}
    return [cp for cp in POINTS if count[cp] == 2], [cp for cp in POINTS if count[cp] == 3]


def word_characters() -> list[int]:
    r"""Code points that `\w` matches where a `single_word` token looks at its neighbours."""
    tokenizer = Tokenizer(models.WordLevel({"[U]": 0, "@": 1}, unk_token="[U]"))
    tokenizer.add_tokens([AddedToken("@", single_word=True, normalized=False)])
    return [cp for cp in POINTS if cp != ord("@") and 1 not in tokenizer.encode(chr(cp) + "@").ids]


def combining_classes() -> dict[int, int]:
    """Canonical combining classes, found by how NFD orders each code point against one mark of every class."""
    nfd = normalizers.NFD().normalize_str
    low, high = "\u0334", "\u0345"  # classes 1 and 240: every other class lies between, bar those of no mark at all
    reference: dict[int, str] = {1: low, 240: high}
    for cp in POINTS:
        ccc, c = unicodedata.combining(chr(cp)), chr(cp)
        if ccc and ccc not in reference and nfd(c) == c and nfd(c + low) == low + c:  # the package may not know it yet
            reference[ccc] = c
    order = sorted(reference)
    for a, b in itertools.pairwise(order):  # the references themselves must be ordered as their classes are
        assert nfd(reference[b] + reference[a]) == reference[a] + reference[b], (a, b)

    found: dict[int, int] = {}
    for cp in POINTS:
        c = chr(cp)
        if nfd(c) != c or (nfd(c + low) == c + low and nfd(high + c) == high + c and c not in (low, high)):
            continue
        same = [k for k, r in reference.items() if nfd(c + r) == c + r and nfd(r + c) == r + c]
        assert len(same) == 1, (hex(cp), same)
        found[cp] = same[0]
    return found


def matched(pattern: str) -> list[int]:
    """Code points that a regular expression of one character matches, by the engine that the package splits with."""
    remove = pre_tokenizers.Split(Regex(pattern), "removed")
    left = {ord(c) for piece, _ in remove.pre_tokenize_str("".join(map(chr, POINTS))) for c in piece}
    return [cp for cp in POINTS if cp not in left]


def numeric() -> list[int]:
    """Code points that the Digits pre-tokenizer splits off; its table is older than that of the expressions."""
    split = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str
    return [cp for cp in POINTS if len(split(f"a{chr(cp)}b")) == 3]


def compositions(decomposed: dict[int, list[int]]) -> dict[tuple[int, int], int]:
    """(first, second) to the one character that NFC makes of them; Hangul is computed, not stored."""
    nfc = normalizers.NFC().normalize_str
    found: dict[tuple[int, int], int] = {}
    for cp, parts in decomposed.items():
        if nfc(chr(cp)) != chr(cp) or len(parts) == 1:
            continue
        first = nfc("".join(map(chr, parts[:-1])))
        assert len(first) == 1 and nfc(first + chr(parts[-1])) == chr(cp), hex(cp)
        found[ord(first), parts[-1]] = cp
    return found


def mapping(function: Callable[[str], str], points: Iterable[int]) -> dict[int, list[int]]:
    return {cp: [ord(x) for x in out] for cp in points if (out := function(chr(cp))) != chr(cp)}


def emit_ranges(name: str, points: Iterable[int]) -> list[str]:
    return [f"constexpr Range {name}[] = {{", *wrap(f"{{{a:#x},{b:#x}}}" for a, b in ranges(points)), "};"]


def emit_long_map(name: str, table: dict[int, list[int]]) -> list[str]:
    """Where each character's list begins in one list of all, and how long it is."""
    pool: list[int] = []
    rows = []
    for cp, out in table.items():
        rows.append(f"{{{cp:#x},{len(pool)},{len(out)}}}")
        pool += out
    return [
        f"constexpr u32 {name}Pool[] = {{",
        *wrap(f"{x:#x}" for x in pool),
        "};",
        f"constexpr LongMapping {name}[] = {{",
        *wrap(rows),
        "};",
    ]


def emit_map(name: str, table: dict[int, list[int]]) -> list[str]:
    rows = (f"{{{cp:#x},{{{','.join(f'{x:#x}' for x in out)}}}}}" for cp, out in table.items())
    return [f"constexpr Mapping {name}[] = {{", *wrap(rows), "};"]


def wrap(items: Iterable[str]) -> list[str]:
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) > 116:
            lines.append("")
        lines[-1] += item + ","
    return lines


def generate() -> str:
    clean, strip, lower = bert(clean_text=True), bert(strip_accents=True), bert(lowercase=True)
    chinese, nfd = bert(handle_chinese_chars=True), normalizers.NFD().normalize_str
    cleaned = mapping(clean, POINTS)
    assert all(out in ([], [0x20]) for out in cleaned.values())
    isolated = mapping(chinese, POINTS)
    assert all(out == [0x20, cp, 0x20] for cp, out in isolated.items())
    decomposed = mapping(nfd, POINTS)
    assert all(len(decomposed.get(cp, [cp])) == 1 for cp in isolated)  # it stays a word of one character
    for s, cp in enumerate(HANGUL):  # these are computed, not stored
        tail = [0x11A7 + s % 28] if s % 28 else []
        assert decomposed.pop(cp) == [0x1100 + s // 588, 0x1161 + s % 588 // 28, *tail]
    stripped = mapping(strip, (cp for cp in POINTS if nfd(chr(cp)) == chr(cp)))
    assert all(out == [] for out in stripped.values())
    for cp, out in decomposed.items():
        assert strip(chr(cp)) == "".join(chr(x) for x in out if x not in stripped), hex(cp)
    lowered = mapping(lower, POINTS)
    composed = compositions(decomposed)
    classes = combining_classes()
    spaces, marks = pieces()
    # The C++ relies on this: only marks that survive stripping are ever reordered, and they are plain letters.
    assert max(len(out) for out in [*decomposed.values(), *lowered.values()]) <= 4
    for cp in set(classes) - set(stripped):
        assert cp not in lowered and cp not in spaces and cp not in marks and cp not in isolated, hex(cp)
    white = [cp for cp, out in cleaned.items() if out] + [0x20]
    assert set(white) <= set(spaces)
    assert all(cp in cleaned or cp == 0x20 for cp in spaces)
    assert matched(r"\s") == spaces
    nfkd, whole = normalizers.NFKD().normalize_str, normalizers.NFD().normalize_str
    compatible = {cp: [ord(x) for x in out] for cp in POINTS if (out := nfkd(chr(cp))) != whole(chr(cp))}
    no_accents = normalizers.StripAccents().normalize_str

    lines = [
        f"// Generated by gen_unicode.py from tokenizers {tokenizers.__version__}. Do not edit.",
        "// clang-format off",
        *emit_ranges("kCleanRemoves", (cp for cp, out in cleaned.items() if not out)),
        *emit_ranges("kSpace", spaces),
        *emit_ranges("kPunctuation", marks),
        *emit_ranges("kChinese", isolated),
        *emit_ranges("kNonspacingMark", stripped),
        *emit_ranges("kWordCharacter", word_characters()),
        *emit_ranges("kLetter", matched(r"\p{L}")),
        *emit_ranges("kNumber", matched(r"\p{N}")),
        *emit_ranges("kNumeric", numeric()),
        "constexpr Composition kComposition[] = {",
        *wrap(f"{{{a:#x},{b:#x},{cp:#x}}}" for (a, b), cp in sorted(composed.items())),
        "};",
        *emit_map("kDecomposition", decomposed),
        *emit_long_map("kCompatibility", compatible),
        *emit_map("kLowercase", lowered),
        *emit_ranges("kCombiningMark", (cp for cp in POINTS if no_accents(chr(cp)) == "")),
        "constexpr CombiningClass kCombiningClass[] = {",
        *wrap(
            f"{{{a:#x},{b:#x},{value}}}"
            for value in sorted(set(classes.values()))
            for a, b in ranges(cp for cp in sorted(classes) if classes[cp] == value)
        ),
        "};",
    ]
    for name, table in grapheme_tables(POINTS).items():
        lines += emit_ranges(name, table)
    return "\n".join(lines) + "\n"


def main() -> int:
    text = generate()
    if "--check" in sys.argv[1:]:
        body = text.split("\n", 1)[1]
        same = TARGET.read_text().split("\n", 1)[1] == body
        print("unicode_tables.inc", "is up to date" if same else "differs from the installed tokenizers package")
        return 0 if same else 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
