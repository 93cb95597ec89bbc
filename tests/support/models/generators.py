"""A tiny random generator with a tokenizer of its own, and requests with the answers that it gives them alone."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers as tk
import torch
import transformers as tr

import fastqps
from fastqps.api.prediction import Chunk, Generation

CONTEXT = 4096
VOCAB = 384
EOS, BOS = 1, 0
PROMPTS_TEXT = (
    "The cat sat on the mat. ",
    "She sells sea shells, by the sea shore! ",
    "Zürich 東京 \N{SLIGHTLY SMILING FACE} ",
)


def write_generator(path: Path, seed: int = 0, **options: Any) -> Path:
    """A Llama with random weights and a byte-level BPE tokenizer that puts BOS in front."""
    path.mkdir(parents=True, exist_ok=True)
    _write_tokenizer(path / "tokenizer.json")
    torch.manual_seed(seed)
    config = tr.LlamaConfig(**{
        "vocab_size": VOCAB, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 128, "max_position_embeddings": CONTEXT,
        "bos_token_id": BOS, "eos_token_id": EOS, "tie_word_embeddings": False, **options,
    })  # fmt: skip
    model = tr.LlamaForCausalLM(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)  # default weights are all alike
    model.save_pretrained(path)
    return path


def _write_tokenizer(path: Path) -> None:
    tokenizer = tk.Tokenizer(tk.models.BPE())
    tokenizer.pre_tokenizer = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tk.decoders.ByteLevel()
    trainer = tk.trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=["<bos>", "<eos>"],
        initial_alphabet=tk.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    words = random.Random(7)
    tokenizer.train_from_iterator(
        ["".join(words.choice(PROMPTS_TEXT) for _ in range(9)) + f"{words.random()}" for _ in range(200)], trainer
    )
    assert tokenizer.get_vocab_size() == VOCAB, tokenizer.get_vocab_size()
    tokenizer.post_processor = tk.processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", BOS)]
    )
    tokenizer.save(str(path))


@dataclass(frozen=True)
class Asked:
    """A request that always has the same answer."""

    prompt: str | list[int]
    options: dict[str, Any] = field(default_factory=dict)  # as Client.generate takes them


def requests(count: int, max_tokens: int, seed: int = 0) -> list[Asked]:
    """Prompts as text and as ids, greedy and sampled, with and without stops: each the same for a seed."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        length = chance.randint(1, 40)
        text = "".join(chance.choice(PROMPTS_TEXT) for _ in range(3))[:length]
        prompt: str | list[int] = text if chance.random() < 0.5 else [chance.randrange(2, VOCAB) for _ in range(length)]
        options: dict[str, Any] = {"max_tokens": chance.randint(1, max_tokens), "seed": chance.getrandbits(64)}
        if chance.random() < 0.7:
            options["temperature"] = chance.choice([0.3, 1.0, 1.5])
            options |= chance.choice(
                [{}, {"top_k": chance.randint(1, 64)}, {"top_p": 0.9}, {"top_k": 20, "top_p": 0.5}]
            )
        if chance.random() < 0.3:
            options["stop"] = [chance.choice("aes ."), "zzz"]
            options["include_stop_text"] = chance.random() < 0.5
        if chance.random() < 0.3:
            options["stop_token_ids"] = [chance.randrange(VOCAB) for _ in range(3)]
        if chance.random() < 0.5:
            options |= chance.choice([
                {"repetition_penalty": 1.3}, {"no_repeat_ngram_size": 2}, {"min_tokens": options["max_tokens"] // 2},
                {"suppress_token_ids": chance.sample(range(2, VOCAB), 8), "repetition_penalty": 0.8},
                {"presence_penalty": 0.6, "frequency_penalty": 0.2}, {"min_p": 0.05},
                {"typical_p": 0.8},
                {"logit_bias": {chance.randrange(2, VOCAB): chance.choice([-100, 2.5]) for _ in range(9)}},
            ])  # fmt: skip
        options["ignore_eos"] = chance.random() < 0.3
        options["logprobs"] = chance.random() < 0.3
        options["top_logprobs"] = chance.choice([0, 0, 0, 1, 7, 20])
        found.append(Asked(prompt, options))
    return found


class Alone:
    """The answers that the engine gives to each request alone, one at a time and one step in flight."""

    def __init__(self, checkpoint: Path, max_output_tokens: int) -> None:
        self.engine = fastqps.Engine(str(checkpoint), dtype="float32", max_output_tokens=max_output_tokens)
        self._known: dict[str, Any] = {}

    def answer(self, asked: Asked) -> Any:
        """As Engine.generate gives it."""
        key = repr(asked)
        if key not in self._known:
            self._known[key] = self.engine.generate([asked.prompt], **asked.options)[0]
        return self._known[key]

    def check(self, asked: Asked, found: Generation | None, usage: bool = True) -> None:
        """Holds that a server's answer is the engine's."""
        expected = self.answer(asked)
        assert found is not None
        assert found.token_ids == list(expected.token_ids), (asked, found, expected)
        assert (found.text, found.finish_reason) == (expected.text, expected.finish_reason), (asked, found, expected)
        top = asked.options.get("top_logprobs")
        assert (found.logprobs is not None) == bool(asked.options.get("logprobs") or top), found
        assert (found.top_logprobs is not None) == bool(top), found
        if found.logprobs:
            np.testing.assert_allclose(found.logprobs, expected.logprobs, atol=1e-4)
        if found.top_logprobs:
            assert [[id for id, _ in each] for each in found.top_logprobs] == [
                [id for id, _ in each] for each in expected.top_logprobs
            ], (asked, found, expected)
            np.testing.assert_allclose(
                [p for each in found.top_logprobs for _, p in each],
                [p for each in expected.top_logprobs for _, p in each],
                atol=1e-4,
            )
        if usage:
            assert found.usage and found.usage.output_tokens == len(found.token_ids)


def joined(chunks: list[Chunk]) -> Generation:
    """What a stream's chunks are together; all but the last say that more will come."""
    assert all(chunk.finish_reason is None and chunk.usage is None for chunk in chunks[:-1])
    last = chunks[-1]
    assert last.finish_reason and last.usage
    ids = [token for chunk in chunks for token in chunk.token_ids]
    logprobs = [value for chunk in chunks for value in chunk.logprobs or []] or None
    top = [likeliest for chunk in chunks for likeliest in chunk.top_logprobs or []] or None
    return Generation("".join(c.text for c in chunks), ids, last.finish_reason, logprobs, last.usage, top)
