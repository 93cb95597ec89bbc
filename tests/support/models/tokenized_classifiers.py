"""Random classifiers with the tokenizer of MiniLM, which servers can load."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from checkpoints import write_checkpoint

from fastqps.models.names import resolve

IDENTITY = {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}


def classifier_at(folder: Path, labels: int, **config: Any) -> str:
    """Writes a checkpoint. ``config``: further keys of its config.json."""
    write_checkpoint(folder, "bert", "classify", num_labels=labels, vocab_size=30_522)
    shutil.copy(resolve("minilm")[1] / "tokenizer.json", folder)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    return str(folder)
