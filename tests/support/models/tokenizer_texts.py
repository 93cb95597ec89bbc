"""Vocabularies and seeded random texts for the differential tests of the tokenizer."""

# ruff: noqa: RUF001  (letters that look alike are the point)

import random
import unicodedata
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

# Where mistakes hide: (weight, first, last)
BLOCKS = [
    (30, 0x20, 0x7E), (4, 0x00, 0x1F), (2, 0x7F, 0xA0), (8, 0xA1, 0x24F), (4, 0x250, 0x2FF), (6, 0x300, 0x36F),
    (4, 0x370, 0x3FF), (4, 0x400, 0x52F), (3, 0x590, 0x5FF), (3, 0x600, 0x6FF), (3, 0x900, 0xDFF), (2, 0xE00, 0xFFF),
    (2, 0x1000, 0x10FF), (2, 0x1100, 0x11FF), (1, 0x1200, 0x1AFF), (2, 0x1AB0, 0x1AFF), (2, 0x1B00, 0x1CFF),
    (2, 0x1D00, 0x1DFF), (3, 0x1E00, 0x1FFF), (4, 0x2000, 0x206F), (2, 0x2070, 0x218F), (2, 0x2190, 0x2BFF),
    (1, 0x2C00, 0x2E7F), (2, 0x3000, 0x303F), (3, 0x3040, 0x30FF), (5, 0x4E00, 0x9FFF), (1, 0x3400, 0x4DBF),
    (2, 0xA000, 0xABFF), (4, 0xAC00, 0xD7A3), (1, 0xE000, 0xF8FF), (2, 0xF900, 0xFAFF), (2, 0xFB00, 0xFDFF),
    (3, 0xFE00, 0xFFFF), (2, 0x10000, 0x11FFF), (2, 0x1D100, 0x1D1FF), (1, 0x1D400, 0x1D7FF), (3, 0x1F000, 0x1FAFF),
    (1, 0x20000, 0x2FFFF), (1, 0xE0000, 0xE01FF), (2, 0, 0x10FFFF),
]  # fmt: skip
# Marks that survive stripping and are reordered, removed marks that do and that do not keep them apart
ODD = (
    "\u302e\u302f\U0001d165\U0001d166\U0001d16d\U0001d15e\u0344\u0f73\u0f75\u0f81\u0345\u0334\u0301\u0323\u09be\u1b44"
    "\u034f\u0941"
)
# Compositions, decompositions, odd cases; white space of all kinds
CASES = "İıIiſKÅΣσςßẞǅĲﬁŉΐΰ\u212b\u1e9b\u0323각한글가힣ᄀᆨᅡ́ñé"
SPACES = (
    " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u180e\u2000\u2007\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff\x00\ufffd"
)


def covering_vocab(chars: Any, words: int = 2000, seed: int = 7) -> list[str]:
    """Special tokens, every character in both positions (and what it is made of), and random longer words."""
    parts: dict[str, None] = {}
    for c in chars:
        for form in (c, c.lower(), unicodedata.normalize("NFD", c), unicodedata.normalize("NFD", c).lower()):
            parts.update(dict.fromkeys(form))
    letters = [c for c in parts if not c.isspace()]
    pick = random.Random(seed)
    longer = ["".join(pick.choices(letters, k=pick.randint(2, 6))) for _ in range(words)]
    return [
        *dict.fromkeys([*SPECIAL, *letters, *(f"##{c}" for c in letters), *longer, *(f"##{w}" for w in longer[::2])])
    ]


def tokenizer_json(
    vocab: list[str],
    *,
    normalizer: dict[str, Any] | None = None,
    prefix: str = "##",
    max_chars: int = 100,
    post: str = "template",
    added: list[AddedToken] | None = None,
) -> str:
    ids = {word: i for i, word in enumerate(vocab)}
    model = models.WordPiece(
        ids, unk_token="[UNK]", continuing_subword_prefix=prefix, max_input_chars_per_word=max_chars
    )
    tokenizer = Tokenizer(model)
    if normalizer is not None:
        tokenizer.normalizer = normalizers.BertNormalizer(**normalizer)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    cls, sep = ids["[CLS]"], ids["[SEP]"]
    if post == "template":
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", cls), ("[SEP]", sep)]
        )
    elif post == "bert":
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", sep), ("[CLS]", cls))
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens(added or [])
    return str(tokenizer.to_str())


class Texts:
    """Random texts from a seed. `words` are some that the vocabulary has; `marks` are added tokens to strew in."""

    def __init__(self, seed: int, words: list[str], marks: list[str]) -> None:
        self.random = random.Random(seed)
        self.words = words
        self.marks = marks
        self.weights = [w for w, _, _ in BLOCKS]

    def char(self) -> str:
        _, first, last = self.random.choices(BLOCKS, self.weights)[0]
        cp = self.random.randint(first, last)
        return chr(cp) if not 0xD800 <= cp < 0xE000 else "a"

    def piece(self) -> str:
        r = self.random
        kind = r.random()
        if kind < 0.35:
            word = r.choice(self.words)
            return r.choice([word, word, word.upper(), word.capitalize(), word + r.choice(self.words)])
        if kind < 0.50:
            return "".join([self.char() for _ in range(r.randint(1, 8))])
        if kind < 0.62:
            return "".join(r.choices(SPACES, k=r.randint(1, 3)))
        if kind < 0.70:
            return "".join(r.choices("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", k=r.randint(1, 3)))
        if kind < 0.78:
            mark = r.choice(self.marks)
            cut = r.randint(1, len(mark))
            return r.choice([mark, mark, mark, mark.lower(), mark.upper(), mark[:cut], mark + mark, mark[:cut] + mark])
        if kind < 0.88:
            return r.choice(["a", "", "E", "ا"]) + "".join(r.choices(ODD + CASES, k=r.randint(1, 8)))
        if kind < 0.90:
            return r.choice("aAé中Ω") * r.randint(95, 105)
        if kind < 0.91:
            return "".join([r.choice("abcdefgh") for _ in range(r.randint(900, 1200))])
        return str(r.randint(0, 10**6))

    def text(self) -> str:
        r = self.random
        glue = r.choice([" ", " ", "", "  "])
        pieces = [self.piece() for _ in range(r.choice([0, 1, 2, 3, 5, 8, 13, 13]))]
        if r.random() < 0.02:
            pieces *= r.randint(2, 40)
        return glue.join(pieces)
