"""Static models in a server: every promise of the other kinds, and memory that its dispatchers share."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import static_models
from safetensors.numpy import save_file
from serving import Server, until

from fastqps import Client, Engine
from fastqps.models.names import packaged

CLOSE = 1e-5
MIB = 1 << 20
DISPATCHER_MIB_MAX = 30  # of one more dispatcher


def test_answers_are_the_packages(serve: Callable[..., Server], tmp_path: Path) -> None:
    reference = static_models.model2vec(tmp_path / "m")
    server = serve(f"--model=m={tmp_path / 'm'}", "--device=cpu", "--max-input-tokens=4096", "--dispatchers=2")
    texts = static_models.texts(2000)
    wanted = reference.encode(texts, use_multiprocessing=False)
    with Client(server.address) as client:
        found = np.concatenate([client.embed(texts[i : i + 100]) for i in range(0, len(texts), 100)])
        assert np.abs(found - wanted).max() < CLOSE
        assert not client.embed(["", "日本語", "\t"]).any()
        short = client.embed(["ba de"], dimensions=8)
    assert short.shape == (1, 8)


@pytest.mark.skipif(packaged("wordllama") is None, reason="needs the package wordllama")
def test_wordllama(serve: Callable[..., Server]) -> None:
    server = serve("--model=wordllama", "--device=cpu")
    texts = ["", "a laptop serves real answers", "日本語 😀", "x" * 3000]
    with Client(server.address) as client:
        assert (
            np.abs(client.embed(texts, truncate=True) - Engine("wordllama").embed(texts, truncate=True)).max() < CLOSE
        )


def test_a_killed_dispatcher_loses_nothing(serve: Callable[..., Server], tmp_path: Path) -> None:
    """The layers of a classifier round by the batch, in the last bits of float32: a rerun has other company."""
    static_models.classifier(tmp_path / "c")
    server = serve(f"--model=c={tmp_path / 'c'}", "--device=cpu", "--dispatchers=2")
    texts = static_models.texts(500)
    with Client(server.address, retries=10) as client:

        def scores() -> list[list[float]]:
            answers = client.predict_batch(texts, truncate=True)
            return [[label.score for label in sorted(a.labels, key=lambda label: label.index)] for a in answers]

        wanted = scores()
        for worker in ("dispatcher 0", "dispatcher 1"):
            old = server.child(worker)
            old.kill()
            np.testing.assert_allclose(scores(), wanted, rtol=0, atol=1e-6)
            server.until_filled(worker, old)


def test_another_version_is_loaded_under_load(serve: Callable[..., Server], tmp_path: Path) -> None:
    first = static_models.classifier(tmp_path / "one", seed=1)
    second = static_models.classifier(tmp_path / "two", seed=2)
    server = serve(f"--model=c={tmp_path / 'one'}", "--device=cpu", "--dispatchers=1")
    with Client(server.address) as client:
        for path, reference in (("", first), ("two", second), ("one", first)):
            if path:
                status, answer = server.reload(**{"from": str(tmp_path / path)})
                assert (status, answer["outcome"]) == (200, "reloaded"), answer
            (wanted,) = reference.predict_proba(["ba de fi"])
            found = {label.name: label.score for label in client.predict("ba de fi").labels}
            assert [found[label] for label in ("no", "perhaps", "yes")] == pytest.approx(wanted, abs=CLOSE)
    (tmp_path / "two/model.safetensors").write_bytes(b"")
    status, answer = server.reload(**{"from": str(tmp_path / "two")})
    assert status == 422 and "not a safetensors file" in answer["reason"]


def anonymous_bytes(pid: int) -> int:
    """Memory of its own: what no other process has, files that it maps left out."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    (kib,) = re.findall(r"^Anonymous: +(\d+) kB", text, re.MULTILINE)
    return 1024 * int(kib)


def test_dispatchers_share_the_table(serve: Callable[..., Server], tmp_path: Path) -> None:
    static_models.model2vec(tmp_path / "m")
    save_file({"embeddings": np.ones((100 * 1024, 256), np.float32)}, tmp_path / "m/model.safetensors")  # 100 MiB
    server = serve(f"--model=m={tmp_path / 'm'}", "--device=cpu", "--dispatchers=2", "--slots=64", "--frontdoors=1")
    with Client(server.address) as client:
        client.embed(static_models.texts(50), truncate=True)
    used = [anonymous_bytes(server.child(f"dispatcher {i}").pid) / MIB for i in range(2)]
    print(f"anonymous memory of the dispatchers: {used} MiB")
    assert max(used) < DISPATCHER_MIB_MAX


def test_a_start_that_cannot_be(serve: Callable[..., Server], tmp_path: Path) -> None:
    static_models.model2vec(tmp_path / "m")
    (tmp_path / "m/pipeline.skops").write_bytes(b"")
    with pytest.raises(AssertionError, match="a pickle can run any code"):
        serve(f"--model=m={tmp_path / 'm'}", "--device=cpu")


def test_metrics_and_limits(serve: Callable[..., Server], tmp_path: Path) -> None:
    static_models.model2vec(tmp_path / "m")
    server = serve(f"--model=m={tmp_path / 'm'}", "--device=cpu", "--max-input-tokens=16")
    with Client(server.address) as client:
        with pytest.raises(Exception, match="20 tokens, at most 16"):
            client.predict(" ".join(["ba"] * 20))
        assert client.predict(" ".join(["ba"] * 20), truncate=True).embedding is not None
        until(lambda: server.metrics()["fastqps_requests_total{OK,Predict,m}"] == 1, "it is counted")
