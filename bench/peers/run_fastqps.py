"""fastqps in process: ``python -m bench.peers.run_fastqps DTYPE QUANTIZATION TEXTS ANSWERS``."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.peers.program import Way, run
from fastqps import Engine


def main() -> int:
    """Ends with its input."""
    dtype, quantization, texts, answers = sys.argv[1:]
    engine = Engine("minilm", dtype=dtype, quantization=quantization)
    return run([Way("Engine", lambda many: engine.embed(many, truncate=True))], Path(texts), Path(answers))


if __name__ == "__main__":
    sys.exit(main())
