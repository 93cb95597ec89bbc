"""A server of models and an adapter of the hub: one process downloads, a branch is resolved again by a reload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import transformers as tr
from checkpoints import write_checkpoint
from fake_hub import FakeHub, folder_files
from peft import LoraConfig, get_peft_model

from fastqps import Client, Engine
from fastqps.cli import main


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    found = FakeHub()
    yield found
    found.close()


def test_a_branch_is_resolved_at_start_and_again_at_a_reload(
    serve: Callable[..., Any], fake: FakeHub, tmp_path: Path
) -> None:
    one, two, adapter = (tmp_path / name for name in ("one", "two", "adapter"))
    for seed, path in enumerate((one, two)):
        write_checkpoint(path, "bert", seed=seed)
    tuned = get_peft_model(
        tr.AutoModel.from_pretrained(one), LoraConfig(target_modules=["query"], init_lora_weights=False)
    )
    tuned.save_pretrained(adapter)
    bert, lora = fake.repository("org/bert", one, token="hf_2"), fake.repository("org/lora", adapter)
    hub = {"HF_ENDPOINT": fake.url, "HF_HOME": str(tmp_path / "home"), "NO_PROXY": "127.0.0.1", "HF_TOKEN": "hf_2"}
    models = ("--model=plain=hub:org/bert", "--model=tuned=hub:org/bert@main", "--adapter=tuned=hub:org/lora")
    server = serve("--device=cpu", "--dtype=float32", *models, env=hub)
    lines = [line for line in server.lines if " is commit " in line]
    assert len(lines) == 3 and sum(bert.branches["main"] in line for line in lines) == 2
    assert lora.branches["main"] in lines[-1]
    assert set(fake.downloads().values()) == {1}, "one process downloads each file once"
    expected = {
        "plain": Engine(str(one), dtype="float32"),
        "tuned": Engine(str(one), dtype="float32", adapter=str(adapter)),
    }
    with Client(server.address) as client:
        for name, engine in expected.items():
            answer = client.predict_batch([[1, 5, 9]], model=name)[0]
            assert answer.embedding == pytest.approx(engine.predict([[1, 5, 9]])[0], abs=1e-5)
    listed = len(fake.requests)
    assert server.reload(model="tuned")[1]["outcome"] == "unchanged" and len(fake.requests) == listed + 2
    bert.commit(folder_files(two))
    status, found = server.reload(model="tuned")
    assert status == 200 and found["outcome"] == "reloaded"
    assert found["version"] == Engine(str(two), adapter=str(adapter)).card.version
    bert.token = "hf_1"
    status, found = server.reload(model="plain")
    assert status == 422 and "no such repository, or a private one" in found["reason"]


def test_flags_that_do_not_go_together(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "a", "bert")
    capsys.readouterr()
    one, two = (f"--model={name}={tmp_path / 'a'}" for name in "xy")
    usual = ["serve", "--device=null", "--port=0", "--http-port=0", "--admin-port=0"]
    for flags, code, said in [
        ([one, two, "--adapter=ad"], 2, "--adapter ad: 2 models are served; say for which: NAME=ad"),
        ([one, two, "--adapter=z=ad"], 2, "write NAME=DIR with the name of a model: x, y"),
        ([one, "--adapter=ad", "--adapter=x=ad"], 2, "--adapter: two adapters for x"),
        ([one, "--adapter=ad"], 4, "ad has no adapter_config.json"),
        (["--model=hub:org/none", "--hub-offline"], 4, "offline nothing is downloaded"),
    ]:
        assert main([*usual, *flags]) == code
        error = capsys.readouterr().err
        assert said in error and len(error.splitlines()) == 1
