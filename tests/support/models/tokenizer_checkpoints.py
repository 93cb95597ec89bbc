"""Random tokenizers as checkpoints have them: tokenizer.json, and files beside it that agree with it or do not."""

# ruff: noqa: RUF001  (letters that look alike are the point)

from __future__ import annotations

import base64
import json
import random
import struct
from functools import cache
from pathlib import Path
from typing import Any

import tokenizers as tk
from bpe_files import LLAMA3, QWEN, corpus
from tokenizer_texts import covering_vocab
from tokenizers import AddedToken

MODEL_TYPES = ("bert", "distilbert", "roberta", "xlm-roberta", "camembert", "modernbert", "llama", "qwen2", "qwen3")
BACKENDS = ("PreTrainedTokenizerFast", "TokenizersBackend", "PreTrainedTokenizer")
CLASSES = {
    "wordpiece": ("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizerFast"),
    "bpe": (
        *("RobertaTokenizer", "RobertaTokenizerFast", "GPT2Tokenizer", "Qwen2Tokenizer", "Qwen2TokenizerFast"),
        *("LlamaTokenizer", "LlamaTokenizerFast", "BartTokenizer"),
    ),
    "unigram": ("XLMRobertaTokenizer", "XLMRobertaTokenizerFast", "CamembertTokenizer"),
}
# Families that came later. They have draws of their own, so that a seed goes on making the same files.
LATER = {"wordpiece": ("mpnet", "mpnet", "electra"), "bpe": (), "unigram": ("albert", "deberta-v2", "t5")}
NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
BERT_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
GEMMA_TOKENS = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>")
END = "<|endoftext|>"
# In the vocabulary of some, new to others; with letters that normalisers change, and some that touch.
STRANGE = (
    "<q>",
    "<query>",
    "solo",
    "Straße",
    "ÉTÉ",
    "中国",
    "[NEW]",
    "<|im_end|>",
    "the",
    "a b",
    "é",
    "##x",
    "<q>x",
    "👍",
)
STRIPPING = ("the", "solo", "strasse", "cafe")  # in the vocabulary; which white space they take in stripping_file()
WORDS = (  # noqa: SIM905
    "the of and to in Straße straße naïve café cafe CAFÉ Łódź Ελλάδα Россия 你好 世界 中国 日本語 안녕하세요 don't I'M "
    "123 4567 unhappy new york C++ e-mail 👍 👩\u200d👧 ½ ﬁ ſt İstanbul"
).split()
CHARS = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?'-+éÉñüß½"
    "中国世界日本語你好안녕하세요ελλάδαРоссия"
)
NO_CHARSMAP = base64.b64encode(struct.pack("<I", 1024) + bytes(1024) + b"\0").decode()


@cache
def _wordpiece() -> tuple[str, ...]:
    return (*BERT_TOKENS, *covering_vocab(CHARS, words=100)[5:], "the", "solo", "##lo", "strasse", "cafe")


@cache
def _bpe() -> str:
    """With the special tokens of all families in front, as RoBERTa has them."""
    tokenizer = tk.Tokenizer(tk.models.BPE())
    tokenizer.pre_tokenizer = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tk.trainers.BpeTrainer(
        vocab_size=700,
        initial_alphabet=tk.pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[*ROBERTA_TOKENS, END],
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus()[:500], trainer)
    return str(tokenizer.to_str())


@cache
def _unigram() -> str:
    tokenizer = tk.Tokenizer(tk.models.Unigram())
    tokenizer.pre_tokenizer = tk.pre_tokenizers.Metaspace()
    trainer = tk.trainers.UnigramTrainer(
        vocab_size=500, special_tokens=list(ROBERTA_TOKENS), unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(corpus()[:500], trainer)
    return str(tokenizer.to_str())


def wordpiece_file() -> dict[str, Any]:
    """As BERT's: in lower case, [CLS] A [SEP] B [SEP]."""
    vocab = {word: i for i, word in enumerate(dict.fromkeys(_wordpiece()))}
    made = tk.Tokenizer(tk.models.WordPiece(vocab, unk_token="[UNK]"))
    made.normalizer = tk.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tk.pre_tokenizers.BertPreTokenizer()
    made.decoder = tk.decoders.WordPiece()
    made.post_processor = tk.processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])]
    )
    made.add_special_tokens(list(BERT_TOKENS))
    found: dict[str, Any] = json.loads(made.to_str())
    return found


def stripping_file(*, normalized: bool) -> dict[str, Any]:
    """The same with added tokens that take the space beside them. ``normalized``: no native tokenizer says where they
    are."""
    file = wordpiece_file()
    made = tk.Tokenizer.from_str(json.dumps(file))
    sides = ((True, False), (False, True), (True, True), (False, False))
    made.add_tokens(
        [
            AddedToken(content, lstrip=left, rstrip=right, normalized=normalized)
            for content, (left, right) in zip(STRIPPING, sides, strict=True)
        ]
    )
    found: dict[str, Any] = json.loads(made.to_str())
    return found


def bpe_file() -> dict[str, Any]:
    """With Llama 3's words and RoBERTa's special tokens."""
    made = tk.Tokenizer.from_str(_bpe())
    p = tk.pre_tokenizers
    made.pre_tokenizer = p.Sequence([p.Split(tk.Regex(LLAMA3), "isolated"), p.ByteLevel(False, use_regex=False)])
    made.normalizer = tk.normalizers.NFC()
    made.decoder = tk.decoders.ByteLevel()
    made.post_processor = tk.processors.TemplateProcessing("<s> $A", "<s> $A <s>:1 $B:1", [("<s>", 0)])
    found: dict[str, Any] = json.loads(made.to_str())
    return found


def unigram_file() -> dict[str, Any]:
    """As XLM-RoBERTa's, with a normalizer of two parts."""
    made = tk.Tokenizer.from_str(_unigram())
    table = tk.normalizers.Precompiled(base64.b64decode(NO_CHARSMAP))
    made.normalizer = tk.normalizers.Sequence([table, tk.normalizers.Lowercase()])
    ids = [(name, made.token_to_id(name)) for name in ("<s>", "</s>")]
    made.post_processor = tk.processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B:1 </s>:1", ids)
    found: dict[str, Any] = json.loads(made.to_str())
    return found


@cache
def _gemma(*lines: str) -> str:
    """``lines`` to learn from, beside those of the corpus that have no line breaks inside; without any, all of it."""
    texts = [*(line for line in corpus()[:500] if not lines or "\n" not in line), *lines]
    tokenizer = tk.Tokenizer(tk.models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = tk.normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = tk.pre_tokenizers.Split(" ", "merged_with_previous")
    bytes_of_characters = [f"<0x{i:02X}>" for i in range(256)]
    trainer = tk.trainers.BpeTrainer(
        vocab_size=900, special_tokens=[*GEMMA_TOKENS, *bytes_of_characters], show_progress=False
    )
    tokenizer.train_from_iterator([line.replace(" ", "\u2581") for line in texts], trainer)
    found = json.loads(tokenizer.to_str())
    found["added_tokens"] = found["added_tokens"][: len(GEMMA_TOKENS)]  # bytes are pieces of the model alone
    return json.dumps(found)


def gemma_file(*lines: str) -> dict[str, Any]:
    """As EmbeddingGemma's: spaces as U+2581, bytes of unknown characters, <bos> A <eos>. ``lines``: as ``_gemma``."""
    made = tk.Tokenizer.from_str(_gemma(*lines))
    ids = [(name, made.token_to_id(name)) for name in ("<bos>", "<eos>")]
    made.post_processor = tk.processors.TemplateProcessing("<bos> $A <eos>", "<bos> $A <eos> <bos>:1 $B:1 <eos>:1", ids)
    found: dict[str, Any] = json.loads(made.to_str())
    return found


class Checkpoints:
    """Random ones from a seed. ``write`` gives the model type."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.later = random.Random(f"later {seed}")

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def flag(self) -> bool:
        return self.maybe(0.5)

    def write(self, folder: Path) -> str:
        r = self.random
        kind = r.choice(["wordpiece", "wordpiece", "bpe", "bpe", "unigram"])
        types = {
            "wordpiece": ("bert", "bert", "bert", "distilbert", "modernbert"),
            "bpe": ("roberta", "roberta", "modernbert", "llama", "qwen2", "qwen3", "bert"),
            "unigram": ("xlm-roberta", "xlm-roberta", "camembert", "bert"),
        }[kind]
        model_type = r.choice(MODEL_TYPES) if self.maybe(0.05) else r.choice(types)
        if LATER[kind] and self.later.random() < 0.3:
            model_type = self.later.choice(LATER[kind])
        stated: dict[str, Any] = {"model_type": model_type}
        config = self.config(kind)
        if "tokenizer_class" not in config and self.maybe(0.1):
            stated["tokenizer_class"] = r.choice([*BACKENDS, *CLASSES[kind]])
        file = self.file(kind)
        files: dict[str, Any] = {"config.json": stated, "tokenizer.json": file}
        if kind == "bpe" and self.later.random() < 0.3:
            config["trim_offsets"] = self.later.choice([True, False])
        if config or self.maybe(0.7):
            files["tokenizer_config.json"] = config
        if self.maybe(0.4):
            files["special_tokens_map.json"] = self.special_map(kind)
        if self.maybe(0.3):
            files["added_tokens.json"] = self.added_json(file)
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content, ensure_ascii=False))
        return model_type

    def file(self, kind: str) -> dict[str, Any]:
        made = {"wordpiece": self.wordpiece, "bpe": self.bpe, "unigram": self.unigram}[kind]()
        own = ROBERTA_TOKENS if kind != "wordpiece" else BERT_TOKENS
        if self.maybe(0.9):
            made.add_special_tokens([AddedToken(t, lstrip="ask" in t and self.flag(), special=True) for t in own])
        if self.maybe(0.5):
            made.add_tokens([self.added() for _ in range(self.random.randint(1, 3))])
        if self.maybe(0.2):
            made.enable_truncation(self.random.randint(5, 20), direction=self.random.choice(["left", "right"]))
        if self.maybe(0.2):
            made.enable_padding(pad_token=self.random.choice([own[0], own[1], "[PAD2]"]))
        found: dict[str, Any] = json.loads(made.to_str())
        if self.maybe(0.2) and found["truncation"]:
            found["truncation"]["strategy"] = self.random.choice(["OnlyFirst", "LongestFirst"])
        return found

    def wordpiece(self) -> tk.Tokenizer:
        vocab = {word: i for i, word in enumerate(dict.fromkeys(_wordpiece()))}
        made = tk.Tokenizer(
            tk.models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=self.random.choice([100, 100, 6]))
        )
        bert = tk.normalizers.BertNormalizer(
            clean_text=self.flag(),
            handle_chinese_chars=self.flag(),
            strip_accents=self.random.choice([None, True, False]),
            lowercase=self.flag(),
        )
        made.normalizer = self.random.choice([bert, bert, bert, tk.normalizers.Sequence([tk.normalizers.NFC(), bert])])
        made.pre_tokenizer = tk.pre_tokenizers.BertPreTokenizer()
        made.decoder = tk.decoders.WordPiece()
        self.post(made, "[CLS]", "[SEP]")
        return made

    def bpe(self) -> tk.Tokenizer:
        r, p = self.random, tk.pre_tokenizers
        file = json.loads(_bpe())
        file["added_tokens"] = []
        file["model"]["ignore_merges"] = self.maybe(0.2)
        file["model"]["unk_token"] = r.choice([None, None, "<unk>"])
        made = tk.Tokenizer.from_str(json.dumps(file))
        made.pre_tokenizer = r.choice(
            [
                p.ByteLevel(add_prefix_space=self.flag(), trim_offsets=self.flag()),
                p.Sequence([p.Split(tk.Regex(LLAMA3), "isolated"), p.ByteLevel(False, use_regex=False)]),
                p.Sequence([p.Split(tk.Regex(QWEN), "isolated"), p.ByteLevel(False, use_regex=False)]),
                p.Sequence([p.Digits(individual_digits=True), p.ByteLevel(add_prefix_space=False)]),
            ]
        )
        made.normalizer = r.choice([None, None, tk.normalizers.NFC()])
        made.decoder = tk.decoders.ByteLevel()
        self.post(made, "<s>", "</s>")
        return made

    def unigram(self) -> tk.Tokenizer:
        r, n = self.random, tk.normalizers
        made = tk.Tokenizer.from_str(_unigram())
        table = n.Precompiled(base64.b64decode(NO_CHARSMAP))
        made.normalizer = r.choice([None, table, n.Sequence([table, n.Replace(tk.Regex(" {2,}"), " ")]), n.NFKC()])
        made.pre_tokenizer = r.choice(
            [
                tk.pre_tokenizers.Sequence([tk.pre_tokenizers.WhitespaceSplit(), tk.pre_tokenizers.Metaspace()]),
                tk.pre_tokenizers.Metaspace(prepend_scheme=r.choice(["always", "never", "first"])),
            ]
        )
        made.decoder = tk.decoders.Metaspace()
        self.post(made, "<s>", "</s>")
        return made

    def post(self, made: tk.Tokenizer, cls: str, sep: str) -> None:
        p, ids = tk.processors, [(t, made.token_to_id(t)) for t in (cls, sep)]
        made.post_processor = self.random.choice(
            [
                p.TemplateProcessing(f"{cls} $A {sep}", f"{cls} $A {sep} $B:1 {sep}:1", ids),
                p.TemplateProcessing(f"{cls} $A {sep}", f"{cls} $A {sep} {sep} $B {sep}", ids),
                p.TemplateProcessing(f"{cls} $A", f"{cls} $A {cls}:1 $B:1", ids[:1]),
                p.BertProcessing(ids[1], ids[0]),
                p.RobertaProcessing(ids[1], ids[0], self.flag(), self.flag()),
                None,
            ]
        )

    def added(self) -> AddedToken:
        flags = {name: self.maybe(0.25) for name in ("single_word", "lstrip", "rstrip")}
        return AddedToken(self.random.choice(STRANGE), normalized=self.flag(), special=self.maybe(0.3), **flags)

    def added_object(self, content: str | None = None) -> dict[str, Any]:
        made: dict[str, Any] = {"content": content or self.random.choice(STRANGE)}
        for name in ("single_word", "lstrip", "rstrip", "normalized", "special"):
            if self.maybe(0.8):
                made[name] = self.maybe(0.3)
        return made

    def spelled(self, kind: str) -> Any:
        r = self.random
        own = BERT_TOKENS if kind == "wordpiece" else (*ROBERTA_TOKENS, END)
        content = r.choice(own) if self.maybe(0.8) else r.choice([*STRANGE, *BERT_TOKENS, *ROBERTA_TOKENS])
        return {"__type": "AddedToken", **self.added_object(content)} if self.maybe(0.3) else content

    def named(self, kind: str) -> dict[str, Any]:
        usual = dict(
            zip(("cls_token", "pad_token", "sep_token", "unk_token", "mask_token"), ROBERTA_TOKENS, strict=True)
        )
        if kind == "wordpiece":
            usual = dict(
                zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), BERT_TOKENS, strict=True)
            )
        found: dict[str, Any] = {}
        for name in NAMED:
            if self.maybe(0.5):
                found[name] = (
                    self.spelled(kind) if self.maybe(0.3) else usual.get(name, END if kind == "bpe" else "</s>")
                )
            elif self.maybe(0.03):
                found[name] = None
        return found

    def config(self, kind: str) -> dict[str, Any]:
        r = self.random
        found: dict[str, Any] = self.named(kind) if self.maybe(0.8) else {}
        chances = {
            "do_lower_case": (0.5, self.flag()),
            "strip_accents": (0.3, r.choice([None, True, False])),
            "tokenize_chinese_chars": (0.3, self.flag()),
            "add_prefix_space": (0.4, self.flag()),
            "truncation_side": (0.2, r.choice(["left", "right"])),
            "padding_side": (0.2, r.choice(["left", "right"])),
            "add_bos_token": (0.2, self.flag()),
            "add_eos_token": (0.2, self.flag()),
            "model_max_length": (0.4, r.choice([512, 1e30])),
            "model_input_names": (
                0.3,
                r.choice([["input_ids", "attention_mask"], ["input_ids", "token_type_ids", "attention_mask"]]),
            ),
            "clean_up_tokenization_spaces": (0.2, self.flag()),
            "split_special_tokens": (0.03, self.flag()),
            "legacy": (0.1, self.flag()),
            "additional_special_tokens": (0.2, self.extra()),
            "extra_special_tokens": (0.15, r.choice([self.extra(), {"image_token": r.choice(STRANGE)}, []])),
            "image_token": (0.05, r.choice(STRANGE)),
            "tokenizer_class": (0.7, r.choice([*BACKENDS, *CLASSES[kind], *CLASSES[kind]])),
            "added_tokens_decoder": (0.4, self.decoder()),
            "never_split": (0.1, None),
            "some_unknown_key": (0.05, 1),
        }
        found |= {key: value for key, (chance, value) in chances.items() if self.maybe(chance)}
        names = list(found)
        r.shuffle(names)
        return {name: found[name] for name in names}

    def extra(self) -> list[Any]:
        made = self.random.sample(STRANGE, self.random.randint(0, 2))
        return [{"__type": "AddedToken", **self.added_object(t)} if self.maybe(0.2) else t for t in made]

    def decoder(self) -> dict[str, Any]:
        own = self.random.choice([BERT_TOKENS, ROBERTA_TOKENS])
        found = {str(i): self.added_object(t) | {"special": True} for i, t in enumerate(own) if self.maybe(0.8)}
        for _ in range(self.random.randint(0, 3)):
            found[str(self.random.randint(100, 2000))] = self.added_object()
        return found

    def special_map(self, kind: str) -> dict[str, Any]:
        found = {name: self.plain_object(value) for name, value in self.named(kind).items() if value is not None}
        if self.maybe(0.2):
            found["additional_special_tokens"] = self.extra()
        if self.maybe(0.1):
            found["extra_special_tokens"] = [self.plain_object(each) for each in self.extra()]
        return found

    def plain_object(self, value: Any) -> Any:
        return {k: v for k, v in value.items() if k != "__type"} if isinstance(value, dict) else value

    def added_json(self, file: dict[str, Any]) -> dict[str, int]:
        size = len(file["model"]["vocab"]) + len(file["added_tokens"])
        return {content: size + i for i, content in enumerate(self.random.sample(STRANGE, self.random.randint(1, 3)))}


def text(r: random.Random) -> str:
    """Words, odd characters, tokens that are spelled in a text, and what stands around them."""
    pieces = []
    for _ in range(r.choice([0, 1, 2, 4, 8, 16])):
        kind = r.random()
        if kind < 0.4:
            pieces.append(r.choice([r.choice(WORDS), r.choice(WORDS).upper(), r.choice(WORDS) + r.choice(WORDS)]))
        elif kind < 0.65:
            mark = r.choice([*STRANGE, *STRANGE, *BERT_TOKENS, *ROBERTA_TOKENS, END, "[PAD2]"])
            pieces.append(r.choice([mark, mark, mark.lower(), mark.upper(), mark[:-1], mark + mark, mark + "x"]))
        elif kind < 0.8:
            pieces.append(
                "".join(r.choices(CHARS + "\x00\x07\t\n\u00ad\u200b\ufffd\ufeff\u0301\u0323\u3000 ", k=r.randint(1, 6)))
            )
        elif kind < 0.9:
            pieces.append(chr(r.choice([r.randint(0x20, 0xD7FF), r.randint(0xE000, 0x10FFFF)])))
        else:
            pieces.append(r.choice([" ", "  ", "\n", "\t ", "\u00a0"]))
    return r.choice([" ", " ", "", "  "]).join(pieces)
