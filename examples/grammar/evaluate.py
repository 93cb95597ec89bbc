"""How many held-out sentences the grammar model corrects exactly, by kind of mistake.

``python -m examples.grammar.evaluate [FOLDER]``: in this process and without a server, greedily, in the number format
that a server on this machine would choose (``--dtype`` for another).
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from examples.grammar.mistakes import KINDS, Pair, pairs
from examples.grammar.train import OUTPUT
from fastqps.engine.generator import Generator
from fastqps.models import load_card

SEED = 2026
SENTENCES = 2000


def main() -> None:
    """Prints the share of exact answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=OUTPUT)
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--failures", type=int, default=10, help="how many wrong answers to print")
    options = parser.parse_args()
    held = list(islice(pairs(SEED, held=True), options.sentences))
    began = time.perf_counter()
    answers = correct(options.folder, [pair.wrong for pair in held], options.dtype)
    took_s = time.perf_counter() - began
    for pair, answer in [(p, a) for p, a in zip(held, answers, strict=True) if a != p.right][: options.failures]:
        print(f"given  {pair.wrong}\nright  {pair.right}\nfound  {answer}\n")
    print(table(held, answers))
    print(f"{took_s:.0f} s")


def correct(folder: Path, texts: Sequence[str], dtype: str = "auto") -> list[str]:
    """The model's answers to some texts."""
    generator = Generator(load_card(str(folder)), dtype=dtype)
    try:
        return [answer.text for answer in generator.generate(texts)]
    finally:
        generator.close()


def table(held: Sequence[Pair], answers: Sequence[str]) -> str:
    """The share of exact answers by kind of mistake, and of all."""
    asked = Counter(pair.kind for pair in held)
    exact = Counter(pair.kind for pair, answer in zip(held, answers, strict=True) if answer == pair.right)
    rows = [(kind, asked[kind], exact[kind]) for kind in KINDS] + [("all", len(held), exact.total())]
    lines = [f"{kind:<10} {right:>5} of {count:>5} exact  {right / max(1, count):7.2%}" for kind, count, right in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
