"""Unigram tokenizers with the configurations of real models, as transformers' converters write them."""

import base64
import json
import lzma
from functools import cache
from typing import Any

from bpe_files import WORDS, ByteLevelTexts, corpus
from paths import ROOT
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

SPACE = "\u2581"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_CHARSMAP = ROOT / "tests/tokenizers/data/nmt_nfkc.charsmap.xz"


@cache
def precompiled() -> dict[str, Any]:
    charsmap = lzma.decompress(_CHARSMAP.read_bytes())
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}


@cache
def pieces() -> list[list[Any]]:
    """Pieces and scores of a model that was trained on generated text, and runs of characters, whose orders tie."""
    tokenizer: Any = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE)
    trainer = trainers.UnigramTrainer(vocab_size=1500, special_tokens=[], unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    found = [each for each in json.loads(tokenizer.to_str())["model"]["vocab"] if each[0] != "<unk>"]
    known = {piece for piece, _ in found}
    more = [c * n for c in ("!", "a", "0", ".", SPACE, "é") for n in (1, 2, 3, 4)] + ["'", '"', "``", "\u0301"]
    scores = [-7.1234567165374756, -9.310112953186035, -11.872931480407715, -13.000000953674316]
    found += [[piece, scores[len(piece) % 4] - i / 7] for i, piece in enumerate(more) if piece not in known]
    return found


def replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def sequence(*steps: dict[str, Any], kind: str = "normalizers") -> dict[str, Any]:
    return {"type": "Sequence", kind: list(steps)}


def metaspace(scheme: str = "always", split: bool = True) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": split}


def template(single: str, pair: str, ids: dict[str, int]) -> dict[str, Any]:
    def part(spelled: str) -> dict[str, Any]:
        name, _, kind = spelled.partition(":")
        which = "Sequence" if name in "AB" else "SpecialToken"
        return {which: {"id": name, "type_id": int(kind or 0)}}

    return {
        "type": "TemplateProcessing",
        "single": [part(each) for each in single.split()],
        "pair": [part(each) for each in pair.split()],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in ids.items()},
    }


OLD_METASPACE = {"type": "Metaspace", "replacement": SPACE, "str_rep": SPACE, "add_prefix_space": True}
WORDS_FIRST = {"type": "WhitespaceSplit"}
RUNS = replace({"Regex": " {2,}"}, " ")


def normalizer(name: str) -> dict[str, Any] | None:
    spm = [{"type": "Strip", "strip_left": False, "strip_right": True}, replace({"Regex": " {2,}"}, SPACE)]
    quotes = [replace({"String": "``"}, '"'), replace({"String": "''"}, '"')]
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    found: dict[str, dict[str, Any] | None] = {
        "converted": sequence(precompiled(), *spm),
        "t5-first": sequence(precompiled(), *spm),
        "albert": sequence(
            *quotes, {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, precompiled(), RUNS
        ),
        "deberta": sequence(strip, precompiled(), RUNS),
        "deberta5": sequence(
            {"type": "Lowercase"},
            replace({"Regex": r"\s{2,}|[\n\r\t]"}, " "),
            {"type": "NFC"},
            {"type": "Strip", "strip_left": False, "strip_right": True},
        ),
        "nmt": sequence({"type": "Nmt"}, {"type": "NFKC"}, RUNS, {"type": "NFD"}),
        "mbart": None,
        "proto": sequence(
            precompiled(),
            replace({"Regex": r"\A +| +\z"}, ""),
            RUNS,
            replace({"String": " "}, SPACE),
            replace({"Regex": rf"\A{SPACE}"}, SPACE * 2),
        ),
        "spaced": sequence({"type": "Prepend", "prepend": SPACE}, replace({"String": " "}, SPACE)),
    }
    return found.get(name, precompiled())


def pre_tokenizer(name: str) -> dict[str, Any] | None:
    words = "pretokenizers"
    found: dict[str, dict[str, Any] | None] = {
        "xlm-r": sequence(WORDS_FIRST, OLD_METASPACE, kind=words),
        "converted": metaspace(),
        "t5-first": metaspace("first"),
        "deberta": sequence(metaspace(), kind=words),
        "deberta5": sequence(metaspace(), kind=words),
        "never": sequence(WORDS_FIRST, metaspace("never"), kind=words),
        "words-first": sequence(WORDS_FIRST, metaspace("first"), kind=words),
        "words-whole": sequence(WORDS_FIRST, metaspace(split=False), kind=words),
        "proto": sequence(metaspace(split=False), kind=words),
        "spaced": None,
    }
    return found.get(name, sequence(WORDS_FIRST, metaspace(), kind=words))


def decoder(name: str) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [replace({"String": SPACE}, " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    return {
        "xlm-r": OLD_METASPACE,
        "never": metaspace("never"),
        "bytes": sequence({"type": "ByteFallback"}, metaspace(), kind="decoders"),
        "proto": sequence(steps[0], steps[2], strip, kind="decoders"),
        "spaced": sequence(*steps, kind="decoders"),
    }.get(name, metaspace())


NAMES = (
    "xlm-r", "converted", "t5", "t5-first", "albert", "deberta", "deberta5", "camembert", "mbart", "nmt", "never",
    "words-first", "words-whole", "bytes", "proto", "spaced", "odd-scores",
)  # fmt: skip


def token(content: str, number: int, special: bool = True, **flags: bool) -> dict[str, Any]:
    kind = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": special}
    return {"id": number, "content": content, **kind, **flags}


@cache
def content(name: str) -> str:
    """A whole tokenizer.json."""
    front = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]]
    if name in ("t5", "t5-first"):
        front = [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]]
    if name == "camembert":
        front = [["<s>NOTUSED", 0.0], ["<pad>", 0.0], ["</s>NOTUSED", 0.0], ["<unk>", 0.0], ["<unk>NOTUSED", -100]]
    if name in ("albert", "deberta", "deberta5"):
        front = [["<pad>", 0.0], ["<unk>", 0], ["[CLS]", 0.0], ["[SEP]", 0.0]]
    vocab = [*front, *pieces()]
    if name in ("bytes", "spaced"):
        vocab += [[piece, 0.0] for piece in BYTES]
    if name == "odd-scores":  # so high that two unknown characters beat a piece of both
        vocab = [[piece, score + 100] for piece, score in vocab]
    tail = {"t5": "<extra_id_1>", "t5-first": "<extra_id_0>"}.get(name, "<mask>")
    vocab.append([tail, 0.0])
    ids = {piece: i for i, (piece, _) in enumerate(vocab)}
    added = [token(piece, ids[piece]) for piece in ("<pad>", "<unk>")]
    if name in ("t5", "t5-first"):
        post: dict[str, Any] | None = template("A </s>", "A </s> B </s>", {"</s>": ids["</s>"]})
        added += [token("</s>", ids["</s>"]), token(tail, ids[tail])]
    elif name in ("albert", "deberta", "deberta5"):
        ends = {piece: ids[piece] for piece in ("[CLS]", "[SEP]")}
        post = template("[CLS] A [SEP]", "[CLS] A [SEP] B:1 [SEP]:1", ends)
        added += [*(token(*end) for end in ends.items()), token("<mask>", ids["<mask>"], lstrip=True)]
    elif name in ("spaced", "camembert"):
        post = None
    else:
        ends = {piece: ids[piece] for piece in ("<s>", "</s>")}
        post = template("<s> A </s>", "<s> A </s> </s> B </s>", ends)
        added += [*(token(*end) for end in ends.items()), token("<mask>", ids["<mask>"], lstrip=True)]
    file = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(added, key=lambda each: int(each["id"])),
        "normalizer": normalizer(name),
        "pre_tokenizer": pre_tokenizer(name),
        "post_processor": post,
        "decoder": decoder(name),
        "model": {
            "type": "Unigram",
            "unk_id": ids["<unk>"],
            "vocab": vocab,
            "byte_fallback": name in ("bytes", "spaced"),
        },
    }
    return json.dumps(file, ensure_ascii=False)


class SpacedTexts(ByteLevelTexts):
    """More of spaces, marks, and what character maps look at."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.marks = ["<s>", "</s>", "<mask>", "<unk>", "[CLS]", "<pad>", "<extra_id_0>", "<0x0A>", SPACE]
        self.more = [
            SPACE, SPACE * 2, f" {SPACE}", "  ", " ", "``", "''",
            "!!!!!!!", "aaaaaaa", "0000", ".....", "\u00a8", "\u00bd", "\ufdfa",
            "e\u0301", "か\u3099", "\u1100\u1161", "क\u094dक",
            "\u00a9\u200d\u00a9", "\u0600a", "\r\n", "\x01", "\u200b", "\u00ad", "ﬁ", "Ⅳ",
            "\u0340\u0301", "ﾞ", "カﾞ", "\U0001f1e6\U0001f1e7", "İ", "ß", "①", "㍿", "\u2028", "\x85", "\u3000",
        ]  # fmt: skip

    def piece(self) -> str:
        kind = self.random.random()
        if kind < 0.15:
            return "".join(self.random.choices(self.more, k=self.random.randint(1, 4)))
        if kind < 0.20:
            return self.random.choice(WORDS) + self.random.choice(self.more) + self.random.choice(WORDS)
        return super().piece()
