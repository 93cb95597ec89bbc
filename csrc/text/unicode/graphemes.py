"""What extended grapheme clusters depend on, as the Precompiled normalizer of the `tokenizers` package has it.

The package does not give out where clusters end. But its Precompiled normalizer replaces a whole cluster of fewer than
six bytes if it begins with a key, and else goes by characters. A probe with one key thus tells whether two characters
are in one cluster: in "xyM", where y alone is the key and M is a mark, M is lost with y if "yM" is a cluster, and is
left if x is in it, too.
"""

from collections.abc import Callable

from charsmap import charsmap
from tokenizers import normalizers

_MARK, _ZWJ = "\u0300", "\u200d"
_LEAD, _VOWEL, _TAIL = "\u1100", "\u1160", "\u11a8"
_PICTURE, _OTHER_PICTURE, _CONSONANT, _LINKER = "\u00a9", "\u2600", "\u0915", "\u094d"


def grapheme_tables(points: list[int]) -> dict[str, list[int]]:
    """Code points by what they do. Pairs of regional indicators are left out: no cluster that has one is short."""

    def having(key: str, probe: str, test: Callable[[str, str], bool]) -> set[int]:
        normalize = normalizers.Precompiled(charsmap({key: "X"})).normalize_str
        return {cp for cp in points if test(chr(cp), normalize(probe.format(chr(cp))))}

    def joined(last: str, before: str = "", between: str = "") -> set[int]:
        return having(last, f"{before}{{}}{between}{last}{_MARK}", lambda _, out: out.endswith(_MARK))

    extending = having("b", "b{}", lambda _, out: out == "X")  # always in the cluster of the character before it
    prepend = joined("a")
    found = {
        "kGraphemeControl": having(_MARK, f"{{}}{_MARK}\u0301", lambda c, out: out == f"{c}X"),
        "kGraphemeExtending": extending,
        "kGraphemeExtend": joined(_PICTURE, before=_OTHER_PICTURE, between=_ZWJ) & extending,
        "kGraphemePrepend": prepend,
        "kGraphemeBeforeLead": joined(_LEAD) - prepend,
        "kGraphemeBeforeVowel": joined(_VOWEL) - prepend,
        "kGraphemeBeforeTail": joined(_TAIL) - prepend,
        "kGraphemePicture": joined(_PICTURE, between=_ZWJ),
        "kGraphemeConsonant": joined(_CONSONANT, between=_LINKER),
        "kGraphemeLinker": joined(_CONSONANT, before=_CONSONANT) & extending,
        "kGraphemeConjunct": joined(_CONSONANT, before=_CONSONANT, between=_LINKER) & extending,
    }
    return {name: sorted(table) for name, table in found.items()}
