"""Trains the grammar model from nothing and saves it as a Hugging Face checkpoint: ``make grammar``."""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from examples.grammar.mistakes import Pair, pairs
from examples.grammar.model import Decoder, Sizes
from examples.grammar.tokens import BOS, EOS, EOS_ID, SEPARATOR, make_tokenizer

SEED = 3
BATCH = 64  # pairs
POOL = 64  # batches whose pairs are sorted by length together
RATE = 2e-3  # the highest learning rate
SHARE_LAST = 0.015  # of it, at the end
WARM_UP_SHARE = 0.03
DECAY = 0.05
REPORT = 200  # steps
TESTED = 400  # held-out pairs, at every report
OUTPUT = Path("fastqps/data/grammar")


def main() -> None:
    """Trains for a number of steps and writes the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    tokenizer = make_tokenizer(SEED)
    torch.manual_seed(SEED)
    model = Decoder(Sizes())
    train(model, tokenizer, options.steps)
    save(model, tokenizer, options.output)


def train(model: Decoder, tokenizer: Tokenizer, steps: int) -> None:
    """That many steps of AdamW; the loss counts the answers alone."""
    torch.set_num_threads(1)  # matrices this small gain little from a second one, and lose much where cores are busy
    matrices = [weight for weight in model.parameters() if weight.ndim == 2]
    norms = [weight for weight in model.parameters() if weight.ndim == 1]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": norms, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95))
    test = _pad(_encoded(tokenizer, list(islice(pairs(SEED, held=True), TESTED))))
    began, total = time.perf_counter(), 0.0
    for step, (ids, targets) in enumerate(islice(batches(tokenizer), steps), 1):
        for group in optimizer.param_groups:
            group["lr"] = RATE * _share(step / steps)
        with torch.autocast("cpu", torch.bfloat16):
            rows = model(ids)[targets >= 0]
            loss = F.cross_entropy(model.logits(rows).float(), targets[targets >= 0])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
        if step % REPORT == 0:
            share, took_s = exact(model, test), time.perf_counter() - began
            print(f"step {step}: loss {total / REPORT:.4f}, {share:.1%} of held-out exact, {took_s:.0f} s", flush=True)
            total = 0.0


@torch.no_grad()
def exact(model: Decoder, batch: tuple[Tensor, Tensor]) -> float:
    """The share of the answers that greedy decoding gives exactly: those of which every next token is the likeliest."""
    ids, targets = batch
    likeliest = model.logits(model(ids)).argmax(-1)
    return float(((likeliest == targets) | (targets < 0)).all(1).float().mean())


def _share(done: float) -> float:
    """The share of the highest learning rate after that share of the steps: a warm-up, then half a cosine."""
    if done < WARM_UP_SHARE:
        return done / WARM_UP_SHARE
    cosine = (1 + math.cos(math.pi * (done - WARM_UP_SHARE) / (1 - WARM_UP_SHARE))) / 2
    return SHARE_LAST + (1 - SHARE_LAST) * cosine


def batches(tokenizer: Tokenizer) -> Iterator[tuple[Tensor, Tensor]]:
    """(ids, targets) [BATCH, length], endless; pairs of like length together, in random order."""
    rng, stream = random.Random(SEED), pairs(SEED, held=False)
    while True:
        pool = sorted(_encoded(tokenizer, list(islice(stream, BATCH * POOL))), key=lambda item: len(item[0] + item[1]))
        starts = list(range(0, len(pool), BATCH))
        rng.shuffle(starts)
        for start in starts:
            yield _pad(pool[start : start + BATCH])


def _encoded(tokenizer: Tokenizer, found: list[Pair]) -> list[tuple[list[int], list[int]]]:
    """(prompt, answer) of each pair."""
    prompts = tokenizer.encode_batch([pair.wrong for pair in found])
    answers = tokenizer.encode_batch([pair.right for pair in found], add_special_tokens=False)
    return [(prompt.ids, answer.ids) for prompt, answer in zip(prompts, answers, strict=True)]


def _pad(batch: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
    """Padding is at the end, where a causal model does not see it; a target of -1 is not counted."""
    length = max(len(prompt) + len(answer) for prompt, answer in batch)
    ids = torch.full((len(batch), length), EOS_ID)
    targets = torch.full((len(batch), length), -1)
    for row, (prompt, answer) in enumerate(batch):
        end = len(prompt) + len(answer)
        ids[row, :end] = torch.tensor(prompt + answer)
        targets[row, len(prompt) - 1 : end] = torch.tensor([*answer, EOS_ID])
    return ids, targets


def save(model: Decoder, tokenizer: Tokenizer, folder: Path) -> None:
    """Writes the checkpoint's files."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(model.checkpoint(), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # safetensors makes it unreadable to others
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = Sizes().config()
    settings = {
        "config.json": config,
        "generation_config.json": {key: config[key] for key in ("bos_token_id", "eos_token_id")},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": config["max_position_embeddings"],
            "clean_up_tokenization_spaces": False,
            "bos_token": BOS,
            "eos_token": EOS,
            "sep_token": SEPARATOR,
            "pad_token": EOS,
        },
    }
    for name, content in settings.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
