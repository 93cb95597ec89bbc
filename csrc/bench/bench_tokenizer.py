"""The native tokenizer and the `tokenizers` package on the same 30-word texts, nanoseconds per text.

    python csrc/bench/bench_tokenizer.py TOKENIZER_JSON [BINARY]

Words are drawn as in real text: the n-th most frequent with a probability of about 1/n, some of them with capitals.
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

N_TEXTS = 20000
N_WORDS = 30


def sentences(words: list[str], accents: bool) -> list[str]:
    pick = random.Random(1)
    weights = [1 / (n + 10) for n in range(len(words))]
    drawn = iter(pick.choices(words, weights, k=N_TEXTS * N_WORDS))
    texts = []
    for _ in range(N_TEXTS):
        line = [next(drawn) for _ in range(N_WORDS)]
        for at in pick.sample(range(N_WORDS), 6):
            line[at] = line[at].capitalize()
        if accents:
            for at in pick.sample(range(N_WORDS), 5):
                line[at] = line[at].replace("e", "é").replace("a", "ä")
        texts.append(" ".join(line) + ".")
    return texts


def package_ns(package: Any, texts: list[str]) -> float:
    rounds = []
    for _ in range(5):
        start = time.thread_time_ns()
        for text in texts:
            package.encode(text)
        rounds.append((time.thread_time_ns() - start) / len(texts))
    return statistics.median(rounds)


def main() -> None:
    import tokenizers

    path = sys.argv[1]
    binary = sys.argv[2] if len(sys.argv) > 2 else "build/native/bench/bench_tokenizer"
    package = tokenizers.Tokenizer.from_file(path)
    package.no_padding()
    package.no_truncation()
    by_id = (w.lstrip("Ġ▁") for w, _ in sorted(package.get_vocab().items(), key=lambda item: item[1]))
    words = list(dict.fromkeys(w for w in by_id if w.isascii() and w.isalpha()))
    for name, accents in (("ascii", False), ("a sixth accented", True)):
        texts = sentences(words[26:], accents)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "texts")
            file.write_text("\n".join(texts) + "\n")
            native = json.loads(subprocess.check_output([binary, path, file]))
        sample = texts[:2000]
        package_time = package_ns(package, sample)
        one, distinct = native["one_ns"], native["distinct_ns"]
        print(
            f"{name}: {sum(map(len, texts)) / len(texts):.0f} characters, {native['ids'] / len(texts):.1f} ids a text"
        )
        print(f"  native, one text again and again {one:8} ns")
        print(f"  native, {len(texts)} distinct texts   {distinct:8} ns ({one / distinct:.0%} of that throughput)")
        print(f"  native, nothing cached           {native['cold_ns']:8} ns")
        print(f"  tokenizers package               {package_time:8.0f} ns ({package_time / distinct:.0f} times)")


if __name__ == "__main__":
    main()
