"""Zero-shot classification by entailment, against transformers' pipeline."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import transformers as tr
from tokenized_classifiers import classifier_at

from fastqps.api import rpc, zero_shot
from fastqps.api.prediction import Label, Prediction
from fastqps.engine.engine import Engine

pytestmark = pytest.mark.compute

TEXTS = ["Rates rose again.", "The team won the cup.", "a"]
LABELS = ["politics", "sports", "a longer label, with a comma"]


@pytest.mark.parametrize("names", [("contradiction", "neutral", "entailment"), ("ENTAILMENT", "not_entailment")])
@pytest.mark.parametrize("multi_label", [False, True])
def test_scores_equal_the_pipeline_of_transformers(tmp_path: Path, names: tuple[str, ...], multi_label: bool) -> None:
    by_id = {str(i): name for i, name in enumerate(names)}
    folder = classifier_at(tmp_path, len(names), id2label=by_id, label2id={name: int(i) for i, name in by_id.items()})
    engine = Engine(folder, dtype="float32")
    tokenizer = tr.AutoTokenizer.from_pretrained(folder, model_max_length=64)
    pipeline = tr.pipeline("zero-shot-classification", folder, tokenizer=tokenizer, device="cpu")
    for labels in (LABELS, LABELS[:1]):
        got = engine.zero_shot(TEXTS, labels, multi_label=multi_label, hypothesis="It is about {}!")
        for found, text in zip(got, TEXTS, strict=True):
            wanted = pipeline([text], labels, multi_label=multi_label, hypothesis_template="It is about {}!")[0]
            assert [label.name for label in found] == wanted["labels"]
            assert [label.score for label in found] == pytest.approx(wanted["scores"], abs=1e-5)
            assert all(labels[label.index] == label.name for label in found)
    assert engine.zero_shot([], LABELS) == []


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("multi_label", [False, True])
def test_truncate_cuts_the_text_alone(tmp_path: Path, multi_label: bool, side: str) -> None:
    """Labels that differ at their ends keep their own scores, however long they are."""
    names = {"0": "contradiction", "1": "neutral", "2": "entailment"}
    folder = classifier_at(tmp_path, 3, id2label=names, label2id={name: int(i) for i, name in names.items()})
    config = {"tokenizer_class": "BertTokenizer", "truncation_side": side, "model_max_length": 64}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    engine, pipeline = Engine(folder, dtype="float32"), tr.pipeline("zero-shot-classification", folder, device="cpu")
    texts = ["Rates rose again today. " * 20, "The team won.", "a b c d e f g h " * 3]
    labels = [f"a story about {'money and ' * 3} what {who} do" for who in ("banks", "courts")]
    for text, found in zip(texts, engine.zero_shot(texts, labels, multi_label=multi_label, truncate=True), strict=True):
        wanted = pipeline(text, labels, multi_label=multi_label)
        scores = dict(zip(wanted["labels"], wanted["scores"], strict=True))
        assert {label.name: label.score for label in found} == pytest.approx(scores, abs=1e-5)
        assert len(set(scores.values())) == 2, "labels without a difference say little"
    with pytest.raises(ValueError, match="item 0: its second text leaves no room for the first"):
        engine.zero_shot(["a text"], ["b " * 80], truncate=True)


def test_what_cannot_be_asked(tmp_path: Path) -> None:
    engine = Engine(classifier_at(tmp_path, 2))
    with pytest.raises(ValueError, match="LABEL_0, LABEL_1, and none of them begins with entail"):
        engine.zero_shot(TEXTS, LABELS)
    with pytest.raises(ValueError, match="does not classify texts: its task is embed"):
        Engine("minilm").zero_shot(TEXTS, LABELS)


def test_a_client_reads_a_servers_labels_in_any_order() -> None:
    names, logits = (
        ("contradiction", "neutral", "entailment"),
        np.random.default_rng(0).normal(size=(6, 3)).astype("f4"),
    )
    made = [
        Prediction(0, labels=[Label(names[i], float(row[i]), i) for i in np.argsort(-row).tolist()]) for row in logits
    ]
    assert rpc.zero_shot_or_raise([*made], LABELS, False) == zero_shot.answers(logits, LABELS, 2, False)
    assert zero_shot.pairs(["a", "b"], ["x"], "{}?") == [("a", "x?"), ("b", "x?")]
    with pytest.raises(TypeError, match="a list of texts and a list of labels"):
        zero_shot.pairs("a", ["x"], "{}")
    with pytest.raises(ValueError, match=r"has no \{\} for the label"):
        zero_shot.pairs(["a"], ["x"], "about")
    with pytest.raises(ValueError, match="labels: none"):
        zero_shot.pairs(["a"], [], "{}")
