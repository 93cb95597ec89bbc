"""Named entities and reranking over gRPC and HTTP, against transformers' pipeline and sentence-transformers.

The models are MiniLM with a random head: its six layers cost what a real model's do. The peers compute in fp32, as they
do unless told otherwise; the server in fp32, so that the answers can be compared, and in the type that it chooses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import torch
import transformers as tr
from sentence_transformers import CrossEncoder

from bench.load import PATIENCE_S, Load, read_samples
from bench.runner import Bench, Claim, Run, Subject
from bench.texts import request, texts
from fastqps.bench.results.result import BenchError
from fastqps.models.names import resolve

THREADS = 2
TEXTS, BATCH = 512, 64
DOCUMENTS = 100
LABELS = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC"]  # of CoNLL-2003
CLOSE = 1e-4  # of scores
FLAGS = ("--device", "cpu", "--frontdoors", "1", "--dispatchers", "2", "--http-port", "0")
FP32 = ("--dtype", "float32")
NOTE = f"MiniLM's layers, {THREADS} cores, fp32"


def measure(bench: Bench) -> None:
    """Each task with its peer."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    _entities(bench)
    _rerank(bench)


def _claims(name: str, peer: str, accept: float) -> Iterator[Claim]:
    for kind, how in (("", "fp32"), (", auto", "--dtype auto")):
        yield Claim(f"{name} over gRPC or HTTP, {how}", "/s", name + kind)
        yield Claim(f"{name}, {how}, over {peer}", "×", name + kind, peer, None if kind else accept)


def _write(folder: Path, model: type[Any], **options: Any) -> Path:
    """MiniLM with a head."""
    _, base = resolve("minilm")
    model.from_pretrained(base, **options).save_pretrained(folder)
    tokenizer = tr.AutoTokenizer.from_pretrained(base)
    tokenizer.model_max_length = 256
    tokenizer.save_pretrained(folder)
    return folder


def _entities(bench: Bench) -> None:
    many = texts(TEXTS, seed=2)
    path = _write(bench.folder / "tagger", tr.AutoModelForTokenClassification, id2label=dict(enumerate(LABELS)))
    pipeline = tr.pipeline("token-classification", str(path), device="cpu", aggregation_strategy="simple")
    exact = pipeline(many, batch_size=BATCH)
    messages, kept = bench.write(map(request, many)), bench.folder / "entities"
    server, chosen = (bench.server("--model", f"tagger={path}", *flags, *FLAGS, cpus=()) for flags in (FP32, ()))
    load = Load(8, 32, deadline_s=PATIENCE_S)
    checked = bench.grpc(server.address, messages, load, cpu=None, samples=kept)

    def predict() -> Run:
        figures = checked()
        _check_entities(kept, exact)
        return figures

    peer = Claim("transformers' pipeline, in-process", "/s", "pipeline", note=f"{NOTE}, batch {BATCH}")
    subjects = [
        Subject("entities", predict),
        Subject("entities, auto", bench.grpc(chosen.address, messages, load, cpu=None)),
        Subject("pipeline", bench.calls(lambda: len(pipeline(many, batch_size=BATCH)))),
    ]
    bench.measure(subjects, [peer, *_claims("entities", "pipeline", 2.0)])


def _check_entities(kept: Path, exact: list[list[dict[str, Any]]]) -> None:
    answers = list(read_samples(kept))
    if not answers:
        raise BenchError("no answer was kept")
    for payload, answer in answers:
        entities = [(e.label, e.start, e.end) for e in answer.entities.entities]
        if entities != [(e["entity_group"], e["start"], e["end"]) for e in exact[payload]]:
            raise BenchError(f"text {payload}: other entities than those of transformers' pipeline")


def _rerank(bench: Bench) -> None:
    query, *documents = texts(DOCUMENTS + 1, seed=3)
    path = _write(bench.folder / "ranker", tr.AutoModelForSequenceClassification, num_labels=1)
    ranker = CrossEncoder(str(path), device="cpu")
    exact = ranker.predict([(query, document) for document in documents], batch_size=BATCH)
    body = json.dumps({"model": "ranker", "query": query, "documents": documents}).encode()
    server, chosen = (bench.server("--model", f"ranker={path}", *flags, *FLAGS, cpus=()) for flags in (FP32, ()))

    def rerank(http: str, checked: bool) -> int:
        results = json.load(urlopen(Request(f"http://{http}/v1/rerank", body)))["results"]
        scores = np.empty(DOCUMENTS)
        scores[[one["index"] for one in results]] = [one["relevance_score"] for one in results]
        if checked and np.abs(scores - exact).max() > CLOSE:
            raise BenchError("other scores than those of sentence-transformers' CrossEncoder")
        return len(results)

    peer = Claim("CrossEncoder.rank, in-process", "/s", "CrossEncoder", note=f"{NOTE}, {DOCUMENTS} documents")
    subjects = [
        Subject("rerank", bench.calls(lambda: rerank(server.http, True))),
        Subject("rerank, auto", bench.calls(lambda: rerank(chosen.http, False))),
        Subject("CrossEncoder", bench.calls(lambda: len(ranker.rank(query, documents, batch_size=BATCH)))),
    ]
    bench.measure(subjects, [peer, *_claims("rerank", "CrossEncoder", 1.3)])
