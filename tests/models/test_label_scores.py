"""Labels that are tokens of a decoder: their scores are softmax of transformers' logits behind the same ids."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers as tk
import torch
import transformers as tr
from checkpoints import write_checkpoint, write_sentence_modules
from nightly import nightly_but
from rerankers import (
    CHAT_TEMPLATE,
    CHATML,
    CONTEXT,
    INSTRUCTION,
    PAIRS,
    ZERO_TEMPLATE,
    bge_ids,
    bge_scores,
    card_ids,
    card_scores,
    write_bge,
    write_gemma_tokens,
    write_logit_score,
    write_qwen,
)
from sentence_files import MODEL_FILE, add
from sentence_transformers import CrossEncoder

from fastqps import Engine
from fastqps.models import ModelCard, ModelError, load_card
from fastqps.models.card_tokenizer import load_tokenizer

pytestmark = pytest.mark.compute

KINDS = ["llama-gqa-tied", "qwen2", "qwen3", "mistral", "gemma", "gemma3_text", "smollm3", "phi3"]
TEXTS = ["a film that I liked", "été 中文 👍\n", "", " the end ", "word " * 400]
SIGMOID, IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"
QUESTION = "Review: {{ text }}{{ query }}\n{% if document is defined %}Answer: {{ document }}\n{% endif %}It was"


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("qwen")
    write_qwen(path)
    return path


def ids_of(card: ModelCard, item: str | tuple[str, str], prompt: str = "") -> list[int]:
    tokenizer = load_tokenizer(card)
    assert tokenizer and tokenizer.native
    return tokenizer.encode_items([card.worded(item, prompt)])[0].ids


def softmax(path: Path, ids: list[int], tokens: list[int]) -> np.ndarray:
    model = tr.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0, -1, tokens].softmax(0).numpy()


def by_label(card: ModelCard, scores: Any) -> np.ndarray:
    found = dict(scores)
    return np.array([found[name] for name in card.labels])


def test_the_example_of_qwen3_reranker_s_card(qwen: Path) -> None:
    """Its ids, those of a cut document too, and its scores; their order is that of a ranking."""
    engine = Engine(str(qwen), dtype="float32", labels=["yes", "no"], template="qwen3-reranker")
    wanted = card_ids(qwen, PAIRS)
    assert [ids_of(engine.card, pair) for pair in PAIRS] == wanted
    assert len(wanted[-1]) == CONTEXT, "the last one is cut"
    found = [dict(scores)["yes"] for scores in engine.predict(PAIRS, truncate=True)]
    np.testing.assert_allclose(found, card_scores(qwen, wanted), atol=1e-4)
    with pytest.raises(ValueError, match=r"item 0: the template of .* has no place for a text; give a pair of texts"):
        engine.predict(["a text"])


def test_the_example_of_bge_reranker_s_card(tmp_path: Path) -> None:
    """Its ids, those of a cut passage too, its logits, and their sigmoid, in the order of a ranking."""
    write_bge(tmp_path)
    engine = Engine(str(tmp_path), dtype="float32", labels=["Yes"], template="bge-reranker-v2-gemma")
    pairs = [*PAIRS, ("what is panda?", "hi"), ("what is panda?", "The giant panda is a bear.\n\n")]
    wanted = bge_ids(tmp_path, pairs)
    assert [ids_of(engine.card, pair) for pair in pairs] == wanted
    assert max(map(len, wanted)) == CONTEXT, "one is cut"
    logits = np.array(bge_scores(tmp_path, wanted))
    for raw, scores in ((True, logits), (False, 1 / (1 + np.exp(-logits)))):
        found = [each[0].score for each in engine.classify(pairs, truncate=True, raw_scores=raw)]
        np.testing.assert_allclose(found, scores, atol=1e-4)
        assert list(np.argsort(found)) == list(np.argsort(logits))


@pytest.mark.parametrize(
    ("kind", "tied"),
    nightly_but([*((kind, kind == "gemma") for kind in KINDS), ("qwen3", True)], product(KINDS, (True, False))),
)
def test_many_labels_of_every_family(kind: str, tied: bool, tmp_path: Path) -> None:
    write_qwen(tmp_path, CHATML, kind=kind, tie_word_embeddings=tied)
    names = ["yes", "no", "the", "of", "and", "to", "in", "is"]
    engine = Engine(str(tmp_path), dtype="float32", labels=names)
    tokenizer = tr.AutoTokenizer.from_pretrained(tmp_path)
    for text, scores in zip(TEXTS, engine.predict(TEXTS, truncate=True), strict=True):
        said = [{"role": "user", "content": text}]
        ids = tokenizer.apply_chat_template(said, add_generation_prompt=True)["input_ids"]
        assert ids_of(engine.card, text) == ids or len(ids) > CONTEXT
        if len(ids) <= CONTEXT:
            tokens = tokenizer.convert_tokens_to_ids(names)
            np.testing.assert_allclose(by_label(engine.card, scores), softmax(tmp_path, ids, tokens), atol=1e-4)


@pytest.mark.parametrize("trims", [" | trim", ".strip()"])
def test_a_chat_template_may_trim(trims: str, tmp_path: Path) -> None:
    write_qwen(tmp_path, CHATML.replace("each.content", f"each.content{trims}"))
    card = load_card(str(tmp_path), labels=["yes", "no"])
    tokenizer = tr.AutoTokenizer.from_pretrained(tmp_path)
    for text in ("\u2003 a\u3000\n", "\x85\x1c", " ", "été", *TEXTS[:4]):
        said = [{"role": "user", "content": text}]
        assert ids_of(card, text) == tokenizer.apply_chat_template(said, add_generation_prompt=True)["input_ids"]


def test_without_a_template_a_label_goes_on_with_a_space(qwen: Path) -> None:
    engine = Engine(str(qwen), dtype="float32", labels=["the", "of"])
    tokenizer = tr.AutoTokenizer.from_pretrained(qwen)
    assert list(engine.card.label_ids) == tokenizer.convert_tokens_to_ids(["Ġthe", "Ġof"])
    for item in ("a film", ("a film", "it was")):
        ids = tokenizer("".join(item))["input_ids"]
        found = by_label(engine.card, engine.predict([item])[0])
        np.testing.assert_allclose(found, softmax(qwen, ids, list(engine.card.label_ids)), atol=1e-4)


def test_a_reranker_that_would_generate_is_warned_of(qwen: Path) -> None:
    ranks = "its name says that it ranks: --labels and --template"
    for name in ("Qwen3-Reranker", "x"):
        assert (ranks in " ".join(load_card(str(qwen), name=name).warnings)) == (name != "x")


def test_one_label_is_a_probability_by_itself(qwen: Path) -> None:
    card = load_card(str(qwen), labels=["yes"])
    assert card.dimensions == 1 and card.activation == "sigmoid"


@pytest.mark.parametrize(
    ("template", "spaced"), [(QUESTION, True), (QUESTION + ":\n\n", False), (CHAT_TEMPLATE, False)]
)
def test_a_template_file(template: str, spaced: bool, qwen: Path, tmp_path: Path) -> None:
    """The tokens are those of the whole rendered text; a label's form follows how it ends."""
    file = tmp_path / "template.jinja"
    file.write_text(template)
    card = load_card(str(qwen), labels=["the", "of"], template=str(file))
    tokenizer = tk.Tokenizer.from_file(str(qwen / "tokenizer.json"))
    mark = "Ġ" if spaced else ""
    assert list(card.label_ids) == [tokenizer.token_to_id(f"{mark}{name}") for name in ("the", "of")]
    for pair in PAIRS[:3]:
        if template.startswith(QUESTION):
            whole = f"Review: {pair[0]}\nAnswer: {pair[1]}\nIt was" + template.removeprefix(QUESTION).removesuffix("\n")
            assert ids_of(card, pair) == tokenizer.encode(whole).ids
        assert card.version != load_card(str(qwen), labels=["the", "of"]).version


def test_tokens_of_sentencepiece(tmp_path: Path) -> None:
    """A label has the space of its tokenizer behind a word, and none behind a line."""
    write_gemma_tokens(tmp_path / "model")
    pieces = tk.Tokenizer.from_file(str(tmp_path / "model/tokenizer.json"))
    for text, mark in (("{{ text }} was", "▁"), ("{{ text }}\n\n<eos>", "")):
        (tmp_path / "t.jinja").write_text(text)
        card = load_card(str(tmp_path / "model"), labels=["the", "we"], template=str(tmp_path / "t.jinja"))
        assert [pieces.id_to_token(id) for id in card.label_ids] == [f"{mark}the", f"{mark}we"]
        assert ids_of(card, "a b") == pieces.encode(text.replace("{{ text }}", "a b"), add_special_tokens=False).ids


def write_st(path: Path, false: str | None = "no", template: str = CHAT_TEMPLATE, **model: Any) -> Path:
    write_qwen(path)
    write_logit_score(path, "yes", false, template, **model)
    return path


@pytest.mark.parametrize(
    ("false", "template", "model"),
    [
        ("no", CHAT_TEMPLATE, {}),
        ("no", CHAT_TEMPLATE, {"activation_fn": IDENTITY}),
        (None, CHAT_TEMPLATE, {"activation_fn": SIGMOID}),
        (None, ZERO_TEMPLATE, {"activation_fn": IDENTITY}),
        ("no", CHAT_TEMPLATE, {"prompts": {"web": INSTRUCTION, "none": "", "x": "Is it {{ x }}?"}}),
        ("no", CHAT_TEMPLATE, {"prompts": {"web": INSTRUCTION}, "default_prompt_name": "web"}),
    ],
)
def test_a_logit_score_is_sentence_transformers_(
    false: str | None, template: str, model: dict[str, Any], tmp_path: Path
) -> None:
    """With every prompt, cut where a document is too long, ranked alike; the files alone say it."""
    write_st(tmp_path, false, template, **model)
    add(tmp_path / "tokenizer_config.json", {"model_max_length": CONTEXT})
    theirs, engine = CrossEncoder(str(tmp_path), device="cpu"), Engine(str(tmp_path), dtype="float32")
    theirs.model.float()
    assert engine.card.pairs_only and engine.card.labels == ("yes",)
    for name in ("", *model.get("prompts", {})):
        wanted = theirs.predict(PAIRS, prompt_name=name or None)
        found = [scores[0][1] for scores in engine.predict(PAIRS, prompt_name=name, truncate=True)]
        np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=1e-4)
        assert list(np.argsort(found)) == list(np.argsort(wanted))


def test_texts_that_are_no_messages_are_joined_by_the_tokenizer(tmp_path: Path) -> None:
    write_st(tmp_path)
    own = json.loads((tmp_path / "sentence_bert_config.json").read_text())
    del own["modality_config"]["message"], own["processing_kwargs"]
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps(own))
    wanted = CrossEncoder(str(tmp_path), device="cpu").predict(PAIRS[:3])
    found = [scores[0][1] for scores in Engine(str(tmp_path), dtype="float32").predict(PAIRS[:3])]
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_a_head_of_its_own_behind_a_chat_template(tmp_path: Path) -> None:
    """A reranker that was made a …ForSequenceClassification; its pairs go through the same template."""
    write_st(tmp_path)
    vocab = tk.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).get_vocab_size()
    write_checkpoint(
        tmp_path, "qwen3", "classify", num_labels=1, vocab_size=vocab, pad_token_id=0, max_position_embeddings=CONTEXT
    )
    (tmp_path / "modules.json").write_text(
        json.dumps([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}])
    )
    own = json.loads((tmp_path / "sentence_bert_config.json").read_text())
    own |= {"transformer_task": "sequence-classification", "module_output_name": "scores"}
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps(own))
    pairs = [pair for pair in PAIRS if len(pair[1]) < 60]
    wanted = CrossEncoder(str(tmp_path), device="cpu").predict(pairs)
    engine = Engine(str(tmp_path), dtype="float32")
    np.testing.assert_allclose([scores[0][1] for scores in engine.predict(pairs)], wanted, atol=1e-4)


@pytest.mark.parametrize(
    ("labels", "template", "message"),
    [
        (["yes", "impossible words"], "", "--labels: 'impossible words' is not one token of this tokenizer"),
        (["yes", "yes"], "", "--labels: 'yes' and another label are the same token"),
        (["", ""], "", "--labels: ',' has an empty label"),
        (["yes"], "nosuch", "--template 'nosuch': neither a file nor one of .*: bge-reranker-v2-gemma, qwen3-reranker"),
        (["yes"], "{% if %}", "not a Jinja template: Expected an expression"),
        (["yes"], "no text at all", "the first text does not reach what it renders"),
        (["yes"], "{{ text | upper }}", "it changes texts such as 'what is food'; it may put"),
        (["yes"], "{{ raise_exception('never') }}", r"it cannot be rendered \(.*never\)"),
        (["yes"], "{{ text }}e", "the tokens of its end, 'e', depend on the text in front of it"),
        ([], "qwen3-reranker", "--template is for scores, and the model's task is generate"),
    ],
)
def test_refused(labels: list[str], template: str, message: str, qwen: Path, tmp_path: Path) -> None:
    if " " in template or "{" in template:
        (tmp_path / "t.jinja").write_text(template)
        template = str(tmp_path / "t.jinja")
    with pytest.raises(ModelError, match=message):
        load_card(str(qwen), labels=labels, template=template)


def test_checkpoints_without_logits_are_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "bert", "bert")
    with pytest.raises(ModelError, match="labels that are tokens are of a ForCausalLM"):
        load_card(str(tmp_path / "bert"), labels=["yes"])
    write_st(tmp_path / "st")
    with pytest.raises(ModelError, match="--labels: its files name the labels"):
        load_card(str(tmp_path / "st"), labels=["yes"])
    (tmp_path / "st/1_LogitScore/config.json").write_text('{"true_token_id": 100000}')
    with pytest.raises(ModelError, match=r"a label is token 100000, and config.json says vocab_size"):
        load_card(str(tmp_path / "st"))
    add(tmp_path / "st" / MODEL_FILE, {"model_type": "SentenceTransformer"})
    write_qwen(tmp_path / "embeds")
    write_sentence_modules(tmp_path / "embeds")
    with pytest.raises(ModelError, match=r"modules\.json"):
        load_card(str(tmp_path / "embeds"), labels=["yes"])
