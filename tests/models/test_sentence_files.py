"""What sentence-transformers' files say is honoured as sentence-transformers does it, or refused by name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_files import BASES, SPELLINGS, TEXTS, add, write, write_base, write_dense, write_modules
from sentence_transformers import SentenceTransformer

from fastqps.engine.engine import Engine
from fastqps.models import ModelError, load_card

pytestmark = pytest.mark.compute

POOLED = [(SPELLINGS["Transformer"][0], ""), (SPELLINGS["Pooling"][0], "1_Pooling")]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base")
    write_base(path)
    return path


@pytest.fixture
def model(base: Path, tmp_path: Path) -> Path:
    """A checkpoint that pools by the mean; tests add to it."""
    path = tmp_path / "model"
    shutil.copytree(base, path)
    write_modules(path, POOLED)
    write(path / "1_Pooling/config.json", {"word_embedding_dimension": 32})
    return path


def check_equal(path: Path) -> None:
    """Every text's vector, cut where it is too long, as sentence-transformers gives it."""
    theirs = SentenceTransformer(str(path), device="cpu").encode(TEXTS)
    found = Engine(str(path), dtype="float32").embed(TEXTS, truncate=True)
    np.testing.assert_allclose(found, theirs, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("spelling", range(4))
def test_published_spellings(model: Path, spelling: int) -> None:
    kinds = {"Transformer": ".", "Pooling": "1_Pooling/", "Dropout": "d", "Dense": "./2_Dense", "Normalize": "3"}
    write_modules(model, [(SPELLINGS[kind][spelling], folder) for kind, folder in kinds.items()])
    write_dense(model / "2_Dense")
    write(model / "d/config.json", {"dropout": 0.9})
    check_equal(model)


@pytest.mark.parametrize(
    ("file", "value"),
    [
        ("sentence_bert_config.json", {"max_seq_length": 7}),
        ("sentence_roberta_config.json", {"max_seq_length": 5}),
        ("sentence_xlm-roberta_config.json", {"max_seq_length": 6}),
        ("sentence_bert_config.json", {"max_seq_length": 9, "tokenizer_args": {"model_max_length": 5}}),
        ("sentence_bert_config.json", {"processor_kwargs": {"model_max_length": 5}}),
        ("sentence_bert_config.json", {"tokenizer_args": {"model_max_length": 5}, "processor_kwargs": {"padding": 1}}),
        ("sentence_bert_config.json", {"tokenizer_args": {}, "processor_kwargs": {"model_max_length": 5}}),
        ("config_sentence_transformers.json", {"prompts": {"p": ""}, "default_prompt_name": "p"}),
        ("config_sentence_transformers.json", {"prompts": {"p": None}, "default_prompt_name": "p"}),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}),
        ("config_sentence_transformers.json", {"prompts": {"q": "d c "}, "default_prompt_name": "q"}),
        ("config_sentence_transformers.json", {"prompts": {"document": "a"}, "default_prompt_name": "document"}),
        ("1_Pooling/config.json", {"embedding_dimension": 32, "pooling_mode": "lasttoken"}),
        ("1_Pooling/config.json", {"embedding_dimension": 32, "pooling_mode": ["max"], "include_prompt": False}),
    ],
)
def test_honoured(model: Path, file: str, value: dict[str, Any]) -> None:
    write(model / file, value)
    check_equal(model)


PROMPTS = {"query": "c d ", "document": "", "passage": "b", "all": "d a d a d a d a d a d a "}


@pytest.mark.parametrize("default", [None, "passage"])
def test_named_prompts(model: Path, default: str | None) -> None:
    write(model / "config_sentence_transformers.json", {"prompts": PROMPTS, "default_prompt_name": default})
    theirs, engine = SentenceTransformer(str(model), device="cpu"), Engine(str(model), dtype="float32")
    assert dict(engine.card.prompts) == PROMPTS and engine.card.default_prompt == (default or "")
    for name in PROMPTS:
        found = engine.embed(TEXTS, prompt_name=name, truncate=True)
        np.testing.assert_allclose(found, theirs.encode(TEXTS, prompt_name=name), atol=2e-5, rtol=1e-4)
    ids = [[3, 4, 5]]
    assert np.array_equal(engine.embed(ids), engine.predict(ids)), "token ids are taken as they are"
    with pytest.raises(ValueError, match=r"prompt_name: 'other', but the model .* has 'query', 'document', 'passage',"):
        engine.predict(TEXTS, prompt_name="other")
    with pytest.raises(ValueError, match="item 0: prompt_name 'query' with token ids"):
        engine.embed(ids, prompt_name="query")


def test_prompts_that_are_not_pooled(model: Path) -> None:
    """They have no names here, and no text gets one of itself."""
    write(model / "1_Pooling/config.json", {"embedding_dimension": 32, "include_prompt": False})
    write(model / "config_sentence_transformers.json", {"prompts": PROMPTS, "default_prompt_name": "document"})
    check_equal(model)
    card = load_card(str(model))
    assert dict(card.prompts) == {"document": ""}
    assert any("The prompts 'query', 'passage', 'all' cannot be named" in warning for warning in card.warnings)
    add(model / "config_sentence_transformers.json", {"default_prompt_name": "query"})
    refused = (
        "default_prompt_name 'query' with include_prompt false .* without a prompt, which differ from the model's own"
    )
    with pytest.raises(ModelError, match=refused):
        load_card(str(model))
    own = SentenceTransformer(str(model), device="cpu")
    add(model / "config_sentence_transformers.json", {"default_prompt_name": None})
    found = Engine(str(model), dtype="float32").embed(TEXTS, truncate=True)
    np.testing.assert_allclose(found, own.encode(TEXTS, prompt=""), atol=2e-5, rtol=1e-4)
    assert np.abs(found - own.encode(TEXTS)).max() > 0.01


@pytest.mark.parametrize("own", [{"max_seq_length": 12}, {"processor_kwargs": {"model_max_length": 12}}])
def test_a_limit_replaces_the_tokenizers(model: Path, own: dict[str, Any]) -> None:
    add(model / "tokenizer_config.json", {"model_max_length": 8})
    assert load_card(str(model)).max_input_tokens == 8
    write(model / "sentence_bert_config.json", own)
    assert load_card(str(model)).max_input_tokens == 12
    check_equal(model)


def test_a_transformer_in_a_folder_of_its_own(base: Path, tmp_path: Path) -> None:
    """As the first releases saved it. The tokenizer beside the weights counts, not one in the checkpoint's root."""
    model = tmp_path / "model"
    shutil.copytree(base, model / "0_Transformer")
    write(model / "0_Transformer/sentence_bert_config.json", {"max_seq_length": 6})
    write_modules(model, [(SPELLINGS["Transformer"][0], "0_Transformer"), POOLED[1]])
    write(model / "1_Pooling/config.json", {"word_embedding_dimension": 32})
    check_equal(model)
    (model / "0_Transformer/tokenizer.json").rename(model / "tokenizer.json")
    card = load_card(str(model))
    assert card.tokenizer == "" and "no tokenizer.json" in " ".join(card.warnings)


LOWER = {"type": "Lowercase"}
BERT_LOWER = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
BERT_LOWER |= {"lowercase": True}
REPLACE = {"type": "Replace", "pattern": {"String": "A"}, "content": "d"}


def _sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(steps)}


@pytest.mark.parametrize(
    ("normalizer", "served"),
    [
        (LOWER, True),
        (BERT_LOWER, True),
        (_sequence(REPLACE, LOWER), True),  # sentence-transformers adds nothing here, and so d replaces A
        (_sequence(BERT_LOWER, REPLACE), True),
        (_sequence(REPLACE, BERT_LOWER), False),  # it puts a Lowercase in front of these: no A is left
        (_sequence(REPLACE, _sequence(LOWER)), False),
        (BERT_LOWER | {"lowercase": False}, False),
        (_sequence(), False),
        (None, False),
    ],
)
def test_do_lower_case(model: Path, normalizer: dict[str, Any] | None, served: bool) -> None:
    write(model / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"})
    check_lower_case(model, normalizer, served)


@pytest.mark.parametrize("lower", [True, False])
def test_do_lower_case_of_a_class_that_builds_the_normalizer(model: Path, lower: bool) -> None:
    """What tokenizer.json says has no effect."""
    add(model / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": lower})
    check_lower_case(model, BERT_LOWER | {"lowercase": not lower}, served=lower)


def check_lower_case(model: Path, normalizer: dict[str, Any] | None, served: bool) -> None:
    add(model / "tokenizer.json", {"normalizer": normalizer})
    write(model / "sentence_bert_config.json", {"do_lower_case": True})
    if not served:
        with pytest.raises(ModelError, match="do_lower_case"):
            load_card(str(model))
        return
    texts = ["A b C d a", "C", "d C b A"]
    theirs = SentenceTransformer(str(model), device="cpu").encode(texts)
    np.testing.assert_allclose(Engine(str(model), dtype="float32").embed(texts), theirs, atol=2e-5, rtol=1e-4)


def test_the_first_file_that_says_anything_counts(model: Path) -> None:
    write(model / "sentence_bert_config.json", {})
    write(model / "sentence_roberta_config.json", {"max_seq_length": 5})
    write(model / "sentence_xlnet_config.json", {"max_seq_length": 6})
    assert load_card(str(model)).max_input_tokens == 5
    check_equal(model)


def test_without_modules_the_transformers_own_file_is_not_read(model: Path) -> None:
    (model / "modules.json").unlink()
    write(model / "sentence_bert_config.json", {"max_seq_length": 5})
    check_equal(model)


@pytest.mark.parametrize(
    "kind",
    [
        "my_mod.Pooling",
        "Pooling",
        "sentence_transformers.Pooling",
        "sentence_transformers.models.other.Pooling",
        "sentence_transformers.models.LSTM",
        f"{BASES[1]}.layer_norm.LayerNorm",
        "xsentence_transformers.models.Pooling",
        "sentence_transformers.models.Pooling.evil",
    ],
)
def test_a_class_that_is_not_theirs_is_refused(model: Path, kind: str) -> None:
    write_modules(model, [POOLED[0], (kind, "1_Pooling")])
    with pytest.raises(ModelError, match=kind):
        load_card(str(model))


@pytest.mark.parametrize("folder", ["../other", "/etc", "a/../../b"])
def test_a_path_out_of_the_folder_is_refused(model: Path, folder: str) -> None:
    write_modules(model, [POOLED[0], (POOLED[1][0], folder)])
    with pytest.raises(ModelError, match="leads out of"):
        load_card(str(model))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"0": {}}, "not a JSON list of modules"),
        ([["type"]], r'a module is no JSON object: \["type"\]'),
        ([{"type": POOLED[0][0], "name": "0"}], "a module has no path: .*Transformer"),
        ([{"type": ["x"], "path": "", "name": "0"}], r"a module's type is no text: .*\[\"x\"\]"),
        ([{"type": POOLED[0][0], "path": 1, "name": "0"}], 'a module\'s path is no text: .*"path": 1'),
        ([{"type": POOLED[0][0], "path": "", "name": {}}], "a module's name is no text: .*{}"),
    ],
)
def test_what_lists_no_modules_is_refused(model: Path, value: Any, said: str) -> None:
    write(model / "modules.json", value)
    with pytest.raises(ModelError, match=rf"modules\.json: {said}"):
        load_card(str(model))


def test_two_modules_of_one_name_are_refused(model: Path) -> None:
    """sentence-transformers keeps the later one."""
    entries = [{"name": "x", "path": folder, "type": kind} for kind, folder in POOLED]
    write(model / "modules.json", entries)
    with pytest.raises(ModelError, match="name 'x'"):
        load_card(str(model))


def test_a_bias_that_the_configuration_denies_is_refused(model: Path) -> None:
    write_modules(model, [*POOLED, (SPELLINGS["Dense"][0], "2_Dense")])
    write_dense(model / "2_Dense")
    write(model / "2_Dense/config.json", {"in_features": 32, "out_features": 8, "bias": False})
    with pytest.raises(ModelError, match=r"linear\.bias"):
        Engine(str(model))


@pytest.mark.parametrize("folders", [["2_Dense", "3_Dense"], ["3_Dense"]])
def test_a_projection_of_other_rows_than_those_before_it_is_refused(model: Path, folders: list[str]) -> None:
    """The first is of 32 numbers, as the model's are, and the second of 16: rows would be read in part, or too far."""
    write_modules(model, [*POOLED, *((SPELLINGS["Dense"][0], folder) for folder in folders)])
    write_dense(model / "2_Dense")
    write_dense(model / "3_Dense", in_features=16)
    before = 8 if "2_Dense" in folders else 32
    with pytest.raises(ModelError, match=rf"3_Dense/config\.json says in_features 16, and {before} numbers"):
        load_card(str(model))


@pytest.mark.parametrize(
    "file", ["config_sentence_transformers.json", "2_Dense/config.json", "3_Normalize/config.json"]
)
def test_unknown_keys_are_warned_of(model: Path, file: str) -> None:
    """sentence-transformers ignores them in these files, and starts with none in the others."""
    write_modules(model, [*POOLED, (SPELLINGS["Dense"][0], "2_Dense"), (SPELLINGS["Normalize"][0], "3_Normalize")])
    write_dense(model / "2_Dense")
    add(model / file, {"new_key": 1})
    (warning,) = (said for said in load_card(str(model)).warnings if file in said)
    assert "new_key" in warning
    check_equal(model)


@pytest.mark.parametrize(
    ("file", "value"),
    [
        ("sentence_camembert_config.json", {"max_seq_length": 20}),
        ("config_sentence_transformers.json", {"prompts": {"q": ""}}),
        ("3_Normalize/config.json", {}),
    ],
)
def test_every_file_that_decides_enters_the_version(model: Path, file: str, value: dict[str, Any]) -> None:
    write_modules(model, [*POOLED, (SPELLINGS["Normalize"][0], "3_Normalize")])
    before = load_card(str(model)).version
    write(model / file, value)
    assert load_card(str(model)).version != before
