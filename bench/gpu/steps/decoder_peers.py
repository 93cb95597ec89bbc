"""transformers' continuous batching on the same GPU: the same weights, prompts and number in flight, in turn with ours.

Its attention must be of variable length and give the tokens that torch's attention under a mask gives. Otherwise there
is no row: a ratio over a mask of all by all says nothing.
"""

from __future__ import annotations

from functools import partial
from tempfile import TemporaryDirectory

import torch
from transformers import AutoTokenizer

from bench.gpu.peers.batching import ASYNCHRONOUS, PLAIN, Answers, Batching, Ids, Session
from bench.gpu.plan import START_S
from bench.gpu.run import Run
from bench.gpu.servers.arms import Arms
from bench.gpu.servers.modelled import open_server
from bench.gpu.steps.decoder import payloads, prompts, settings_of, tokens_out
from fastqps import Client
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import BenchError

MODELS = ("smollm2-135m", "qwen2.5-0.5b")
IN_FLIGHT = 1024
TURNS = 2
CHECKED = 16  # prompts that are answered twice before anything is measured
MEASURE_S = 3.0  # of a turn of the peer, about
TURN_S, OURS_S = 5.0, 8.0  # about what a turn takes
MODEL_S = 60.0  # about what another one takes
OURS, THEIRS = "ours", "transformers asynchronous"


def measure(run: Run) -> None:
    """Each model; the target is the smaller of their ratios."""
    ratios: dict[str, tuple[float, str]] = {}
    for model in MODELS[:1] if run.dry else MODELS:
        if model == MODELS[0] or run.enough(MODEL_S, model):
            run.attempt(model, partial(_model, run, model, ratios))
    run.finish()


def _model(run: Run, model: str, ratios: dict[str, tuple[float, str]]) -> None:
    """Turns of the peer and ours, each told when it is over. ``BenchError`` where the peer's tokens are wrong."""
    running = 8 if run.dry else IN_FLIGHT
    path = run.checkpoint(model)
    ids: Ids = AutoTokenizer.from_pretrained(path)(prompts(run, model))["input_ids"]
    device, dtype = torch.device("cpu" if run.dry else "cuda:0"), torch.float32 if run.dry else torch.bfloat16
    peer = Batching(path, device, dtype, running, tokens_out(run))
    try:
        expected = _expected(peer, ids[:CHECKED])
    except ImportError as why:
        run.leave_out(f"{model}: transformers has no attention of variable length here: {why}")
        return
    settings = settings_of(run, model) | {"max-running": running}
    with TemporaryDirectory() as folder, Arms(run, model, "requests/s") as arms:
        calls = payloads(run, model, folder)
        with open_server(run, settings, calls, slow=True) as served, peer.open(ASYNCHRONOUS) as session:
            run.raw(f"{model}: configuration", session.config)
            answers = _checked(peer, session, ids[:CHECKED], expected)
            theirs = partial(_point, session, ids[: _warm_up(run, session, ids, running)])
            ours = partial(served.measure, {}, running)
            for _ in range(1 if run.dry else TURNS):
                start_s = 0.0 if served.started else START_S[1]
                if not (arms.take(THEIRS, theirs, TURN_S) and arms.take(OURS, ours, start_s + OURS_S)):
                    break
                note = f"{model}, {running} in flight, 50 in / 50 out: ours over gRPC {arms.rate(OURS):,.0f}/s, "
                note += f"theirs {arms.rate(THEIRS):,.0f}/s, attention: {peer.attention}"
                ratios[model] = arms.rate(OURS) / arms.rate(THEIRS), note
                run.target("peer", *min(ratios.values()))
            same = {"as under a mask": agreement(expected, answers)}
            if served.address:  # a formula has none
                same["as ours"] = agreement(_ours(served.address, ids[: len(answers)], len(answers[0])), answers)
            run.raw(f"{model}: share of tokens before answers part", same)


def _expected(peer: Batching, ids: Ids) -> Answers:
    """The answers under a mask, without graphs. The peer's attention is that of variable length afterwards.

    ``ImportError`` where it has none.
    """
    peer.attend_plainly()
    with peer.open(PLAIN, len(ids)) as session:
        expected = session.answers(ids)
    peer.attend()
    return expected


def _point(session: Session, ids: Ids) -> Point:
    return Point("", rate=session.rate(ids), status={"OK": len(ids)})


def _checked(peer: Batching, session: Session, ids: Ids, expected: Answers) -> Answers:
    """Its answers. ``BenchError`` where they are others than under a mask; at a tie they may be, since both round."""
    answers = session.answers(ids)
    parted = [why for each in zip(ids, expected, answers, strict=True) if (why := peer.part(*each))]
    if parted:
        raise BenchError(f"{len(parted)} of {len(ids)} answers are not those under a mask; the first: {parted[0]}")
    return answers


def _warm_up(run: Run, session: Session, ids: Ids, running: int) -> int:
    """Captures its graphs. Prompts of a turn: whole rounds, since at the end of a part of one its GPU would be half
    empty, which ours over gRPC never is."""
    session.rate(ids[:running])
    rounds = max(1, round(session.rate(ids[:running]) * (0.1 if run.dry else MEASURE_S) / running))
    return min(rounds, len(ids) // running) * running


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
