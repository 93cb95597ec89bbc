"""The tokenizer: byte-level BPE whose template marks where the answer begins."""

from __future__ import annotations

from itertools import islice

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from examples.grammar.mistakes import pairs, vocabulary

VOCABULARY = 1536
BOS, EOS, SEPARATOR = "<s>", "</s>", "<sep>"
BOS_ID, EOS_ID, SEPARATOR_ID = 0, 1, 2


def make_tokenizer(seed: int) -> Tokenizer:
    """Encodes a text as ``<s> text <sep>``: the model goes on from there with the corrected text and ``</s>``."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BOS, EOS, SEPARATOR],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # Every word often enough to become one token, then sentences for what begins them.
    texts = [" " + word for word in vocabulary()] * 20
    tokenizer.train_from_iterator([*texts, *(pair.right for pair in islice(pairs(seed, held=False), 10_000))], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A {SEPARATOR}", pair=None, special_tokens=[(BOS, BOS_ID), (SEPARATOR, SEPARATOR_ID)]
    )
    return tokenizer
