"""Random token classifiers with random tokenizers of every kind, and texts of every script for them."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

from checkpoints import write_checkpoint
from tokenizer_checkpoints import BERT_TOKENS, ROBERTA_TOKENS, bpe_file, text, unigram_file, wordpiece_file

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "MISC", "X-Y-Z", "I-O"]
KINDS = {
    "bert": (wordpiece_file, BERT_TOKENS, "BertTokenizer"),
    "roberta": (bpe_file, ROBERTA_TOKENS, "RobertaTokenizer"),
    "xlm-roberta": (unigram_file, ROBERTA_TOKENS, "XLMRobertaTokenizer"),
}
INPUT_TOKENS = 512


def write_token_classifier(folder: Path, family: str, input_tokens: int = INPUT_TOKENS) -> str:
    """A checkpoint of ``LABELS``. Returns its path."""
    make, special, kind = KINDS[family]
    file = make()
    names = dict(enumerate(LABELS))
    options: dict[str, Any] = {"id2label": names, "label2id": {name: i for i, name in names.items()}}
    write_checkpoint(
        folder,
        family,
        "classify_tokens",
        vocab_size=len(file["model"]["vocab"]),
        max_position_embeddings=input_tokens + 2,
        **options,
    )
    (folder / "tokenizer.json").write_text(json.dumps(file))
    config = {"tokenizer_class": kind, "model_max_length": input_tokens}
    config["unk_token"] = next(token for token in special if "unk" in token.lower())
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return str(folder)


@cache
def texts(count: int) -> tuple[str, ...]:
    """Random ones that are not empty."""
    r, found = random.Random(19), []
    while len(found) < count:
        if (one := text(r)).strip():
            found.append(one)
    return tuple(found)
