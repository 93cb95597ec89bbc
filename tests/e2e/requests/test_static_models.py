"""Static models in a server: every promise of the other kinds, and memory that its dispatchers share."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import static_models
from fake_cuda import environment
from posting import Poster
from safetensors.numpy import save_file
from serving import PATIENCE_S, Server

from fastqps import Client, Engine
from fastqps.cli import main
from fastqps.models.names import packaged

CLOSE = 1e-5
PRECISIONS = {"int8": "INT8", "uint8": "UINT8", "binary": "INT8", "ubinary": "UINT8"}  # with their datatypes
RANGE = np.float32([[-128.5], [126.5]]) / np.float32(127)  # of every dimension
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
        short = client.embed(texts[:100], dimensions=8)
    from model2vec import StaticModel

    shorter = StaticModel.from_pretrained(tmp_path / "m", dimensionality=8)
    assert np.abs(short - shorter.encode(texts[:100], use_multiprocessing=False)).max() < CLOSE


def test_quantized_embeddings_are_those_of_sentence_transformers(serve: Callable[..., Server], tmp_path: Path) -> None:
    """10,000 of them, in every form in which a protocol has them."""
    from sentence_transformers.util.quantization import quantize_embeddings

    def decoded(rows: list[str], dtype: type[np.generic]) -> np.ndarray:
        return np.stack([np.frombuffer(base64.b64decode(row), dtype) for row in rows])

    static_models.model2vec(tmp_path / "m")
    server = serve(f"--model=m={tmp_path / 'm'}", "--device=cpu", "--dispatchers=1", "--frontdoors=1")
    texts, post = [text or "a" for text in static_models.texts(10_000)], Poster(server)
    with Client(server.address) as client:
        for part in (texts[at : at + 500] for at in range(0, len(texts), 500)):
            cohere = post.found("/v2/embed", texts=part, embedding_types=["base64", *PRECISIONS])["embeddings"]
            floats = decoded(cohere["base64"], np.float32)
            tensor = {"name": "text", "shape": [len(part)], "datatype": "BYTES", "data": part}
            for precision, name in PRECISIONS.items():
                wanted = quantize_embeddings(floats, precision, np.repeat(RANGE, floats.shape[1], axis=1))
                assert np.array_equal(cohere[precision], wanted), precision
                options = {"output_dtype": precision, "normalize": True}
                openai = post.found("/v1/embeddings", input=part, encoding_format="base64", **options)["data"]
                assert np.array_equal(decoded([row["embedding"] for row in openai], wanted.dtype.type), wanted)
                openai = post.found("/v1/embeddings", input=part[:9], **options)["data"]
                assert np.array_equal([row["embedding"] for row in openai], wanted[:9])
                (output,) = post.found("/v2/models/m/infer", inputs=[tensor], parameters=options)["outputs"]
                assert (output["datatype"], output["shape"]) == (name, list(wanted.shape))
                assert np.array_equal(output["data"], wanted.ravel())
                by_grpc = client.embed(part, dtype=precision, normalize=True)
                if "int8" in precision:
                    by_grpc = np.rint(by_grpc * 127) + (128 if precision == "uint8" else 0)
                assert np.array_equal(by_grpc, wanted)
    post.close()


def test_long_texts_are_cut_by_characters(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Natively and in the other threads and processes of long texts and slow tokenizers, as the package cuts them."""
    tokenizers = {"m": static_models.word_pieces(), "u": static_models.whole_words()}
    references = {name: static_models.model2vec(tmp_path / name, tokenizer=t) for name, t in tokenizers.items()}
    for name in references:
        static_models.rewrite(tmp_path / name / "config.json", max_length=4000)
    texts = ["ba de", "é" * 5000, "日本 the " * 1500, "ba de " * 4000, " " * 20_000 + "the", "the " + "é" * 90_000]
    flags = ("--device=cpu", "--slots=64", "--max-input-tokens=4000")
    server = serve(*(f"--model={name}={tmp_path / name}" for name in references), *flags)
    with Client(server.address) as client:
        for name, reference in references.items():
            wanted = reference.encode(texts, max_length=4000, use_multiprocessing=False)
            answers = list(client.predict_batch(texts, model=name, truncate=True))
            assert np.abs(np.array([answer.embedding for answer in answers]) - wanted).max() < CLOSE
            most = 4000 * reference.median_token_length
            cut = [answer.usage.truncated_at for answer in answers]
            lengths = [len(tokenizers[name].encode(text)) for text in texts]
            assert [bool(at) for at in cut] == [len(t) > most or n > 4000 for t, n in zip(texts, lengths, strict=True)]
            with pytest.raises(ValueError, match=f"more than {most} characters"):
                client.predict(" " * most + "the", model=name)


@pytest.mark.skipif(packaged("wordllama") is None, reason="needs the package wordllama")
def test_wordllama(serve: Callable[..., Server]) -> None:
    server = serve("--model=wordllama", "--device=cpu")
    texts = ["", "a laptop serves real answers", "日本語 😀", "x" * 3000]
    with Client(server.address) as client:
        assert (
            np.abs(client.embed(texts, truncate=True) - Engine("wordllama").embed(texts, truncate=True)).max() < CLOSE
        )


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


def memory_mib(pid: int) -> dict[str, float]:
    """The fields of smaps_rollup."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return {name: 1024 * int(kib) / MIB for name, kib in re.findall(r"^(\w+): +(\d+) kB", text, re.MULTILINE)}


def test_dispatchers_share_the_table(serve: Callable[..., Server], tmp_path: Path) -> None:
    static_models.model2vec(tmp_path / "m")
    save_file({"embeddings": np.ones((100 * 1024, 256), np.float32)}, tmp_path / "m/model.safetensors")  # 100 MiB
    server = serve(f"--model=m={tmp_path / 'm'}", "--device=cpu", "--dispatchers=2", "--slots=64", "--frontdoors=1")
    with Client(server.address) as client:
        client.embed(static_models.texts(50), truncate=True)
    dispatchers = [server.child(f"dispatcher {i}").pid for i in range(2)]
    for pid in dispatchers:
        used = memory_mib(pid)
        print(f"dispatcher: {used}")
        assert used["Private_Clean"] + used["Private_Dirty"] < DISPATCHER_MIB_MAX, "what one more of them adds"
        assert used["Rss"] - 100 < 2 * DISPATCHER_MIB_MAX, "the libraries' pages, which others map, too"
        mapped = Path(f"/proc/{pid}/maps").read_text()
        assert "torch" not in mapped
        assert "model.safetensors" not in mapped, "its content may change"
        tables = [line for line in mapped.splitlines() if "fastqps table" in line]
        assert tables and all(line.split()[1].startswith("r--") for line in tables), "read-only"


def test_a_start_that_cannot_be(serve: Callable[..., Server], tmp_path: Path) -> None:
    static_models.model2vec(tmp_path / "m")
    (tmp_path / "m/pipeline.skops").write_bytes(b"")
    with pytest.raises(AssertionError, match="ended with 4") as caught:
        serve(f"--model=m={tmp_path / 'm'}", "--device=cpu")
    assert "a pickle can run any code" in str(caught.value) and "Traceback" not in str(caught.value)


@pytest.mark.nightly  # tests/cuda/test_cuda_steps.py computes them, and test_share_weights.py kills over one copy
def test_on_a_gpu(serve: Callable[..., Server], tmp_path: Path) -> None:
    """A fake one, with two dispatchers over one table; one is killed."""
    reference = static_models.model2vec(tmp_path / "m", 64, np.float16, weighted=True, mapped=True)
    reference.embedding = reference.embedding.astype(np.float32)
    flags = ("--device=cuda:0", "--dispatchers=2", "--lanes=1", "--mps=off", "--share-weights=on", "--frontdoors=1")
    sizes = ("--max-batch-tokens=512", "--max-batch-items=16", "--max-input-tokens=400")
    server = serve(f"--model=m={tmp_path / 'm'}", *flags, *sizes, env=environment() | {"TMPDIR": str(tmp_path)})
    texts = [text for text in static_models.texts(100) if len(text) <= 400]
    wanted = reference.encode(texts, use_multiprocessing=False)
    with Client(server.address, retries=10, timeout_s=PATIENCE_S) as client:
        assert np.abs(client.embed(texts, truncate=True) - wanted).max() < CLOSE
        server.child("dispatcher 0").kill()
        assert np.abs(client.embed(texts, truncate=True) - wanted).max() < CLOSE


def test_predict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a server; and a model that cannot be read ends with one line and its exit code."""
    reference = static_models.model2vec(tmp_path / "m")
    assert main(["predict", "--model", str(tmp_path / "m"), "ba de fi", "the"]) == 0
    found = [json.loads(line)["embedding"] for line in capsys.readouterr().out.splitlines()]
    assert np.abs(np.array(found) - reference.encode(["ba de fi", "the"])).max() < CLOSE
    (tmp_path / "m/model.safetensors").write_bytes(b"\x80\x04pickle")
    assert main(["predict", "--model", str(tmp_path / "m"), "ba de fi"]) == 4
    said = capsys.readouterr()
    assert not said.out and "not a safetensors file" in said.err and len(said.err.splitlines()) == 1
