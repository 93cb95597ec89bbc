"""transformers' continuous batching as a peer: its attention of variable length, and rows only for right tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn.attention import varlen as torch_varlen

import fastqps
from bench.gpu.models.checkpoints import checkpoint
from bench.gpu.models.shapes import SHAPES
from bench.gpu.peers import batching, varlen
from bench.gpu.peers.batching import PLAIN, Batching
from bench.gpu.plan import TARGETS
from bench.gpu.servers.modelled import ModelledServer
from bench.gpu.steps import decoder_peers
from fastqps.bench.results.point import Point

pytestmark = pytest.mark.compute
MODEL = "smollm2-135m"  # whose query heads share key heads
LENGTHS = (50, 3, 17, 50, 50, 1, 9, 70)  # one of which no batch of 64 tokens holds whole
LIMIT = 12


@pytest.fixture(scope="module")
def path(cache: Path) -> Path:
    return checkpoint(SHAPES[MODEL].tiny(), cache)


@pytest.fixture
def peer(path: Path) -> Iterator[Batching]:
    found = Batching(path, torch.device("cpu"), torch.float32, len(LENGTHS), LIMIT)
    assert found._model.config.num_key_value_heads < found._model.config.num_attention_heads
    yield found


def prompts() -> list[list[int]]:
    chance = torch.Generator().manual_seed(0)
    return [torch.randint(0, 512, (length,), generator=chance).tolist() for length in LENGTHS]


def answers(peer: Batching) -> list[list[int]]:
    with peer.open(PLAIN) as session:
        return session.answers(prompts())


def test_attention_of_variable_length_gives_the_tokens_of_a_mask_and_ours(
    peer: Batching, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[tuple[int, int]] = set()
    kernel = varlen.plain_kernel

    def recorded(*words: Any, scale: float) -> torch.Tensor:
        q, k, _, starts_q, starts_k, most_q, most_k = words
        assert (q.shape[1], k.shape[1], q.shape[2], k.shape[2], scale) == (4, 1, 16, 16, 0.25)
        assert starts_q.dtype == starts_k.dtype == torch.int32
        assert int(starts_k[-1]) == len(k) and int(starts_q[-1]) == len(q)
        lengths = list(zip(starts_q.diff().tolist(), starts_k.diff().tolist(), strict=True))
        assert (most_q, most_k) == (max(q for q, _ in lengths), max(k for _, k in lengths))
        seen.update(lengths)
        return kernel(*words, scale=scale)

    monkeypatch.setattr(batching, "plain_kernel", recorded)
    peer.attend_plainly()
    under_a_mask = answers(peer)
    assert not seen
    peer.attend()
    assert answers(peer) == under_a_mask
    assert any(q == k > 1 for q, k in seen), "prompts"
    assert any(q == 1 < k for q, k in seen), "steps that go on"
    assert any(1 < q < k for q, k in seen), "the second part of a prompt"
    engine = fastqps.Engine(str(path), dtype="float32")
    ours = engine.generate(prompts(), max_tokens=LIMIT, ignore_eos=True)
    assert [each.token_ids for each in ours] == under_a_mask


def aligned_with_the_start(*words: Any, scale: float) -> torch.Tensor:
    """A causal mask as torch's scaled_dot_product_attention has it: the first query sees the first key alone."""
    q, k, v, starts_q, starts_k, most_q, most_k = words
    cut, values = [], []
    for start, queries in zip(starts_k[:-1].tolist(), starts_q.diff().tolist(), strict=True):
        cut.append(k[start : start + queries])
        values.append(v[start : start + queries])
    keys = torch.cat(cut), torch.cat(values)
    return varlen.plain_kernel(q, *keys, starts_q, starts_q, most_q, most_k, scale=scale)


def test_tokens_that_are_not_those_of_a_mask_give_no_row(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "plain_kernel", aligned_with_the_start)
    run = dry("decoder_peers")
    with pytest.raises(RuntimeError, match="answers are not those under a mask"):
        decoder_peers.measure(run)
    assert not run.results.read()["table"]


def test_without_attention_of_variable_length_there_is_no_row(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(peer: Batching) -> None:
        raise ImportError("no varlen_attn")

    monkeypatch.setattr(Batching, "attend", none)
    run = dry("decoder_peers")
    decoder_peers.measure(run)
    found = run.results.read()
    assert not found["table"]
    assert "no varlen_attn" in found["steps"]["decoder_peers"]["left_out"][0]


def test_right_tokens_give_the_target(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_peers, "_ours", lambda address, ids, limit: [[-1] * limit for _ in ids])
    monkeypatch.setattr(ModelledServer, "address", "somewhere")
    run = dry("decoder_peers")
    decoder_peers.measure(run)
    found = run.results.read()
    rows = {row["name"]: row for row in found["table"]}
    ours, theirs = (rows[f"{MODEL}, {name}"]["measured"] for name in ("ours", "transformers asynchronous"))
    target = rows[TARGETS["peer"].name]
    assert target["measured"] == ours / theirs > 0
    assert "attention: a loop over sequences" in target["bound_by"]
    assert "left_out" not in found["steps"]["decoder_peers"]
    same = found["raw"]["decoder_peers"][f"{MODEL}: share of tokens before answers part"]
    assert same == {"as under a mask": 1.0, "as ours": 0.0}


def test_the_target_is_the_smaller_ratio_and_kept_after_each_turn(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second model is the better one at first; its last turn fails."""
    rates = iter((10.0, 20.0, 10.0))
    kept = []

    class Peer:
        attention = "none"

        def __init__(self, *words: Any) -> None: ...

        @contextmanager
        def open(self, variant: dict[str, bool]) -> Iterator[Any]:
            yield SimpleNamespace(config={}, rate=lambda ids: next(rates))

    class Served(ModelledServer):
        def measure(self, *words: Any, **more: Any) -> Point:
            kept.append([row["measured"] for row in run.results.read()["table"] if row["target"]])
            return Point("", rate=100.0, status={"OK": 1})

    run = dry("decoder_peers")
    for name, value in {"Batching": Peer, "open_server": Served}.items():
        monkeypatch.setattr(decoder_peers, name, value)
    for name, made in {"_expected": [[1]], "_checked": [[1]], "_ours": [[1]], "_warm_up": 1, "prompts": ["a"]}.items():
        monkeypatch.setattr(decoder_peers, name, lambda *words, made=made: made)
    monkeypatch.setattr(type(run), "enough", lambda self, seconds, what: True)
    monkeypatch.setattr(type(run), "shape", lambda self, name: SHAPES[name].tiny())
    monkeypatch.setattr(type(run), "device", "cpu")
    run.dry = False
    with pytest.raises(RuntimeError, match=r"qwen2.5-0.5b, transformers asynchronous: StopIteration"):
        decoder_peers.measure(run)
    assert kept == [[], [10.0], [pytest.approx(100 / 15)]]


def test_answers_part_where_no_rounding_explains_it(peer: Batching) -> None:
    peer.attend()
    one = answers(peer)[0]
    assert peer.part(prompts()[0], one, list(one)) == ""
    with ExitStack() as stack:
        session = stack.enter_context(peer.open(PLAIN))
        wrong = [*one[:3], (one[3] + 1) % 512, *one[4:]]
        assert peer.part(prompts()[0], one, wrong).startswith(f"token 3: {one[3]} ")
        assert peer._model.config._attn_implementation == varlen.VARLEN, "the session goes on with its own attention"
        assert session.answers(prompts())[0] == one


def test_answers_do_not_part_at_a_tie(peer: Batching) -> None:
    peer.attend()
    with torch.no_grad():  # two tokens that no logit tells apart
        peer._model.get_output_embeddings().weight[7] = peer._model.get_output_embeddings().weight[9]
    assert peer.part([1, 2, 3], [7, 4], [9, 5]) == ""


@pytest.mark.parametrize("grouped", [False, True], ids=["torch 2.11", "torch 2.13"])
def test_torch_is_asked_for_a_causal_window(monkeypatch: pytest.MonkeyPatch, grouped: bool) -> None:
    def asked(*words: Any, scale: float, window_size: tuple[int, int], **more: Any) -> Any:
        return words, scale, window_size, more

    def asked_213(*words: Any, scale: float, window_size: tuple[int, int], enable_gqa: bool = False) -> Any:
        return asked(*words, scale=scale, window_size=window_size, enable_gqa=enable_gqa)

    monkeypatch.setattr(torch_varlen, "varlen_attn", asked_213 if grouped else asked)
    words: tuple[Any, ...] = ("q", "k", "v", "starts of q", "starts of k", 3, 9)
    expected = words, 0.5, (-1, 0), {"enable_gqa": True} if grouped else {}
    assert varlen.torch_kernel()(*words, scale=0.5) == expected


def test_a_torch_without_windows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_varlen, "varlen_attn", lambda query, key, is_causal=False: query)
    with pytest.raises(ImportError, match="takes no window_size"):
        varlen.torch_kernel()
