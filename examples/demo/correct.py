"""The demo's generating half: the grammar model corrects one sentence before your eyes, then a page of them."""

from __future__ import annotations

import time
from collections import Counter
from itertools import islice

from examples.grammar.mistakes import KINDS, Pair, pairs
from fastqps import Client, PredictionError

# Found in no training sentence: they hold each kind of mistake.
SENTENCES = (
    "Yesterday, the old farmer sell two horse.",
    "My sister don't like an cold coffee.",
    "They is going to visit a elegant museum tomorow.",
)
SEED, PAGE = 41, 1000
SHOWN = 6
EXACT_MIN = 0.95


def show_stream(address: str) -> None:
    """Corrections as they are made."""
    print("   Streamed by Generate as they are made; a dot parts what arrived apart:\n")
    with Client(address, model="grammar") as client:
        for sentence in SENTENCES:
            print(f"   given  {sentence}\n   made   ", end="", flush=True)
            began, first_s, tokens = time.perf_counter(), 0.0, 0
            for chunk in client.generate_stream(sentence):
                print("·" if tokens and chunk.text else "", chunk.text, sep="", end="", flush=True)
                first_s = first_s or time.perf_counter() - began
                tokens += len(chunk.token_ids)
            took_s = time.perf_counter() - began
            print(f"\n          {tokens} tokens in {1e3 * took_s:.0f} ms, the first after {1e3 * first_s:.0f} ms\n")


def show_page(address: str) -> bool:
    """A page of held-out sentences, and how many become exactly right. True if too few did."""
    held = list(islice(pairs(SEED, held=True), PAGE))
    answers = [""] * len(held)
    failures: Counter[str] = Counter()
    tokens = 0
    began = time.perf_counter()
    with Client(address, model="grammar") as client:
        for found in client.predict_stream(pair.wrong for pair in held):
            if isinstance(found, PredictionError):
                failures[f"{type(found.error).__name__}: {found.error}"] += 1
            elif found.generation:
                answers[found.request_id] = found.generation.text
                tokens += len(found.generation.token_ids)
    took_s = time.perf_counter() - began
    exact = [answer == pair.right for pair, answer in zip(held, answers, strict=True)]
    print(f"   Then {PAGE:,} sentences that it has never seen, through PredictStream. The first that held mistakes:\n")
    for pair, answer in [(p, a) for p, a in zip(held, answers, strict=True) if p.kind != "none"][:SHOWN]:
        print(
            f"   given  {pair.wrong}\n   made   {answer}{'' if answer == pair.right else f'   WRONG: {pair.right}'}\n"
        )
    print(f"   {sum(exact):,} of {PAGE:,} exactly right; ", end="")
    print(f"{PAGE / took_s:,.0f} sentences or {tokens / took_s:,.0f} tokens per second")
    print("   " + ", ".join(_shares(held, exact)))
    for failure, count in failures.items():
        print(f"   FAILED {count} times: {failure}")
    print()
    return bool(failures) or sum(exact) < EXACT_MIN * PAGE


def _shares(held: list[Pair], exact: list[bool]) -> list[str]:
    """The share of exact answers for each kind of mistake."""
    asked = Counter(pair.kind for pair in held)
    right = Counter(pair.kind for pair, good in zip(held, exact, strict=True) if good)
    return [f"{'no mistake' if kind == 'none' else kind} {right[kind] / max(1, asked[kind]):.0%}" for kind in KINDS]
