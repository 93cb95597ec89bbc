"""A model in memory is its own: what happens to its files afterwards changes nothing."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import static_models
from checkpoints import CLASSIFIERS, FAMILIES, write_checkpoint
from decoders import write_decoder
from nightly import nightly

from fastqps.devices import make_runner
from fastqps.models import load_card
from fastqps.models.files.tensors import read_tensors
from fastqps.runners.tensor_values import read_values, share_values

pytestmark = pytest.mark.compute
FAST = ("bert", "modernbert", "t5", "qwen3")
WRITERS: dict[str, Callable[[Path], object]] = {
    family: lambda path, family=family: write_checkpoint(path, family, "classify" if family in CLASSIFIERS else "embed")  # type: ignore[misc]
    for family in FAMILIES
}
WRITERS |= {"decoder": write_decoder, "static": static_models.model2vec}


@pytest.mark.parametrize("quantization", ["none", *nightly("int8", "fp8")])
@pytest.mark.parametrize("kind", [*FAST, "decoder", "static", *nightly(*[f for f in FAMILIES if f not in FAST])])
def test_no_file_stays_mapped(tmp_path: Path, kind: str, quantization: str) -> None:
    """Whoever overwrites or shortens a mapped file changes the answers of who maps it, or kills it."""
    if quantization != "none" and kind in ("static", "decoder"):
        pytest.skip("not quantised on a CPU")
    WRITERS[kind](tmp_path)
    runner = make_runner(
        "cpu", load_card(str(tmp_path), max_output_tokens=16), 4, 128, dtype="auto", quantization=quantization
    )
    gc.collect()
    assert "model.safetensors" not in Path("/proc/self/maps").read_text()
    for file in tmp_path.glob("*.safetensors"):
        os.truncate(file, 0)
    runner.warm_up()  # all of the model is computed with


def test_processes_share_a_table(tmp_path: Path) -> None:
    """The second one finds what the first one wrote, though the file is another by then; one that is not whole, or of
    wrong files, is written again."""
    static_models.model2vec(tmp_path)
    file = tmp_path / "model.safetensors"
    tensor = read_tensors(file)["embeddings"]
    wanted, fd = read_values(tensor).copy(), os.memfd_create("table")
    content = file.read_bytes()
    file.write_bytes(bytes(len(content)))

    def refuse() -> None:
        raise OSError("its files have changed")

    with pytest.raises(OSError, match="changed"):
        share_values(tensor, fd, refuse)
    file.write_bytes(content)
    first = share_values(tensor, fd, lambda: None)
    file.write_bytes(bytes(len(content)))
    second = share_values(tensor, fd, refuse)
    os.close(fd)
    for found in (first, second):
        assert np.array_equal(found, wanted) and not found.flags.writeable
