"""How many held-out sentences a grammar checkpoint corrects exactly, by kind of mistake.

``python -m examples.grammar.evaluate [FOLDER]``: through ``transformers``, greedily, with the weights as they are
saved (bfloat16) and float32 arithmetic.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from examples.grammar.mistakes import KINDS, Pair, pairs
from examples.grammar.tokens import EOS_ID
from examples.grammar.train import OUTPUT

SEED = 2026
SENTENCES = 2000
_BATCH = 100
_TOKENS_MAX = 64  # of an answer


def main() -> None:
    """Prints the share of exact answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=OUTPUT)
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument("--failures", type=int, default=10, help="how many wrong answers to print")
    options = parser.parse_args()
    held = list(islice(pairs(SEED, held=True), options.sentences))
    answers = correct(options.folder, [pair.wrong for pair in held])
    for pair, answer in [(p, a) for p, a in zip(held, answers, strict=True) if a != p.right][: options.failures]:
        print(f"given  {pair.wrong}\nright  {pair.right}\nfound  {answer}\n")
    print(table(held, answers))


def correct(folder: Path, texts: Sequence[str]) -> list[str]:
    """The answers of ``transformers`` to some texts."""
    from transformers import AutoModelForCausalLM

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    answers = [""] * len(texts)
    prompts = [found.ids for found in tokenizer.encode_batch(list(texts))]
    order = sorted(range(len(texts)), key=lambda i: len(prompts[i]))
    for start in range(0, len(order), _BATCH):
        batch = order[start : start + _BATCH]
        length = max(len(prompts[i]) for i in batch)
        ids = torch.tensor([[EOS_ID] * (length - len(prompts[i])) + prompts[i] for i in batch])
        mask = torch.tensor([[0] * (length - len(prompts[i])) + [1] * len(prompts[i]) for i in batch])
        made = model.generate(
            ids, attention_mask=mask, max_new_tokens=_TOKENS_MAX, do_sample=False, pad_token_id=EOS_ID
        )[:, length:]
        for i, answer in zip(batch, made.tolist(), strict=True):
            answers[i] = tokenizer.decode(answer, skip_special_tokens=True)
    return answers


def table(held: Sequence[Pair], answers: Sequence[str]) -> str:
    """The share of exact answers by kind of mistake, and of all."""
    asked = Counter(pair.kind for pair in held)
    exact = Counter(pair.kind for pair, answer in zip(held, answers, strict=True) if answer == pair.right)
    rows = [(kind, asked[kind], exact[kind]) for kind in KINDS] + [("all", len(held), exact.total())]
    lines = [f"{kind:<10} {right:>5} of {count:>5} exact  {right / max(1, count):7.2%}" for kind, count, right in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
