"""Named entities and reranking over gRPC and HTTP, against transformers' pipeline and sentence-transformers.

The models are MiniLM with a random head: its six layers cost what a real model's do. The peers compute in fp32, as they
do unless told otherwise; the server in fp32, so that the answers can be compared, and in the type that it chooses.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import torch
import transformers as tr
from sentence_transformers import CrossEncoder

from bench.load import PATIENCE_S, PREDICT, Load, loadgen, read_samples
from bench.protocols.ratio import ratio
from bench.row import Row
from bench.texts import request, texts
from fastqps.bench.measure.workload import write_messages
from fastqps.bench.results.result import BenchError
from fastqps.models.names import resolve
from fastqps.process.server_process import ServerProcess

THREADS = 2
TEXTS, BATCH = 512, 64
DOCUMENTS = 100
LABELS = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC"]  # of CoNLL-2003
CLOSE = 1e-4  # of scores
FLAGS = ("--device", "cpu", "--frontdoors", "1", "--dispatchers", "2", "--http-port", "0")


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """Each server and its peer in turn. Raises ``BenchError`` if an answer is wrong."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    rates = _entities(folder, repetitions, seconds) | _rerank(folder, repetitions, seconds)
    points = [{"name": name, "rates": found} for name, found in rates.items()]
    return _rows(rates), points


def _write(folder: Path, model: type[Any], **options: Any) -> Path:
    """MiniLM with a head."""
    _, base = resolve("minilm")
    model.from_pretrained(base, **options).save_pretrained(folder)
    tokenizer = tr.AutoTokenizer.from_pretrained(base)
    tokenizer.model_max_length = 256
    tokenizer.save_pretrained(folder)
    return folder


def _entities(folder: Path, repetitions: int, seconds: float) -> dict[str, list[float]]:
    many = texts(TEXTS, seed=2)
    path = _write(folder / "tagger", tr.AutoModelForTokenClassification, id2label=dict(enumerate(LABELS)))
    pipeline = tr.pipeline("token-classification", str(path), device="cpu", aggregation_strategy="simple")
    exact = pipeline(many, batch_size=BATCH)
    messages = write_messages(folder / "texts", map(request, many))
    with (
        ServerProcess("--model", f"tagger={path}", "--dtype", "float32", *FLAGS) as server,
        ServerProcess("--model", f"tagger={path}", *FLAGS) as chosen,
    ):

        def predict(address: str, checked: bool) -> float:
            kept = folder / "entities"
            load = Load(8, 32, seconds, deadline_s=PATIENCE_S)
            rate = loadgen(address, PREDICT, messages, load, samples=kept)["rate"]
            if checked:
                _check_entities(kept, exact)
            return float(rate)

        return _in_turn(
            repetitions,
            seconds,
            {
                "entities": lambda: predict(server.address, True),
                "entities, auto": lambda: predict(chosen.address, False),
            },
            {"pipeline": lambda: pipeline(many, batch_size=BATCH)},
        )


def _check_entities(kept: Path, exact: list[list[dict[str, Any]]]) -> None:
    answers = list(read_samples(kept))
    if not answers:
        raise BenchError("no answer was kept")
    for payload, answer in answers:
        found = [(e.label, e.start, e.end) for e in answer.entities.entities]
        if found != [(e["entity_group"], e["start"], e["end"]) for e in exact[payload]]:
            raise BenchError(f"text {payload}: other entities than those of transformers' pipeline")


def _rerank(folder: Path, repetitions: int, seconds: float) -> dict[str, list[float]]:
    query, *documents = texts(DOCUMENTS + 1, seed=3)
    path = _write(folder / "ranker", tr.AutoModelForSequenceClassification, num_labels=1)
    peer = CrossEncoder(str(path), device="cpu")
    exact = peer.predict([(query, document) for document in documents], batch_size=BATCH)
    body = json.dumps({"model": "ranker", "query": query, "documents": documents}).encode()
    with (
        ServerProcess("--model", f"ranker={path}", "--dtype", "float32", *FLAGS) as server,
        ServerProcess("--model", f"ranker={path}", *FLAGS) as chosen,
    ):

        def rerank(http: str, checked: bool) -> float:
            began, calls = time.perf_counter(), 0
            while not calls or time.perf_counter() - began < seconds:
                found = json.load(urlopen(Request(f"http://{http}/v1/rerank", body)))["results"]
                calls += 1
            scores = np.empty(DOCUMENTS)
            scores[[one["index"] for one in found]] = [one["relevance_score"] for one in found]
            if checked and np.abs(scores - exact).max() > CLOSE:
                raise BenchError("other scores than those of sentence-transformers' CrossEncoder")
            return DOCUMENTS * calls / (time.perf_counter() - began)

        return _in_turn(
            repetitions,
            seconds,
            {
                "rerank": lambda: rerank(server.http, True),
                "rerank, auto": lambda: rerank(chosen.http, False),
            },
            {"CrossEncoder": lambda: peer.rank(query, documents, batch_size=BATCH)},
        )


def _in_turn(
    repetitions: int, seconds: float, ours: dict[str, Callable[[], float]], peers: dict[str, Callable[[], Any]]
) -> dict[str, list[float]]:
    """Texts per second by round. A peer's call answers as many texts as ``TEXTS`` or ``DOCUMENTS``."""
    runs = ours | {name: lambda call=call: _rate(call, seconds) for name, call in peers.items()}
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(repetitions):
        names = list(runs)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            rates[name].append(runs[name]())
    return rates


def _rate(call: Callable[[], Any], seconds: float) -> float:
    """Answers per second of calls that give a list of them."""
    began, done = time.perf_counter(), 0
    while not done or time.perf_counter() - began < seconds:
        done += len(call())
    return done / (time.perf_counter() - began)


def _rows(rates: dict[str, list[float]]) -> list[Row]:
    note = f"MiniLM's layers, {THREADS} cores"
    median = {name: float(np.median(found)) for name, found in rates.items()}
    rows = [
        Row("transformers' pipeline, in-process", median["pipeline"], "/s", note=f"{note}, fp32, batch {BATCH}"),
        Row("CrossEncoder.rank, in-process", median["CrossEncoder"], "/s", note=f"{note}, fp32, {DOCUMENTS} documents"),
    ]
    for name, peer, mark in (("entities", "pipeline", 2.0), ("rerank", "CrossEncoder", 1.3)):
        for kind, how in (("", "fp32"), (", auto", "--dtype auto")):
            found = ratio(rates[name + kind], rates[peer])
            rows.append(Row(f"{name} over gRPC or HTTP, {how}", median[name + kind], "/s"))
            accept = None if kind else mark
            rows.append(Row(f"{name}, {how}, over {peer}", found.value, "×", accept, interval=found.interval))
    return rows
