"""Models of the hub: what is downloaded, checked, repeated and refused, against a server that speaks the hub's API."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoints import write_checkpoint, write_sentence_modules
from fake_hub import SIGNATURE, FakeHub, folder_files, hub_of_this_process
from huggingface_hub import constants

import fastqps.models.hub.snapshot as fetching
from fastqps.models import ModelError, hub, load_card
from fastqps.models.hub import patience
from fastqps.models.names import aliases, explicit, names_of

pytestmark = pytest.mark.compute
SHARDED = {"max_shard_size": "20KB"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence-transformers model, with what most repositories have beside it."""
    path = tmp_path_factory.mktemp("models") / "bert"
    write_checkpoint(path, "bert")
    write_sentence_modules(path, dense=True)
    (path / "onnx").mkdir()
    others = ("pytorch_model.bin", "onnx/model.onnx", "README.md", "2_Dense/pytorch_model.bin", "training_args.bin")
    for name in others:
        (path / name).write_bytes(b"not to be downloaded")
    return path


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    with hub_of_this_process(monkeypatch, tmp_path) as found:
        yield found


def blobs(fake: FakeHub) -> set[str]:
    """The files of the cache, incomplete ones included."""
    return {path.name for path in Path(constants.HF_HUB_CACHE).glob("*/blobs/*")}


def test_only_what_is_served_is_downloaded_once(fake: FakeHub, model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    commit = fake.repository("org/bert", model).branches["main"]
    card = load_card("hub:org/bert")
    expected = {"modules.json", "config.json", "1_Pooling/config.json", "model.safetensors"}
    expected |= {"2_Dense/config.json", "2_Dense/model.safetensors"}
    assert fake.downloads() == dict.fromkeys(expected, 1)
    assert list(fake.downloads())[-1] == "model.safetensors", "an interrupted download leaves no weights"
    assert card.name == "bert" and card.version == load_card(str(model)).version and commit in card.path
    assert f"hub:org/bert@main is commit {commit}, checked" in capfd.readouterr().err
    fetching._fetched.clear()
    fake.requests.clear()
    assert load_card("hub:org/bert@" + commit) == card
    assert not fake.downloads(), "the cache has them"


def test_a_name_is_a_folder_or_else_a_repository(
    fake: FakeHub, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.repository("org/bert", model)
    monkeypatch.chdir(tmp_path)
    assert load_card("org/bert").path.startswith(constants.HF_HUB_CACHE)
    for text, named in [
        ("org/bert", (["bert", "org/bert"], "hub:org/bert")),
        ("hub:org/bert@v1", (["bert", "org/bert"], "hub:org/bert@v1")),
        ("a, b=org/bert@v1", (["a", "b"], "org/bert@v1")),
        ("minilm", (["minilm"], "minilm")),
    ]:
        assert names_of(text) == named
    shutil.copytree(model, tmp_path / "org/bert")
    assert explicit("a,b=org/bert") == "a,b=./org/bert" and explicit("hub:org/bert") == "hub:org/bert"
    assert load_card("org/bert").path == str(tmp_path / "org/bert")
    for unchanged in ("./org/bert", "org/bert/", "/org/bert", "~/org", "../bert", "a/b/c", "org/a--b", "minilm", ""):
        assert explicit(unchanged) == unchanged
    assert aliases(["a,b=x", "hub:org/bert", "c=y"]) == {"b": 0, "org/bert": 1}


def test_a_folder_is_found_however_it_is_written(fake: FakeHub, model: Path) -> None:
    files = folder_files(model)
    files["modules.json"] = files["modules.json"].replace(b'"2_Dense"', b'"./2_Dense/"')
    assert b"./2_Dense/" in files["modules.json"]
    fake.repository("org/bert").commit(files)
    load_card("hub:org/bert")
    assert {"2_Dense/config.json", "2_Dense/model.safetensors"} < fake.downloads().keys()


def test_a_branch_is_resolved_when_it_is_fetched_and_a_commit_stays(fake: FakeHub, model: Path, tmp_path: Path) -> None:
    repository = fake.repository("org/bert", model)
    first, pinned = load_card("hub:org/bert"), f"hub:org/bert@{repository.branches['main']}"
    write_checkpoint(tmp_path / "next", "bert", seed=1)
    repository.commit(folder_files(model) | folder_files(tmp_path / "next"))
    assert load_card("hub:org/bert") == first, "once for each process"
    hub.fetch("hub:org/bert")
    second = load_card("hub:org/bert")
    assert second.version != first.version and second.path != first.path
    assert load_card(pinned).version == first.version
    repository.branches["refs/pr/1"] = pinned.partition("@")[2]
    assert load_card("hub:org/bert@refs/pr/1").version == first.version


def test_shards_and_a_tokenizer_folder(fake: FakeHub, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "m", "roberta").save_pretrained(tmp_path / "sharded", **SHARDED)
    (tmp_path / "sharded/model-00099-of-00099.safetensors").write_bytes(b"no shard of this model")
    (tmp_path / "sharded/tokenizer_config.json").write_text("{}")
    fake.repository("org/sharded", tmp_path / "sharded")
    load_card("hub:org/sharded")
    index = json.loads((tmp_path / "sharded/model.safetensors.index.json").read_text())
    beside = {"config.json", "tokenizer_config.json", "model.safetensors.index.json"}
    assert set(fake.downloads()) == beside | set(index["weight_map"].values()) and len(fake.downloads()) > 4


def test_offline_the_cache_is_served_as_far_as_it_is_whole(
    fake: FakeHub, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = fake.repository("org/bert", model).branches["main"]
    with pytest.raises(ModelError, match=r"is not in .*run: hf download org/bert --revision main$"):
        hub.fetch("hub:org/bert", offline=True)
    card = load_card("hub:org/bert")
    fake.requests.clear()
    assert hub.fetch(f"hub:org/bert@{commit}", offline=True) == Path(card.path)
    assert hub.fetch("hub:org/bert", offline=True) == Path(card.path)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert hub.fetch("hub:org/bert") == Path(card.path) and not fake.requests
    weights = Path(card.path) / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    os.chmod(weights.resolve(), 0o644)
    weights.write_bytes(content)
    with pytest.raises(ModelError, match="its content has the hash"):
        hub.fetch("hub:org/bert")
    weights.unlink()
    with pytest.raises(ModelError, match=r"has no model\.safetensors"):
        hub.fetch("hub:org/bert")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    assert load_card(str(hub.fetch("hub:org/bert"))).version == card.version, "a damaged file is downloaded again"


@pytest.mark.parametrize(
    "faults",
    [
        {"/api/models": ["503", "429"]},
        {"GET /org/bert/resolve": ["429"]},
        {"/content/": ["cut"]},
        {"/content/": ["wrong"]},
        {"GET /org/bert/resolve": ["wrong"], "/content/": ["wrong"]},
    ],
    ids=str,
)
def test_what_passes_is_tried_again(fake: FakeHub, model: Path, faults: dict[str, list[str]]) -> None:
    fake.repository("org/bert", model)
    fake.faults = faults
    assert load_card("hub:org/bert").version == load_card(str(model)).version
    assert not any(faults.values()), "they all came"


def test_a_cut_download_goes_on_where_it_ended(fake: FakeHub, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1 << 10)
    commit = fake.repository("org/bert", model).branches["main"]
    size = (model / "model.safetensors").stat().st_size
    fake.faults = {f"/content/{commit}/model.safetensors": ["cut"]}
    load_card("hub:org/bert")
    ranges = [line.partition("bytes=")[2] for line in fake.requests if "bytes=" in line]
    assert len(ranges) == 1 and size // 4 < int(ranges[0].removesuffix("-")) <= size // 2


@pytest.mark.parametrize(
    ("name", "faults", "said"),
    [
        ("org/none", {}, "no such repository, or a private one: check its name, or set HF_TOKEN"),
        ("org/secret", {}, "no such repository, or a private one"),
        ("org/gated", {}, "the repository is gated: accept its terms"),
        ("org/bert@v2", {}, "the repository has no revision 'v2'"),
        ("org/empty", {}, r"has no config\.json"),
        ("org/pickled", {}, r"has no model\.safetensors, and pytorch_model\.bin is never read"),
        ("org/adapter", {}, "an adapter of org/base is no model: serve its base with --model, and add --adapter"),
        ("org/unlisted", {}, r"modules\.json: a module is no JSON object: 1"),
        ("org/unsharded", {}, "names 'model-00001-of-00001.safetensors', which is not there"),
        ("org/bert", {"/api/models": ["503"] * 9}, "HTTP 503 from 127.0.0.1 after 5 tries"),
        ("org/bert", {"/content/": ["410"] * 9}, r": HTTP 410 from 127\.0\.0\.1$"),
        ("org/bert", {"/content/": ["wrong"] * 9}, "its content has the hash"),
        ("../bert", {}, "names no repository"),
        ("org/bert@../x", {}, "names no repository"),
        ("org/bert@", {}, "names no repository"),
    ],
)
def test_refused_in_one_line(fake: FakeHub, model: Path, name: str, faults: dict[str, list[str]], said: str) -> None:
    fake.repository("org/bert", model)
    fake.repository("org/secret", model, token="hf_1")
    fake.repository("org/gated", model, token="hf_1", gated=True)
    files = folder_files(model)
    config = {"config.json": files["config.json"]}
    fake.repository("org/empty").commit({"README.md": b"nothing"})
    fake.repository("org/pickled").commit(config | {"pytorch_model.bin": b""})
    adapter = {"base_model_name_or_path": "org/base"}
    fake.repository("org/adapter").commit({"adapter_config.json": json.dumps(adapter).encode()})
    fake.repository("org/unlisted").commit(files | {"modules.json": b"[1]"})
    index = {"weight_map": {"x": "model-00001-of-00001.safetensors"}}
    fake.repository("org/unsharded").commit(config | {"model.safetensors.index.json": json.dumps(index).encode()})
    fake.faults = faults
    with pytest.raises(ModelError, match=said) as refusal:
        load_card(f"hub:{name}")
    assert SIGNATURE not in str(refusal.value)
    assert "\n" not in str(refusal.value) and refusal.value.exit_code == 4
    assert not any(".bin" in line for line in fake.requests), "pickles are never asked for"
    if faults.get("/content/"):
        assert not list(Path(constants.HF_HUB_CACHE).glob("*/snapshots/*/*.safetensors"))
        assert not any(name.endswith(".incomplete") for name in blobs(fake))


@pytest.mark.parametrize("cause", [ValueError, type("ConnectError", (Exception,), {"__module__": "httpx"})])
def test_no_signed_address_is_shown(fake: FakeHub, cause: type[Exception]) -> None:
    def fail() -> None:
        raise cause(f"no way to https://me:secret@cdn/x{SIGNATURE} today")

    with pytest.raises(ModelError, match=r"no way to https://cdn/x today($|\).* run: hf download org/bert)") as refusal:
        patience.patiently(hub.parse_reference("hub:org/bert"), "x", fail)
    assert "secret" not in str(refusal.value)


def test_a_token_opens_what_is_gated_and_stays_at_the_hub(
    fake: FakeHub, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.repository("org/gated", model, token="hf_1", gated=True)
    monkeypatch.setenv("HF_TOKEN", "hf_1")
    assert load_card("hub:org/gated").version == load_card(str(model)).version


def test_a_full_disk_leaves_nothing_half_valid(fake: FakeHub, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.file_download as library

    fake.repository("org/bert", model)
    get = library.http_get

    def full(url: str, temp_file: Any, **options: Any) -> None:
        if ".safetensors" not in url:
            get(url, temp_file, **options)
            return
        temp_file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(library, "http_get", full)
    with pytest.raises(ModelError, match="the disk of the cache is full: free some space, or set HF_HOME"):
        load_card("hub:org/bert")
    assert not list(Path(constants.HF_HUB_CACHE).glob("*/snapshots/*/*.safetensors"))
    assert not any(name.endswith(".incomplete") for name in blobs(fake))
    with pytest.raises(ModelError, match="is not in"):
        hub.fetch("hub:org/bert", offline=True)
