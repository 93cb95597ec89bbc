"""Entities against transformers' pipeline for token classification: every script, kind of tokenizer and aggregation."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any, get_args

import pytest
import transformers as tr
from token_classifiers import KINDS, texts, write_token_classifier
from tokenizer_checkpoints import STRIPPING, stripping_file

from fastqps.api.prediction import Entity
from fastqps.api.request import Aggregation
from fastqps.engine.engine import Engine
from fastqps.models import ModelError, load_card

pytestmark = pytest.mark.compute

TEXTS = int(os.environ.get("FASTQPS_ENTITY_TEXTS", "40"))  # of each kind
CLOSE = 2e-5  # of scores


def assert_same(got: list[Entity], expected: list[dict[str, Any]], where: str) -> None:
    kind = "entity" if expected and "entity" in expected[0] else "entity_group"
    assert [(e.label, e.start, e.end) for e in got] == [(e[kind], e["start"], e["end"]) for e in expected], where
    assert [e.score for e in got] == pytest.approx([float(e["score"]) for e in expected], abs=CLOSE), where


@pytest.mark.parametrize("family", KINDS)
def test_entities_equal_the_pipeline_of_transformers(tmp_path: Path, family: str) -> None:
    folder, given = write_token_classifier(tmp_path, family), texts(TEXTS)
    engine, pipeline = Engine(folder, dtype="float32"), tr.pipeline("token-classification", folder, device="cpu")
    for aggregation in get_args(Aggregation):
        got = engine.entities(given, aggregation=aggregation)
        assert sum(map(len, got)) > len(given), "so few entities that the test says little"
        for each, found in zip(given, got, strict=True):
            assert_same(found, pipeline(each, aggregation_strategy=aggregation), f"{aggregation}: {each!r}")


@pytest.mark.parametrize("native", [True, False])
def test_tokens_that_take_the_space_beside_them(tmp_path: Path, native: bool) -> None:
    folder, file = write_token_classifier(tmp_path, "bert"), stripping_file(normalized=not native)
    (tmp_path / "tokenizer.json").write_text(json.dumps(file))
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "pad_token": "[PAD]"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(kind))
    engine, pipeline = Engine(folder, dtype="float32"), tr.pipeline("token-classification", folder, device="cpu")
    r = random.Random(23)
    given = [each + "".join(r.choices([*STRIPPING, "ada", " ", "\u3000", "\n"], k=12)) for each in texts(TEXTS)]
    for aggregation in get_args(Aggregation):
        for each, found in zip(given, engine.entities(given, aggregation=aggregation), strict=True):
            assert_same(found, pipeline(each, aggregation_strategy=aggregation), f"{aggregation}: {each!r}")


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    engine = Engine(write_token_classifier(tmp_path, "bert"))
    for wrong in ("one text", [("a", "b")], [[1, 2]]):
        with pytest.raises(ValueError, match="takes a list of texts"):
            engine.predict(wrong)
    with pytest.raises(ValueError, match="aggregation: 'all', must be one of none, simple, first, average, max"):
        engine.entities(["a"], aggregation="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="makes no embeddings"):
        engine.embed(["a"])
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"needs a tokenizer\.json"):
        load_card(str(tmp_path))
