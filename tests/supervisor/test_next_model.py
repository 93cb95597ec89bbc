"""What a running server can become: limits that were settled at its start, and memory for both versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from decoders import write_decoder
from sparse_encoders import write_sparse_encoder
from versions import write_version

from fastqps.config import Config, decide
from fastqps.host import machine
from fastqps.models import ModelError
from fastqps.supervisor.plan import Plan, make_plan
from fastqps.supervisor.reload.next_model import check_memory, next_model


def plan(path: Path, **settings: object) -> Plan:
    usual = {"model": (f"m={write_version(path, '1')}",), "device": "null", "frontdoors": 1, "dispatchers": 1}
    return make_plan(decide(Config(**{**usual, **settings})))  # type: ignore[arg-type]


def test_what_may_change(tmp_path: Path) -> None:
    server = plan(tmp_path / "one", allow_output_change=True)
    now = server.cards[0]
    found = next_model(server, now, write_version(tmp_path / "two", "2", hidden_size=16))
    assert (found.card.name, found.card.dimensions, found.note) == ("m", 16, "")
    assert found.card.version != now.version
    longer = next_model(server, now, write_version(tmp_path / "three", "3", max_position_embeddings=256))
    assert longer.card.max_input_tokens == now.max_input_tokens == 128
    assert longer.note == "inputs of at most 128 tokens, as the slots have room for; a restart would take 256"
    shorter = next_model(server, now, write_version(tmp_path / "four", "4", max_position_embeddings=64))
    assert (shorter.card.max_input_tokens, shorter.note) == (64, "")
    limited = plan(tmp_path / "one", max_input_tokens=128)
    assert next_model(limited, now, str(tmp_path / "three")).note == ""


def test_what_may_not(tmp_path: Path) -> None:
    server = plan(tmp_path / "one", allow_output_change=True)
    wide = write_version(tmp_path / "wide", "2", hidden_size=64)
    with pytest.raises(ModelError, match=r"an answer of 64 dimensions takes 256B, and the slots .* have 128B for it"):
        next_model(server, server.cards[0], wide)
    other = write_version(tmp_path / "other", "2", architectures=["BertForSequenceClassification"])
    with pytest.raises(ModelError, match="it is there to classify, and m to embed; start a server for it"):
        next_model(server, server.cards[0], other)
    mute = Path(write_version(tmp_path / "mute", "2"))
    (mute / "tokenizer.json").unlink()  # as while it is copied
    with pytest.raises(ModelError, match=r"mute: it has no tokenizer\.json, and m has one"):
        next_model(server, server.cards[0], str(mute))


def test_answers_of_another_kind_have_to_be_allowed(tmp_path: Path) -> None:
    """Clients may have stored vectors, or go by the labels' numbers: such a reload is refused unless asked for."""
    flag = "--allow-output-change lets a reload do that"
    narrow = write_version(tmp_path / "narrow", "2", hidden_size=16)
    server = plan(tmp_path / "one")
    with pytest.raises(ModelError, match=f"it gives 16 dimensions, and m 32; {flag}"):
        next_model(server, server.cards[0], narrow)
    assert next_model(plan(tmp_path / "one", allow_output_change=True), server.cards[0], narrow).card.dimensions == 16
    kind = {"architectures": ["BertForSequenceClassification"]}
    labelled = write_version(tmp_path / "labels", "1", **kind, id2label={"0": "bad", "1": "good"})
    server = make_plan(decide(Config(model=(f"m={labelled}",), device="null", frontdoors=1, dispatchers=1)))
    swapped = write_version(tmp_path / "swapped", "2", **kind, id2label={"0": "good", "1": "bad"})
    with pytest.raises(ModelError, match=f"its label 0 is 'good', and m's is 'bad'; {flag}"):
        next_model(server, server.cards[0], swapped)
    fewer = write_version(tmp_path / "fewer", "2", **kind, num_labels=1)
    with pytest.raises(ModelError, match=f"it gives 1 labels, and m 2; {flag}"):
        next_model(server, server.cards[0], fewer)
    same = write_version(tmp_path / "same", "2", **kind, id2label={"0": "bad", "1": "good"})
    assert next_model(server, server.cards[0], same).card.labels == ("bad", "good")


def test_answers_stay_as_long_as_they_are(tmp_path: Path) -> None:
    """A limit that the server has chosen at its start holds for later versions, too."""
    for positions in (700, 4096):
        write_decoder(tmp_path / str(positions), max_position_embeddings=positions)
    server = make_plan(decide(Config(model=(f"m={tmp_path / '700'}",), device="null", frontdoors=1, dispatchers=1)))
    found = next_model(server, server.cards[0], str(tmp_path / "4096")).card
    assert server.cards[0].max_output_tokens == found.max_output_tokens == 188


def test_memory_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_used_bytes", lambda: machine.memory_bytes() - (1 << 40))
    check_memory([os.getpid()])
    monkeypatch.setattr(machine, "memory_used_bytes", lambda: machine.memory_bytes() - (1 << 20))
    with pytest.raises(ModelError, match=r"would need about .* beside those that serve, and 1.0 MiB are free"):
        check_memory([os.getpid()])


def test_workers() -> None:
    """A model's generations have worker slots by turns; nobody has another's."""
    server = Plan(None, (None, None), (None, None), (), 1, 3, 1, (), ())  # type: ignore[arg-type]
    assert (server.dispatchers, server.workers) == (12, 24)
    taken = [worker for model in (0, 1) for generation in (4, 5) for worker in server.workers_of(model, generation)]
    assert sorted(taken) == list(range(24))
    for model in (0, 1):
        old, new = server.workers_of(model, 0), server.workers_of(model, 1)
        assert {server.model_of(worker) for worker in (*old, *new)} == {model}
        assert [server.device_of(worker) for worker in old] == [server.device_of(worker) for worker in new]
    assert not Plan(None, (None,), (None,), (), 1, 33, 1, (), ()).reloads  # type: ignore[arg-type]


def test_sparse_embeddings_keep_their_ids_and_their_number(tmp_path: Path) -> None:
    now = write_sparse_encoder(tmp_path / "now", "bert", model={"max_active_dims": 30})
    server = make_plan(decide(Config(model=(f"m={now}",), device="null", frontdoors=1, dispatchers=1)))
    fewer = write_sparse_encoder(tmp_path / "fewer", "bert", model={"max_active_dims": 20})
    with pytest.raises(ModelError, match="it gives up to 20 weights, and m 30; --allow-output-change"):
        next_model(server, server.cards[0], fewer)
    other = write_sparse_encoder(tmp_path / "other", "roberta", model={"max_active_dims": 30})
    with pytest.raises(ModelError, match="its weights are of 700 token ids, and m's of 386; --allow-output-change"):
        next_model(server, server.cards[0], other)
    more = write_sparse_encoder(tmp_path / "more", "bert", model={"max_active_dims": 300})
    with pytest.raises(ModelError, match="an answer of 300 weights takes 2404B"):
        next_model(server, server.cards[0], more)
    dense = write_version(tmp_path / "dense", "2")
    with pytest.raises(ModelError, match="it is there to embed, and m to embed_sparse; start a server for it"):
        next_model(server, server.cards[0], dense)
