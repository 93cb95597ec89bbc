"""Versions of a model that cost nothing, and dispatchers that do with them as a file in their directory says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import echo_dispatcher
from zero_weights import write_zeros

from fastqps._core import Segment
from fastqps.errors import ModelError
from fastqps.models.card import ModelCard
from fastqps.models.names import resolve
from fastqps.process.children import LEAVE, DispatcherSettings

BEHAVIOUR = "behaviour"  # of its dispatchers as they start: "sleep SECONDS", "refuse", "crash" or "deaf"


def write_version(path: Path, weights: str, behaviour: str = "", **config: object) -> str:
    """A checkpoint whose weights nobody reads, and MiniLM's tokenizer; the directory."""
    path.mkdir(exist_ok=True)
    sizes = {"vocab_size": 40_000, "hidden_size": 32, "num_attention_heads": 4, "max_position_embeddings": 128}
    sizes |= {"intermediate_size": 64, "num_hidden_layers": 1}
    whole = {"model_type": "bert", "architectures": ["BertModel"], **sizes, **config}
    (path / "config.json").write_text(json.dumps(whole))
    write_zeros(path, weights)
    (path / BEHAVIOUR).write_text(behaviour)
    shutil.copy(resolve("minilm")[1] / "tokenizer.json", path)
    return str(path)


def main(settings: DispatcherSettings) -> int:
    """A dispatcher: echo_dispatcher's, after what the model's directory says."""
    card = ModelCard.from_json(Segment(settings.segment_fd).card(settings.route))
    behaviour = Path(card.path) / BEHAVIOUR
    verb, _, seconds = (behaviour.read_text() if behaviour.exists() else "").partition(" ")
    if verb == "sleep":
        time.sleep(float(seconds))
    if verb == "deaf":  # each second one, to whoever asks it to leave; the others refuse meanwhile
        signal.pthread_sigmask(signal.SIG_BLOCK, {LEAVE})
        time.sleep(60 if settings.index % 2 == 0 else 1)
    if verb in ("refuse", "deaf"):
        raise ModelError("the weights are torn")
    if verb == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    return echo_dispatcher.main(settings)
