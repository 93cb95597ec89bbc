"""A static model over gRPC, the server on one core: against model2vec in process on that core, and the null device.

The table is of potion-base-8M's shape, 30,522 WordPieces of 256 dimensions; the texts are those of the other parts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from model2vec import StaticModel
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from bench.load import PREDICT, PREDICT_BATCH, Load, loadgen, read_samples
from bench.peers.process import peer_process
from bench.runner import LOAD_CPU, SERVER_CPU, Bench, Claim, Subject
from bench.texts import batches, request, texts
from fastqps.bench.results.result import BenchError
from fastqps.models.names import resolve

TEXTS, PEER_TEXTS, BATCH = 20_000, 4096, 64
UNARY, BATCHES = Load(16, 64), Load(8, 4)
CLOSE = 1e-5
WIDTH = 256
PEER, NULL = "model2vec encode", "null device, Predict"
CLAIMS = (
    Claim("static model over gRPC, Predict", "/s", "Predict", note="one core"),
    Claim(f"… PredictBatch of {BATCH}", "/s", "PredictBatch"),
    Claim("model2vec encode, in process", "/s", PEER, note="same core"),
    Claim("static Predict over model2vec encode", "×", "Predict", PEER, 5, 8),
    Claim("… by CPU time", "×", PEER, "Predict", figure="cpu_us"),
    Claim("static Predict over the null device", "×", "Predict", NULL, 0.65),
    Claim("… by CPU time", "×", NULL, "Predict", figure="cpu_us"),
    Claim("static PredictBatch over Predict", "×", "PredictBatch", "Predict", 2.5),
    Claim("… by CPU time", "×", "Predict", "PredictBatch", figure="cpu_us"),
)


def measure(bench: Bench) -> None:
    """All points in turn. ``BenchError`` if an answer differs from model2vec's."""
    model, many = _write_model(bench.folder / "model"), texts(TEXTS)
    known = bench.folder / "texts"
    known.write_text(json.dumps(many[:PEER_TEXTS]))
    unary, batch = bench.write(map(request, many)), bench.write(batches(many, BATCH))
    flags = ("--model", f"static={model}", "--frontdoors", "1", "--dispatchers", "1", "--device")
    served, null = bench.server(*flags, "cpu"), bench.server(*flags, "null")
    peer = bench.start(peer_process("encoders", "model2vec", str(model), str(known), cpus=[SERVER_CPU]))
    _check(served.address, bench.write(map(request, many[:PEER_TEXTS])), bench.folder / "kept", peer.answers)
    subjects = [
        Subject(PEER, lambda: peer.run(bench.seconds)),
        Subject("Predict", bench.grpc(served.address, unary, UNARY), served.pid),
        Subject(NULL, bench.grpc(null.address, unary, UNARY), null.pid),
        Subject("PredictBatch", bench.grpc(served.address, batch, BATCHES, PREDICT_BATCH, items=BATCH), served.pid),
    ]
    bench.measure(subjects, CLAIMS)


def _check(address: str, unary: Path, kept: Path, wanted: np.ndarray[Any, np.dtype[np.float32]]) -> None:
    loadgen(address, PREDICT, unary, Load(4, 16, 1.0), LOAD_CPU, samples=kept)
    answers = list(read_samples(kept))
    worst = max(float(np.abs(np.array(a.embedding.values) - wanted[payload]).max()) for payload, a in answers)
    if worst > CLOSE:
        raise BenchError(f"an answer differs from model2vec's by {worst:.1e}, more than {CLOSE}")


def _write_model(folder: Path) -> Path:
    """Saves MiniLM's own token vectors, reduced by PCA as model2vec does it, and its tokenizer. Returns ``folder``."""
    _, path = resolve("minilm")
    table = load_file(path / "model.safetensors")["embeddings.word_embeddings.weight"].astype(np.float32)
    centred = table - table.mean(0)
    _, axes = np.linalg.eigh(centred.T @ centred)  # ascending
    reduced = np.ascontiguousarray(centred @ axes[:, ::-1][:, :WIDTH])
    config = {"model_type": "model2vec", "architectures": ["StaticModel"]}
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    StaticModel(reduced, tokenizer, config, normalize=True).save_pretrained(folder)
    return folder
