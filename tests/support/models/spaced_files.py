"""SentencePiece's byte-pair encoding as the tokenizer.json of published models has it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import tokenizers
from bpe_files import corpus
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from unigram_files import precompiled

SPACE = "\u2581"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
METASPACES = {
    f"{scheme}-{'split' if split else 'whole'}": {
        "type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": split
    }
    for scheme in ("always", "first", "never")
    for split in (True, False)
}  # fmt: skip
NAMES = ("llama2", "gemma", "llama2-normalized", "over-ends", "mapped", *METASPACES)


@cache
def trained() -> dict[str, Any]:
    """A model whose merges end at spaces, as Llama 2's do, with all bytes."""
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="never")
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=["<unk>", "<s>", "</s>", *BYTES], limit_alphabet=120, show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.pre_tokenizer = None  # type: ignore[assignment]
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    found = json.loads(tokenizer.to_str())
    found["added_tokens"] = [token for token in found["added_tokens"] if not token["content"].startswith("<0x")]
    merges, vocab = found["model"]["merges"], found["model"]["vocab"]
    for n in (2, 4, 8):  # runs of spaces are tokens
        vocab[SPACE * n] = len(vocab)
        merges.append([SPACE * (n // 2), SPACE * (n // 2)])
    return dict(found)


@cache
def content(name: str) -> str:
    file = dict(trained())
    if name == "gemma":
        file["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
        file["pre_tokenizer"] = {
            "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False
        }  # fmt: skip
    if name == "llama2-normalized":  # as early conversions of Llama 2 have it
        file["added_tokens"] = [{**token, "normalized": True} for token in file["added_tokens"]]
    if name == "over-ends":  # merges that go over the ends of words
        model = {**file["model"], "vocab": dict(file["model"]["vocab"]), "merges": list(file["model"]["merges"])}
        for left, right in (("e", SPACE), (f"e{SPACE}", "t"), ("s", SPACE)):
            model["vocab"][left + right] = len(model["vocab"])
            model["merges"].insert(40, [left, right])
        file["model"] = model
    if name == "mapped":
        file["normalizer"] = {"type": "Sequence", "normalizers": [precompiled(), file["normalizer"]]}
    if name in METASPACES:
        file["normalizer"], file["pre_tokenizer"] = None, METASPACES[name]
    return json.dumps(file)
