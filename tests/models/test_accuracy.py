"""``fastqps bench accuracy``: its figures on answers that are written here, and the command on small models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import write_checkpoint
from decoders import write_byte_tokenizer, write_decoder

from fastqps.api.prediction import Generation
from fastqps.bench import accuracy
from fastqps.bench.modes.accuracy import texts_min
from fastqps.cli import main

pytestmark = pytest.mark.compute


def vector(*values: float) -> Any:
    return np.array(values, np.float32)


def test_cosines() -> None:
    before = [vector(1, 0), vector(2, 0), vector(0, 0), vector(1, 1)]
    after = [vector(3, 0), vector(1, 1), vector(1, 0), vector(float("nan"), 1)]
    found = accuracy.of_embeddings(before, after)
    assert found["cosine_worst"] == -1.0
    assert found["cosine_mean"] == pytest.approx((1 + 0.5**0.5 + 0 - 1) / 4)


def test_labels() -> None:
    before = [[("a", 0.9), ("b", 0.1)], [("b", 0.6), ("a", 0.4)]]
    after = [[("a", 0.7), ("b", 0.3)], [("a", 0.5), ("b", 0.5)]]
    found = accuracy.of_labels(before, after)
    assert found["label_flips"] == 0.5
    assert found["score_error_mean"] == pytest.approx((0.2 + 0.2 + 0.1 + 0.1) / 4)
    assert found["score_error_worst"] == pytest.approx(0.2)


def made(text: str, ids: list[int], logprobs: list[float]) -> Generation:
    return Generation(text, ids, "stop", logprobs)


def test_generations() -> None:
    before = [
        made("right", [1, 2, 3, 4], [-0.1, -0.2, -0.3, -0.4]),
        made("wrong", [5, 6], [-1.0, -1.0]),
        made("other", [7, 8, 9], [0.0, 0.0, 0.0]),
    ]
    after = [
        made("right", [1, 2, 3, 4], [-0.1, -0.2, -0.3, -0.6]),
        made("right", [5], [-1.5]),  # it ends before the other: the second token differs
        made("worse", [0, 8, 9], [-9.0, -9.0, -9.0]),  # what follows the first difference says nothing
    ]
    found = accuracy.of_generations(before, after, ["right", "right", "other"])
    assert found["answers_same"] == pytest.approx(1 / 3)
    assert found["token_match"] == pytest.approx(5 / 9)
    assert found["first_divergence"] == 1.5
    assert found["logprob_error_mean"] == pytest.approx((0.2 + 0.5) / 5)
    assert found["logprob_error_worst"] == pytest.approx(0.5)
    assert found["exact_before"] == found["exact_after"] == pytest.approx(2 / 3)
    assert found["exact_loss"] == 0


def test_equal_generations_have_no_place_where_they_part() -> None:
    answers = [made("x", [1], [-0.5])]
    found = accuracy.of_generations(answers, answers)
    assert "first_divergence" not in found and "exact_loss" not in found
    assert (found["answers_same"], found["logprob_error_worst"]) == (1, 0)


@pytest.mark.parametrize(
    ("task", "key", "value", "limit", "kept"),
    [
        ("embed", "cosine_worst", 0.98, 0.98, True),
        ("embed", "cosine_worst", 0.979, 0.98, False),
        ("generate", "exact_loss", 0.01, 0.01, True),
        ("generate", "exact_loss", 0.011, 0.01, False),
    ],
)
def test_limits(task: str, key: str, value: float, limit: float, kept: bool) -> None:
    assert accuracy.holds(accuracy.KINDS[task][key], value, limit) is kept


# ---- the command


def run(model: Path, *flags: str) -> tuple[int, Any, str]:
    """(exit code, report.json, report.html)"""
    output = model.parent / "out"
    code = main(["bench", "accuracy", "--model", str(model), "--output", str(output), "--count", "20", *flags])
    return code, json.loads((output / "report.json").read_text()), (output / "report.html").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small models, by name."""
    found = tmp_path_factory.mktemp("accuracy")
    write_checkpoint(found / "encoder", "bert", num_hidden_layers=4)
    write_checkpoint(found / "classifier", "bert", "classify", num_hidden_layers=4, num_labels=3)
    write_decoder(found / "decoder", num_hidden_layers=4, vocab_size=258)
    write_byte_tokenizer(found / "decoder")
    return found


def test_an_encoder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, html = run(folder / "encoder", "--min-cosine-mean", "0.9", "--min-cosine-worst", "0.9")
    assert (code, report["verdict"], report["mode"]) == (0, "VALID", "accuracy")
    assert report["target"]["settings"] == {"dtype": "auto", "quantization": "fp8"}
    mean, worst = report["accuracy"]["figures"]
    assert (mean["key"], worst["key"], mean["limit"], mean["holds"]) == ("cosine_mean", "cosine_worst", 0.9, True)
    assert 0.9 < worst["value"] <= mean["value"] < 0.999999, "this was not FP8"
    assert 'id="accuracy-table"' in html and "cosine of embeddings, worst" in html
    assert "cosine of embeddings, mean 0.9" in capsys.readouterr().out.splitlines()[-1]


def test_a_limit_that_is_not_kept_is_exit_code_8(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, html = run(folder / "encoder", "--min-cosine-mean", "1")
    assert (code, report["verdict"]) == (8, "SLO_NOT_MET")
    assert [row["holds"] for row in report["accuracy"]["figures"]] == [False, True]
    assert "&lt; 1" in html and "< 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("key", "limit", "texts"),
    [
        ("label_flips", 0.01, 100),
        ("label_flips", 0.0, 0),
        ("answers_same", 0.999, 1000),
        ("answers_same", 1.0, 0),
        ("score_error_worst", 0.01, 0),
        ("label_flips", None, 0),
    ],
)
def test_the_limit_of_a_share_takes_texts(key: str, limit: float | None, texts: int) -> None:
    kind = next(kinds[key] for kinds in accuracy.KINDS.values() if key in kinds)
    assert texts_min({"limit": limit, "share": kind.share, "good": kind.good}) == texts


def test_too_few_texts_decide_no_share(folder: Path) -> None:
    code, report, _ = run(folder / "classifier", "--max-label-flips", "0.001")
    if all(row["holds"] for row in report["accuracy"]["figures"]):
        assert (code, report["verdict"]) == (9, "INCONCLUSIVE")
    else:
        assert (code, report["verdict"]) == (8, "SLO_NOT_MET")
    assert "20 texts cannot tell whether the limit is kept; it takes 1,000" in report["notes"][0]


def test_a_classifier(folder: Path) -> None:
    code, report, _ = run(folder / "classifier", "--max-score-error-worst", "0.5")
    assert code == 0
    found = {row["key"]: row["value"] for row in report["accuracy"]["figures"]}
    assert set(found) == {"label_flips", "score_error_mean", "score_error_worst"}
    assert 0 < found["score_error_mean"] <= found["score_error_worst"]


def test_a_decoder_and_the_right_answers(folder: Path) -> None:
    texts = folder / "texts.tsv"
    texts.write_text("one two\tthree\n\nfour\tfive\n")
    code, report, _ = run(folder / "decoder", "--texts", str(texts), "--max-tokens", "6", "--max-exact-loss", "0")
    assert code == 0
    assert report["accuracy"]["texts"] == 2
    found = {row["key"]: row["value"] for row in report["accuracy"]["figures"]}
    assert found["exact_before"] == found["exact_after"] == found["exact_loss"] == 0
    assert found["logprob_error_worst"] > 0, "this was not FP8"
    assert 0 < found["token_match"] <= 1


def test_pairs_of_an_encoder_are_two_texts(folder: Path) -> None:
    texts = folder / "pairs.tsv"
    texts.write_text("a\tb\n")
    code = main(
        [
            "bench",
            "accuracy",
            "--model",
            str(folder / "encoder"),
            "--texts",
            str(texts),
            "--output",
            str(folder / "none"),
        ]
    )
    assert code == 4  # it has no tokenizer.json


@pytest.mark.parametrize(
    ("model", "flags", "code", "said"),
    [
        ("encoder", ["--min-token-match", "1"], 2, "--min-token-match: a model to embed has no such figure"),
        ("decoder", ["--max-exact-loss", "0", "--max-tokens", "6"], 2, "it needs --texts with a right answer"),
        ("encoder", ["--device", "null"], 2, "computes nothing"),
        ("encoder", ["--count", "0"], 2, "--count 0"),
        ("encoder", ["--dtype", "int8"], 2, "--dtype 'int8' is not one of"),
        ("encoder", ["--texts", "/nowhere"], 2, "--texts: cannot read /nowhere"),
        ("encoder", ["--texts", "{uneven}"], 2, "in all of them one tab, or in none"),
        ("nothing", [], 4, "no model"),
    ],
)
def test_what_cannot_be(
    model: str, flags: list[str], code: int, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "uneven").write_text("a\tb\nc\n")
    flags = [flag.format(uneven=folder / "uneven") for flag in flags]
    name = str(folder / model)
    assert main(["bench", "accuracy", "--model", name, "--output", str(folder / "none"), *flags]) == code
    assert said in capsys.readouterr().err
    assert not (folder / "none").exists()
