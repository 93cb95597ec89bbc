"""Static models in temporary directories, written by the packages whose answers are the reference."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

SYLLABLES = ("ba", "de", "fi", "go", "hu", "ka", "le", "mi", "no", "pu", "the", "tra")
WORDS = [*SYLLABLES, *(first + second for first in SYLLABLES for second in SYLLABLES)]
PIECES = [f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789"] + [chr(c) for c in range(33, 127)]


def word_pieces(unknown: bool = True) -> Tokenizer:
    """A BERT tokenizer of some words and all letters."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocab = {text: i for i, text in enumerate(dict.fromkeys([*special, *WORDS, *PIECES]))}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(special)
    return tokenizer


def pieces_of_words() -> Tokenizer:
    """Unigram with Metaspace, as of XLM-R, whose unknown token is an id."""
    pieces = [("<unk>", 0.0), *((f"▁{word}", -3.0) for word in WORDS), *((chr(c), -6.0) for c in range(33, 127))]
    tokenizer = Tokenizer(models.Unigram([*pieces, ("▁", -5.0)], unk_id=0))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


def whole_words() -> Tokenizer:
    """WordLevel, as model2vec has it for vocabularies of words."""
    tokenizer = Tokenizer(models.WordLevel({text: i for i, text in enumerate(["[UNK]", *WORDS])}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def byte_pairs() -> Tokenizer:
    """Byte-level BPE without merges, as of ModernBERT: nothing is unknown."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({text: i for i, text in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


TOKENIZERS = {"Unigram": pieces_of_words, "WordLevel": whole_words, "BPE": byte_pairs}


def table(rows: int, width: int, dtype: Any = np.float32, seed: int = 1) -> Any:
    values = np.random.default_rng(seed).normal(size=(rows, width))
    return (values * 40).astype(np.int8) if dtype == np.int8 else values.astype(dtype)


def model2vec(
    path: Path,
    width: int = 64,
    dtype: Any = np.float32,
    *,
    normalize: bool = True,
    weighted: bool = False,
    mapped: bool = False,
    seed: int = 1,
    tokenizer: Tokenizer | None = None,
) -> Any:
    """Saves a model2vec model without a limit; returns the package's own."""
    from model2vec import StaticModel

    tokenizer = tokenizer or word_pieces()
    n = tokenizer.get_vocab_size()
    random = np.random.default_rng(seed)
    rows = n // 3 if mapped else n
    model = StaticModel(
        table(rows, width, dtype, seed),
        tokenizer,
        {"model_type": "model2vec", "architectures": ["StaticModel"]},
        normalize=normalize,
        weights=random.uniform(0.1, 2, n).astype(np.float32) if weighted else None,
        token_mapping=random.integers(0, rows, n) if mapped else None,
        max_length=None,
    )
    model.save_pretrained(path)
    return StaticModel.from_pretrained(path)


def classifier(path: Path, activation: str = "softmax", hidden: tuple[int, ...] = (16,), seed: int = 1) -> Any:
    """Saves a model2vec pipeline with a head; returns the package's own."""
    from model2vec.inference import StaticModelPipeline
    from model2vec.inference.mlp import Activation, Layer, MLPHead

    model = model2vec(path, 32, seed=seed)
    random = np.random.default_rng(seed)
    sizes = (32, *hidden, 3)
    layers = [
        Layer(random.normal(size=(b, a)).astype(np.float32), random.normal(size=b).astype(np.float32))
        for a, b in itertools.pairwise(sizes)
    ]
    classes = None if activation == "identity" else np.array(["no", "perhaps", "yes"])
    StaticModelPipeline(model, MLPHead(layers, Activation(activation), classes)).save_pretrained(str(path))
    return StaticModelPipeline.from_pretrained(path)


def sentence_transformers(path: Path, width: int = 48, *, dense: str = "", normalize: bool = True) -> Any:
    """Saves a StaticEmbedding and a projection with torch.nn's ``dense``; returns the package's own."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense, Normalize, StaticEmbedding

    torch.manual_seed(1)
    tokenizer = word_pieces()
    modules: list[Any] = [StaticEmbedding(tokenizer, embedding_weights=table(tokenizer.get_vocab_size(), width))]
    if dense:
        modules.append(Dense(width, 24, activation_function=getattr(torch.nn, dense)()))
    if normalize:
        modules.append(Normalize())
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(path), create_model_card=False)
    return SentenceTransformer(str(path), device="cpu")


def texts(count: int, seed: int = 1) -> list[str]:
    """Texts of every kind: empty, unknown, long, of every script."""
    random = np.random.default_rng(seed)
    odd = [
        "",
        " ",
        "\t\n",
        "?",
        "zzz",
        "日本語",
        "Привет мир",
        "😀😀",
        "ß",
        "\u0000",
        "é" * 5,
        "[UNK]",
        "[CLS] the",
        "a" * 99,
    ]
    found = list(odd)
    while len(found) < count:
        kind = random.integers(10)
        n = int(random.integers(1, 40)) if kind else int(random.integers(200, 400))
        if kind < 7:
            found.append(" ".join(random.choice(WORDS, n)))
        elif kind == 7:
            found.append("".join(chr(int(c)) for c in random.integers(32, 0x3000, n)))
        elif kind == 8:
            found.append(" ".join("".join(chr(int(c)) for c in random.integers(97, 123, 6)) for _ in range(n)))
        else:
            found.append(
                "".join(chr(int(c)) for c in random.integers(0x10000, 0x1FFFF, 5)) + " " + random.choice(WORDS)
            )
    return found[:count]


def rewrite(path: Path, **changes: Any) -> None:
    """Changes keys of a JSON file; None removes one."""
    found = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in found.items() if value is not None}))
