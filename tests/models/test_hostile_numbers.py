"""Numbers in files that nothing can compute with: each is refused in one line by name, and nothing is sized by it."""

from __future__ import annotations

import json
import math
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import test_irregular_files
import transformers as tr
from bad_files import write_tensors
from checkpoints import FAMILIES, write_checkpoint, write_sentence_modules
from nightly import nightly

from fastqps.config import sources
from fastqps.devices.profile_file import load_profile
from fastqps.errors import FastqpsError
from fastqps.files.documents import parse_json, parse_toml
from fastqps.models import ModelCard, ModelError, load_card
from fastqps.models.files.tensors import read_tensors
from fastqps.telemetry.capacity import read_capacity

pytestmark = pytest.mark.compute
MEMORY_BYTES = 256 << 20
BEYOND = ("Infinity", "-Infinity", "NaN", "1e400", "1" + "0" * 400, "-1" + "0" * 400, "9" * 309, "1" * 100_000)
VALUES: tuple[Any, ...] = (
    *(10**400, math.inf, -math.inf, math.nan, 10**300, -(10**300), 1 << 62, 1 << 31, 10**9, 3_000_000, 4000, 190, -1),
    *(1e308, 1e-320, {"0": "x" * 300_000}, {str(10**300): "a"}, [10**300]),
)
SIZED = ("dimensions", "vocab_size", "kv_values")  # what memory is planned by
IDS = ("pad_id", "cls_id", "sep_id", "dimensions", "max_input_tokens", "vocab_size", "position_offset")


@pytest.mark.parametrize("number", BEYOND)
def test_the_reader_names_the_key(number: str) -> None:
    text = f'{{"a": 1, "b": [0.5, {{"c": {number}}}]}}'
    with pytest.raises(ValueError, match=r"^the value\['b'\]\[1\]\['c'\] is no number that a float holds: .{,80}$"):
        parse_json(text.encode())


def test_the_reader_takes_all_other_numbers() -> None:
    text = f"[{10**30}, -1e308, 1e-400, {10**308}, 0.1]"
    assert parse_json(text.encode()) == [10**30, -1e308, 0.0, 10**308, 0.1]


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e400", "1" + "0" * 400, "0x" + "f" * 400, "1" * 5000])
def test_toml_has_the_same_numbers(number: str) -> None:
    with pytest.raises(ValueError, match=r"^(the value\['a'\]\['b'\]\[1\] is no number|Exceeds the limit).*$"):
        parse_toml(f"[a]\nb = [1, {number}]".encode())


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 900 + b"Infinity" + b"]" * 900, b"\xff", b"", b"{", b"{}x"]
)
def test_what_is_no_json_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        parse_json(text)


def _tensors(path: Path) -> object:
    write_tensors(path, path.read_bytes(), b"")
    return read_tensors(path)


READERS: dict[str, Callable[[Path], object]] = {
    **{name: test_irregular_files.READERS[name] for name in ("JSON", "step size")},
    "tensors": _tensors,
    "capacity": lambda path: read_capacity(str(path)),
}


@pytest.mark.parametrize("number", BEYOND)
@pytest.mark.parametrize("reader", READERS)
def test_every_file_has_one_reader_of_numbers(tmp_path: Path, reader: str, number: str) -> None:
    path = tmp_path / "file"
    path.write_text(f'{{"format": 1, "choices": [{{"rates": [[1, {number}]]}}]}}')
    with pytest.raises((FastqpsError, ValueError), match="no number that a float holds") as refused:
        READERS[reader](path)
    assert len(str(refused.value)) < 500


def test_toml_files_have_it_too(tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    path.write_text("a = inf")
    for read in (lambda: sources.load({}, {}, str(path)), lambda: load_profile(str(path))):
        with pytest.raises(FastqpsError, match="no number that a float holds"):
            read()


@pytest.fixture
def bounded() -> Iterator[None]:
    """Memory may grow by ``MEMORY_BYTES`` and no more."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


FAST = ("bert", "albert", "modernbert", "gemma3_text")


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("family", [*FAST, *nightly(*[name for name in FAMILIES if name not in FAST])])
def test_no_value_of_a_configuration_is_believed(tmp_path: Path, family: str) -> None:
    """Each key of config.json has each value: the card is refused by name, or is as large as that of the weights."""
    write_checkpoint(tmp_path, family, "embed" if family == "t5" else "classify")
    file = tmp_path / "config.json"
    said, good, wrong = json.loads(file.read_text()), load_card(str(tmp_path)), {}
    for key in sorted({*said, "num_labels", "id2label", "rope_theta", "rope_parameters"}):
        for value in VALUES:
            file.write_text(json.dumps(said | {key: value}))
            if fault := fault_of(tmp_path, good):
                wrong[f"{key} {str(value)[:20]}"] = fault
    assert not wrong, "\n".join(f"{each}: {fault}" for each, fault in wrong.items())


def fault_of(folder: Path, good: ModelCard) -> str:
    """Anything but a card within its limits, or a ``ModelError``."""
    try:
        card = load_card(str(folder))
    except ModelError:
        return ""
    except Exception as error:
        return f"{error!r}"[:200]
    beyond = [name for name in IDS if not -1 <= getattr(card, name) < 1 << 31]
    larger = [name for name in SIZED if getattr(card, name) > getattr(good, name)]
    return f"beyond 32 bits: {beyond}, larger than the weights: {larger}" if beyond or larger else ""


@pytest.mark.parametrize("half", ["\ud83d", "\udc00"])
def test_half_of_a_surrogate_pair_is_no_text(tmp_path: Path, half: str) -> None:
    """JSON can have it. No answer and no process can have it, be it in a label or in a warning about an unknown key."""
    write_checkpoint(tmp_path, "bert", "classify")
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    for broken in ({"id2label": {"0": half, "1": "y"}}, {half: 1}):
        file.write_text(json.dumps(config | broken))
        with pytest.raises(ModelError, match="surrogates not allowed"):
            load_card(str(tmp_path))


@pytest.mark.usefixtures("bounded")
def test_labels_have_a_bound(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert", "classify")
    file = tmp_path / "config.json"
    said = json.loads(file.read_text())
    file.write_text(json.dumps(said | {"id2label": {"0": "x" * 300_000, "1": "y"}}))
    with pytest.raises(ModelError, match=r"make a card of 30\d\d\d\d bytes; at most 262144 are supported"):
        load_card(str(tmp_path))
    for labels in (10**5, 10**9):
        file.write_text(json.dumps({**said, "id2label": None, "num_labels": labels}))
        with pytest.raises(ModelError, match=f"says num_labels {labels}, which is no possible size: 1 to 65536 is"):
            load_card(str(tmp_path))


@pytest.mark.parametrize("key", ["num_hidden_layers", "num_key_value_heads", "head_dim", "vocab_size", "hidden_size"])
def test_a_generator_is_as_large_as_its_weights(tmp_path: Path, key: str) -> None:
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 8}
    sizes |= {"num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 1024}
    tr.LlamaForCausalLM(tr.LlamaConfig(**sizes)).save_pretrained(tmp_path)
    load_card(str(tmp_path))
    file = tmp_path / "config.json"
    said = json.loads(file.read_text())
    file.write_text(json.dumps(said | {key: 2 * said[key]}))
    with pytest.raises(ModelError, match=r"config\.json says \d+ (words|rows of keys) of \d+ .*: \w+ tensors? ha"):
        load_card(str(tmp_path))


def test_a_projection_is_as_large_as_its_weights(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert", "embed")
    write_sentence_modules(tmp_path, dense=True)
    assert load_card(str(tmp_path)).dimensions == 24
    file = tmp_path / "2_Dense/config.json"
    for number, refusal in (
        (64, "says 64 outputs of 2_Dense of 32 numbers"),
        (1 << 40, "no possible size"),
        ("16", "no possible size"),
    ):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"out_features": number}))
        with pytest.raises(ModelError, match=refusal):
            load_card(str(tmp_path))


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("layers", [4097, 3_000_000, 10**9])
def test_layers_have_a_bound(tmp_path: Path, layers: int) -> None:
    for family in ("bert", "albert", "llama", "qwen2", "gemma3_text"):
        folder = tmp_path / family
        write_checkpoint(folder, family, "classify")
        file = folder / "config.json"
        said = json.loads(file.read_text()) | {"num_hidden_layers": layers, "layer_types": None}
        file.write_text(json.dumps(said))
        with pytest.raises(ModelError, match=f"says num_hidden_layers {layers}, which is no possible size"):
            load_card(str(folder))
