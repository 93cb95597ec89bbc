"""transformers' continuous batching on the same GPU: the same weights, prompts and number in flight, in turn with ours.

Its attention must be of variable length and give the tokens that torch's attention under a mask gives. Otherwise there
is no row: a ratio over a mask of all by all says nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from transformers import AutoTokenizer

from bench.gpu.models.payloads import decoder_payloads
from bench.gpu.peers.batching import PLAIN, VARIANTS, Answers, Batching, Ids, Session
from bench.gpu.run import Run
from bench.gpu.servers.modelled import open_server
from bench.gpu.servers.served import Served, answered, bound_by
from bench.gpu.steps.decoder import prompts, settings_of, tokens_out
from fastqps import Client
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import BenchError

MODELS = ("smollm2-135m", "qwen2.5-0.5b")
IN_FLIGHT = 1024
TURNS = 2
CHECKED = 16  # prompts that are answered twice before anything is measured
MEASURE_S = 3.0
VARIANT_S, MODEL_S = 30.0, 60.0  # about what another one takes
Tell = Callable[[str, float, str], None]  # the model's ratio so far, and what to say of it


def measure(run: Run) -> None:
    """Of each model the fastest variant so far; the target is the smaller of the models' ratios."""
    ratios: dict[str, tuple[float, str]] = {}

    def tell(model: str, ratio: float, note: str) -> None:
        ratios[model] = ratio, note
        run.target("peer", *min(ratios.values()))

    for model in MODELS[:1] if run.dry else MODELS:
        if model == MODELS[0] or run.enough(MODEL_S, model):
            run.attempt(model, partial(_model, run, model, tell))
    run.finish()


def _model(run: Run, model: str, tell: Tell) -> None:
    running = 8 if run.dry else IN_FLIGHT
    path, asked = run.checkpoint(model), prompts(run, model)
    ids: Ids = AutoTokenizer.from_pretrained(path)(asked)["input_ids"]
    device, dtype = torch.device("cpu" if run.dry else "cuda:0"), torch.float32 if run.dry else torch.bfloat16
    peer = Batching(path, device, dtype, running, tokens_out(run))
    try:
        expected = _expected(peer, ids[:CHECKED])
    except ImportError as why:
        run.leave_out(f"{model}: transformers has no attention of variable length here: {why}")
        return
    with TemporaryDirectory() as folder:
        payloads = decoder_payloads(Path(folder) / "prompts", asked, tokens_out(run))
        with open_server(run, settings_of(run, model, running), payloads, slow=True) as served:
            best = 0.0
            for name in list(VARIANTS)[: 1 if run.dry else None]:  # dry, both are alike
                if best and not run.enough(VARIANT_S, f"{model}, {name}"):
                    continue
                try:
                    with peer.open(VARIANTS[name]) as session:
                        run.raw(f"{model}, {name}: configuration", session.config)
                        _check(run, peer, session, ids[:CHECKED], expected, served.address, f"{model}, {name}")
                        best = max(best, _turns(run, served, session, ids, running, f"{model}, {name}", best, tell))
                except Exception as error:  # a variant that does not run here is named, not hidden
                    run.leave_out(f"{model}, transformers {name}: {type(error).__name__}: {str(error)[:300]}")


def _expected(peer: Batching, ids: Ids) -> Answers:
    """The answers under a mask, without graphs. The peer's attention is that of variable length afterwards.

    ``ImportError`` where it has none.
    """
    peer.attend_plainly()
    with peer.open(PLAIN, len(ids)) as session:
        expected = session.answers(ids)
    peer.attend()
    return expected


def _check(run: Run, peer: Batching, session: Session, ids: Ids, expected: Answers, address: str, name: str) -> None:
    """``BenchError`` where its tokens are others than under a mask; those at a tie may differ, since both round."""
    found = session.answers(ids)
    parted = [why for each in zip(ids, expected, found, strict=True) if (why := peer.part(*each))]
    if parted:
        raise BenchError(f"{len(parted)} of {len(ids)} answers are not those under a mask; the first: {parted[0]}")
    same = {"as under a mask": agreement(expected, found)}
    if address:
        same["as ours"] = agreement(_ours(address, ids, len(found[0])), found)
    run.raw(f"{name}: share of tokens before answers part", same)


def _turns(
    run: Run, served: Served, session: Session, ids: Ids, running: int, name: str, best: float, tell: Tell
) -> float:
    """Requests per second of the peer, theirs and ours in turn; told after every turn."""
    session.rate(ids[:running])  # graphs are captured
    first = session.rate(ids[:running])
    # In whole rounds: at the end of a part of one its GPU would be half empty, which ours over gRPC never is.
    rounds = max(1, round(first * (0.1 if run.dry else MEASURE_S) / running))
    count = min(rounds, len(ids) // running) * running
    theirs: list[float] = []
    ours: list[float] = []
    for turn in range(1 if run.dry else TURNS):
        if turn and not run.enough(count / theirs[0] + 8, f"{name}, turn {turn + 1}"):
            break
        theirs.append(session.rate(ids[:count]))
        point = answered(served.measure({}, running))
        ours.append(point.rate)
        _tell(run, name, running, session.config["attention"], ours, theirs, point, best, tell)
    return statistics.median(theirs)


def _tell(
    run: Run, name: str, running: int, attention: str, ours: list[float], theirs: list[float], point: Point,
    best: float, tell: Tell,
) -> None:  # fmt: skip
    """A row of this variant, and the target where no other variant was faster."""
    mine, other = statistics.median(ours), statistics.median(theirs)
    model, _, variant = name.partition(", ")
    note = f"{mine:,.0f}/s against {other:,.0f}/s, medians of {len(ours)} turns, attention: {attention}"
    run.figure(f"{model}: over transformers' continuous batching, {variant}", mine / other, "×", note)
    run.raw(name, {"ours": ours, "theirs": theirs})
    if other > best:
        shape = f"{model}, {running} in flight, 50 in / 50 out: ours over gRPC {note}; transformers {variant}"
        tell(model, mine / other, f"{shape}; ours bound by {bound_by(point)}")


def _ours(address: str, ids: Ids, limit: int) -> Answers:
    with Client(address) as client:
        return [list(client.generate(each, max_tokens=limit, ignore_eos=True).token_ids) for each in ids]


def agreement(ours: Answers, theirs: Answers) -> float:
    """Share of the tokens that both begin with, prompt by prompt: in bf16 a near tie parts two answers."""
    same = 0
    for one, other in zip(ours, theirs, strict=True):
        pairs = enumerate(zip(one, other, strict=True))
        same += next((at for at, (a, b) in pairs if a != b), len(other))
    return same / sum(map(len, theirs))
