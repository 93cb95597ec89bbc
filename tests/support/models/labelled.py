"""A classifier of three labels with the tokenizer of `minilm`."""

from __future__ import annotations

import shutil
from pathlib import Path

from checkpoints import write_checkpoint

from fastqps.models.names import resolve


def write_labelled(folder: Path) -> None:
    write_checkpoint(folder, "bert", "classify", num_labels=3, vocab_size=30_522)
    shutil.copy(resolve("minilm")[1] / "tokenizer.json", folder)
