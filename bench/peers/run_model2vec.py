"""model2vec: ``python -m bench.peers.run_model2vec MODEL TEXTS ANSWERS``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from model2vec import StaticModel

from bench.peers.program import Way, run

_BATCHES = (64, 1024)  # 1,024 is the package's default; smaller ones stay in the cache


def main() -> int:
    """Ends with its input."""
    model, texts, answers = sys.argv[1:]
    encode = partial(StaticModel.from_pretrained(model).encode, use_multiprocessing=False)
    ways = [Way(f"batches of {size}", partial(encode, batch_size=size)) for size in _BATCHES]
    return run(ways, Path(texts), Path(answers))


if __name__ == "__main__":
    sys.exit(main())
