"""sentence-transformers on the same GPU in bf16, plain and compiled: the same weights and texts, in turn with ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from sentence_transformers import SentenceTransformer

from bench.gpu.lanes import EncoderLoop
from bench.gpu.models.vocabulary import texts
from bench.gpu.run import Run
from bench.gpu.servers.arms import Arms, Claim
from bench.gpu.servers.modelled import open_server
from bench.gpu.steps.encoder import MODEL, TOKENS, encoder_texts, settings_of
from fastqps.bench.results.point import Point

BATCH = 256  # of our steps
SIZES = (64, 256, 1024)  # of which the peer takes the one that it is fastest with
TEXTS = 8192
TURNS, TURN_S = 3, 4.0  # about what one takes
COMPILE_S = 35.0  # about what the compiled variant takes
COSINE_MIN = 0.999


def measure(run: Run) -> None:
    """Texts to vectors: our server against ``encode``. Token ids to vectors: our steps against its model's forward."""
    batch, count = (8, 32) if run.dry else (BATCH, TEXTS)
    path = run.checkpoint(MODEL)
    many = texts(path, count, TOKENS, seed=3)
    plain = _Peer(run, path, False)
    loop = EncoderLoop(run.device, path, items=batch, tokens=TOKENS, lanes=2, dtype=run.dtype)
    claims = [
        Claim(our + kind, their + kind, name=f"our {our} over sentence-transformers' {their}{kind}")
        for kind in ("", ", compiled")
        for our, their in (("steps", "forward"), ("server", "encode"))
    ]
    with (
        TemporaryDirectory() as folder,
        open_server(run, settings_of(run), encoder_texts(run, folder)) as served,
        Arms(run, "MiniLM", "/s", claims) as arms,
    ):

        def compare(kind: str, peer: _Peer) -> None:
            """Measures both in turn. Each of the peer's functions runs once before, to be warm."""
            theirs = {"forward": partial(peer.forward, many[:forward]), "encode": partial(peer.encode, many, encode)}
            for name, work in theirs.items():
                run.say(f"{name}{kind}: {work():,.0f}/s, not counted")
            ours = {"steps": partial(loop.rate, run.seconds / 2)}
            for _ in range(1 if run.dry else TURNS):
                for name, work in (ours | theirs).items():
                    arms.take(name + kind, partial(_point, work), TURN_S)
                arms.take(f"server{kind}", partial(served.measure, {}, 16 if run.dry else 4096), TURN_S)

        sizes = (4, batch) if run.dry else SIZES
        forward = _fastest(run, "forward", sizes, lambda size: plain.forward(many[:size]))
        encode = _fastest(run, "encode", sizes, lambda size: plain.encode(many, size))
        compare("", plain)
        agree = plain.agreement(many[:16], run)
        run.figure("sentence-transformers' vectors, least cosine to ours", agree, "")
        if agree < COSINE_MIN:
            raise AssertionError(f"the vectors of the same weights differ: cosine {agree:.5f}")
        if run.enough(COMPILE_S, "sentence-transformers, compiled"):
            compare(", compiled", _Peer(run, path, True))
    loop.close()
    run.finish()


def _point(work: Callable[[], float]) -> Point:
    return Point("", rate=work(), status={"OK": 1})


def _fastest(run: Run, what: str, sizes: tuple[int, ...], rate: Callable[[int], float]) -> int:
    """The batch size with the highest rate, each tried once to be warm."""
    rates = {size: max(rate(size), rate(size)) for size in sizes}
    run.say(f"{what} by batch size: " + ", ".join(f"{size}: {value:,.0f}/s" for size, value in rates.items()))
    run.raw(f"{what} by batch size", {str(size): value for size, value in rates.items()})
    return max(rates, key=lambda size: rates[size])


class _Peer:
    """One model of its own."""

    def __init__(self, run: Run, path: Path, compiled: bool) -> None:
        dtype = torch.float32 if run.dry else torch.bfloat16
        device = "cpu" if run.dry else run.device
        self._model = SentenceTransformer(str(path), device=device, model_kwargs={"dtype": dtype})
        self._cuda, self._seconds = not run.dry, run.seconds / 2
        if compiled:
            how: dict[str, Any] = {"backend": "eager"} if run.dry else {"mode": "reduce-overhead"}
            self._model[0].auto_model = torch.compile(self._model[0].auto_model, **how)

    def encode(self, many: list[str], batch: int) -> float:
        """Texts per second, tokenizing included."""
        began = time.perf_counter()
        self._model.encode(many, batch_size=batch, convert_to_numpy=True, show_progress_bar=False)
        return len(many) / (time.perf_counter() - began)

    @torch.inference_mode()
    def forward(self, some: list[str]) -> float:
        """Token ids on the host to vectors on the host, the next batch enqueued before the last one is waited for."""
        tokenize = getattr(self._model, "preprocess", None) or self._model.tokenize
        features = {k: v for k, v in tokenize(some).items() if isinstance(v, torch.Tensor)}
        pinned = {k: v.pin_memory() if self._cuda else v for k, v in features.items()}
        began, done = time.perf_counter(), 0
        last = None
        while not done or time.perf_counter() - began < self._seconds:
            moved = {key: value.to(self._model.device, non_blocking=True) for key, value in pinned.items()}
            embeddings = self._model(moved)["sentence_embedding"].to(torch.float32, copy=True)
            if last is not None:
                last.cpu()
            last = embeddings
            done += len(some)
        assert last is not None
        last.cpu()
        return done / (time.perf_counter() - began)

    def agreement(self, some: list[str], run: Run) -> float:
        """The least cosine between its vectors and those of our engine."""
        from fastqps import Engine

        ours = torch.from_numpy(Engine(str(run.checkpoint(MODEL)), run.device, run.dtype).embed(some))
        theirs = torch.tensor(self._model.encode(some)).float()
        return float(torch.nn.functional.cosine_similarity(ours.float(), theirs).min())
