"""Tokenizers without a download: seeded words, a WordPiece table of them, a byte-level BPE trained on them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from bench.gpu.models.shapes import Shape
from fastqps.bench.measure.workload import Payloads, parse_call, write_messages
from fastqps.v1 import predict_pb2 as pb

WORDS = 24_000
TOKENS_MAX = 32_000  # of a trained BPE: more takes long to train, and changes nothing for the model
_SPECIAL = {
    "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"
}  # fmt: skip


@cache
def words(count: int = WORDS, seed: int = 5) -> tuple[str, ...]:
    """Different words of two to four syllables, the same ones for a seed."""
    rng = random.Random(seed)
    syllables = [head + body + tail for head in "bdfgklmnprstvz" for body in "aeiou" for tail in ("", "n", "r", "s")]
    unique: dict[str, None] = {}
    while len(unique) < count:
        unique["".join(rng.choices(syllables, k=rng.randint(2, 4)))] = None
    return tuple(unique)


def write_tokenizer(shape: Shape, path: Path) -> None:
    """tokenizer.json and tokenizer_config.json, as transformers, tokenizers and fastqps read them."""
    config: dict[str, Any]
    if shape.kind == "encoder":
        tokenizer = _wordpiece(shape.vocab)
        config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 512, **_SPECIAL}
    else:
        tokenizer = _byte_level(shape.vocab)
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 4096}
        config |= {"eos_token": "<|end|>", "pad_token": "<|end|>"}
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps(config, indent=1))


def texts(path: Path, count: int, tokens: int, seed: int = 1) -> list[str]:
    """``count`` different texts of exactly ``tokens`` tokens each, special ones included, for the tokenizer in
    ``path``: words that are one token, each with a space in front of it."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    known = sorted(word.removeprefix("Ġ") for word in tokenizer.get_vocab() if not word.startswith("##"))
    asked = [f" {word}" for word in known if word.isascii() and word.isalpha()]
    encodings = tokenizer.encode_batch(asked, add_special_tokens=False)
    single = [text for text, one in zip(asked, encodings, strict=True) if len(one.ids) == 1]
    rng = random.Random(seed)
    length = tokens - tokenizer.num_special_tokens_to_add(False)
    made = list(dict.fromkeys("".join(rng.choices(single, k=length)) for _ in range(count)))
    wrong = {len(one.ids) for one in tokenizer.encode_batch(made)} - {tokens}
    if wrong or len(made) < count:
        raise ValueError(f"not {count} different texts of {tokens} tokens, but {len(made)}, some of {sorted(wrong)}")
    return made


def write_payloads(folder: str, messages: Sequence[pb.PredictRequest]) -> Payloads:
    """Predict calls, for the load generator."""
    path = Path(folder) / "payloads"
    write_messages(path, messages)
    return Payloads(path, parse_call("predict"), messages[0].SerializeToString(), len(messages))


def _wordpiece(vocab: int) -> Any:
    from tokenizers.implementations.bert_wordpiece import BertWordPieceTokenizer

    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-"
    listed = [*_SPECIAL.values(), *letters, *(f"##{letter}" for letter in letters[:36])]
    listed += words(max(WORDS, vocab))[: vocab - len(listed)]
    return BertWordPieceTokenizer({word: i for i, word in enumerate(listed)})


def _byte_level(vocab: int) -> Any:
    from tokenizers.implementations.byte_level_bpe import ByteLevelBPETokenizer

    tokenizer, rng = ByteLevelBPETokenizer(), random.Random(6)
    texts = (" " + " ".join(rng.choices(words(), k=12)) for _ in range(12_000))
    size = min(vocab, TOKENS_MAX)
    tokenizer.train_from_iterator(texts, vocab_size=size, special_tokens=["<|end|>"], show_progress=False)
    return tokenizer
