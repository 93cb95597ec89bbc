"""transformers' continuous batching on the same GPU: the same weights, prompts and number in flight, in turn with ours.

Its attention must be of variable length and give the tokens that torch's attention under a mask gives. Otherwise there
is no row: a ratio over a mask of all by all says nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
MEASURE_S, OURS_S = 3.0, 8.0  # of a turn
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
    best = 0.0
    with TemporaryDirectory() as folder:
        payloads = decoder_payloads(Path(folder) / "prompts", asked, tokens_out(run))
        with open_server(run, settings_of(run, model, running), payloads, slow=True) as served:
            for variant in list(VARIANTS)[: 1 if run.dry else None]:  # dry, both are alike
                if best and not run.enough(VARIANT_S, f"{model}, {variant}"):
                    continue
                try:
                    for turn in _variant(run, served, peer, f"{model}, {variant}", ids, expected):
                        if turn.theirs >= best:
                            best = turn.theirs
                            tell(model, turn.ours / turn.theirs, f"{model}, {running} in flight, {turn.note}")
                except Exception as error:  # a variant that does not run here is named, not hidden
                    run.leave_out(f"{model}, transformers {variant}: {type(error).__name__}: {str(error)[:300]}")


def _expected(peer: Batching, ids: Ids) -> Answers:
    """The answers under a mask, without graphs. The peer's attention is that of variable length afterwards.

    ``ImportError`` where it has none.
    """
    peer.attend_plainly()
    with peer.open(PLAIN, len(ids)) as session:
        expected = session.answers(ids)
    peer.attend()
    return expected


@dataclass(frozen=True)
class Turn:
    """Requests per second of all turns so far, medians, and what to say of them."""

    ours: float
    theirs: float
    note: str


def _variant(run: Run, served: Served, peer: Batching, name: str, ids: Ids, expected: Answers) -> Iterator[Turn]:
    """Turns of the peer and ours, each told when it is over. ``BenchError`` where the peer's tokens are wrong."""
    with peer.open(VARIANTS[name.partition(", ")[2]]) as session:
        run.raw(f"{name}: configuration", session.config)
        found = _checked(peer, session, ids[: len(expected)], expected)
        count = _warm_up(run, session, ids, peer.running)
        rates: dict[str, list[float]] = {"ours": [], "theirs": []}
        for turn in range(1 if run.dry else TURNS):
            if turn and not run.enough(count / rates["theirs"][0] + OURS_S, f"{name}, turn {turn + 1}"):
                break
            rates["theirs"].append(session.rate(ids[:count]))
            point = answered(served.measure({}, peer.running))
            rates["ours"].append(point.rate)
            run.raw(name, rates)
            yield _told(run, name, peer.attention, rates, point)
    same = {"as under a mask": agreement(expected, found)}
    if served.address:
        same["as ours"] = agreement(_ours(served.address, ids[: len(found)], len(found[0])), found)
    run.raw(f"{name}: share of tokens before answers part", same)


def _checked(peer: Batching, session: Session, ids: Ids, expected: Answers) -> Answers:
    """Its answers. ``BenchError`` where they are others than under a mask; at a tie they may be, since both round."""
    found = session.answers(ids)
    parted = [why for each in zip(ids, expected, found, strict=True) if (why := peer.part(*each))]
    if parted:
        raise BenchError(f"{len(parted)} of {len(ids)} answers are not those under a mask; the first: {parted[0]}")
    return found


def _warm_up(run: Run, session: Session, ids: Ids, running: int) -> int:
    """Captures its graphs. Prompts of a turn: whole rounds, since at the end of a part of one its GPU would be half
    empty, which ours over gRPC never is."""
    session.rate(ids[:running])
    rounds = max(1, round(session.rate(ids[:running]) * (0.1 if run.dry else MEASURE_S) / running))
    return min(rounds, len(ids) // running) * running


def _told(run: Run, name: str, attention: str, rates: dict[str, list[float]], point: Point) -> Turn:
    """Writes the variant's row."""
    ours, theirs = statistics.median(rates["ours"]), statistics.median(rates["theirs"])
    model, _, variant = name.partition(", ")
    note = f"{ours:,.0f}/s against {theirs:,.0f}/s, medians of {len(rates['ours'])} turns, attention: {attention}"
    run.figure(f"{model}: over transformers' continuous batching, {variant}", ours / theirs, "×", note)
    note = f"50 in / 50 out: ours over gRPC {note}; transformers {variant}; ours bound by {bound_by(point)}"
    return Turn(ours, theirs, note)


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
