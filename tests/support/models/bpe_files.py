"""Small byte-level tokenizers with the pre-tokenizers of real models, trained on generated text, and texts to try."""

# ruff: noqa: RUF001  (letters that look alike are the point)

import json
import random
from functools import cache
from typing import Any

from tokenizer_texts import Texts
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace("{1,3}", "")

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|eot_id|>"]
# The last three: what ModernBERT, Phi and Starcoder have of the kind.
ADDED = [
    AddedToken("<tool_call>", normalized=False),
    AddedToken("<tool", normalized=False, single_word=True),
    AddedToken("[MASK]", normalized=False, lstrip=True),
    AddedToken("solo", normalized=False, single_word=True, lstrip=True),
    AddedToken("olo", normalized=False),
    AddedToken("中 国", normalized=False),
    AddedToken("|||IP|||", normalized=True),
    AddedToken("é\u0323", normalized=True, single_word=True),
    AddedToken("    ", normalized=True),
]
RSTRIP = [AddedToken("<fim>", normalized=False, rstrip=True), AddedToken("[X]", lstrip=True, rstrip=True)]

WORDS = (  # noqa: SIM905
    "the of and to in is was he for it with as his on be at by had not are but from or have an they which one you "
    "were her all she there would their we him been has when who will more no if out so said what up its about "
    "into than them can only other new some could time these two may then do first any my now such like our over "
    "man me even most Straße über naïve café façade señor Łódź Ελλάδα και είναι Россия это как день שלום עולם "
    "مرحبا العالم नमस्ते दुनिया 你好 世界 中国 日本語 こんにちは カタカナ 안녕하세요 세계 "
    "ภาษาไทย tiếng Việt def return self import class "
    "None True ſie don't I'm we've they'll she'd it's you're DON'T I'LL o'clock 👍 😀 👩\u200d👩\u200d👧 "
    "→ ≠ ½ ² Ⅳ ١٢٣ ① "
).split()


@cache
def corpus() -> list[str]:
    pick = random.Random(3)
    lines = []
    for _ in range(4000):
        words = [pick.choice(WORDS) for _ in range(pick.randint(3, 20))]
        if pick.random() < 0.5:
            words[0] = words[0].capitalize()
        if pick.random() < 0.4:
            words.append(str(pick.randint(0, 10 ** pick.randint(1, 9))))
        line = pick.choice([" ", " ", " ", "  ", ", ", "\n", "\n\n", "\t", " - "]).join(words)
        lines.append(line + pick.choice([".", "!", "?\n", "...\n\n", " ", "\r\n", ";\n    ", ""]))
    return lines


def pre_tokenizer(name: str) -> Any:
    p = pre_tokenizers
    if name in ("gpt2", "prefix"):
        return p.ByteLevel(add_prefix_space=name == "prefix")
    if name == "smollm2":
        return p.Sequence([p.Digits(individual_digits=True), p.ByteLevel(add_prefix_space=False)])
    regex = {"llama3": LLAMA3, "qwen": QWEN}[name]
    return p.Sequence([p.Split(Regex(regex), "isolated"), p.ByteLevel(add_prefix_space=False, use_regex=False)])


@cache
def trained(name: str, size: int = 3000, alphabet: bool = True) -> str:
    """The tokenizer.json of a model that was trained with a pre-tokenizer, nothing added."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer(name)
    if name == "qwen":
        tokenizer.normalizer = normalizers.NFC()
    initial = pre_tokenizers.ByteLevel.alphabet() if alphabet else []
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=initial, special_tokens=SPECIAL[:1])
    trainer.show_progress = False
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.decoder = decoders.ByteLevel()
    return str(tokenizer.to_str())


def changed(
    content: str, added: list[AddedToken] | None = None, post: str = "none", pairs: bool = True, **model: Any
) -> str:
    """With added tokens, a post-processor, merges as pairs or as text, and other values in the model's part."""
    tokenizer = Tokenizer.from_str(content)
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens(added or [])
    bos, end = (SPECIAL[1], tokenizer.token_to_id(SPECIAL[1])), (SPECIAL[2], tokenizer.token_to_id(SPECIAL[2]))
    byte_level = processors.ByteLevel(trim_offsets=False)
    template = processors.TemplateProcessing(
        single=f"{bos[0]} $A", pair=f"{bos[0]} $A {bos[0]} $B:1", special_tokens=[bos, end]
    )
    if post != "none":
        tokenizer.post_processor = {
            "byte-level": byte_level,
            "template": template,
            "sequence": processors.Sequence([byte_level, template]),
            "roberta": processors.RobertaProcessing(end, bos),
        }[post]
    file = json.loads(tokenizer.to_str())
    if not pairs:
        file["model"]["merges"] = [" ".join(pair) for pair in file["model"]["merges"]]
    file["model"] |= model
    return json.dumps(file, ensure_ascii=False)


@cache
def variants() -> dict[str, list[str]]:
    """By pre-tokenizer; each tokenizer.json of a name shares its fuzzed texts."""
    gpt2, llama3, qwen = trained("gpt2"), trained("llama3"), trained("qwen")
    return {
        "gpt2": [
            changed(gpt2, post="byte-level", pairs=False),
            changed(gpt2, ADDED, "roberta"),
            changed(gpt2, RSTRIP),
            changed(trained("prefix"), post="template"),
            changed(trained("prefix"), ADDED),
            changed(trained("gpt2", 400, False)),  # bytes that the vocabulary lacks vanish
        ],
        "llama3": [
            changed(llama3, post="sequence", ignore_merges=True),
            changed(llama3, ADDED, "template", ignore_merges=True, unk_token="<|endoftext|>"),
            changed(trained("llama3", 600), RSTRIP, pairs=False),
        ],
        "qwen": [
            changed(qwen, post="byte-level", pairs=False),
            changed(qwen, ADDED, "sequence"),
            changed(qwen, RSTRIP, ignore_merges=True),
        ],
        "smollm2": [changed(trained("smollm2")), changed(trained("smollm2"), ADDED, "template")],
    }


CONTRACTIONS = [
    "'s",
    "'t",
    "'re",
    "'ve",
    "'m",
    "'ll",
    "'d",
    "'S",
    "'LL",
    "'lL",
    "'rE",
    "'V",
    "'ſ",
    "'ſt",
    "’s",
    "'",
    "''s",
]
LINES = [
    " \n",
    "\n\n",
    "\r\n",
    "\n ",
    " \r \n\t ",
    "\t\t",
    "  ",
    "   ",
    "\u3000\n",
    "\u2028",
    "\x85",
    "!\n",
    ".\r\n\n x",
]


class ByteLevelTexts(Texts):
    """The texts of the WordPiece tests, with more of what the byte-level rules look at."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, WORDS, [*SPECIAL, *(t.content for t in ADDED), *(t.content for t in RSTRIP)])
        self.long_parts = ["a", "ab", " ", "\n", "!", "é", "the ", "0", "e\u0301"]

    def piece(self) -> str:
        r = self.random
        kind = r.random()
        if kind < 0.70:
            return super().piece()
        if kind < 0.80:
            return (
                r.choice([r.choice(WORDS), "", self.char()]) + r.choice(CONTRACTIONS) + r.choice(["", "x", self.char()])
            )
        if kind < 0.90:
            return "".join(r.choices(LINES, k=r.randint(1, 3)))
        if kind < 0.95:
            return "".join(r.choices("0123456789٣½²௧Ⅷ①", k=r.randint(1, 9)))
        if kind < 0.955:
            return r.choice(self.long_parts) * r.randint(20, 400)
        return "".join(r.choices(WORDS, k=3))
