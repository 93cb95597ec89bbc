"""Every key of the files around a checkpoint: the answers equal the reference's, or the model is refused.

The files are those of sentence-transformers, of PyLate, as sentence-transformers reads them, and of PEFT. The lists of
keys come from these packages, so that a key of a newer version fails until its rule is written.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import pkgutil
import random
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_forms import ACTIVATION, FORMS, Rows
from key_values import Place, differing, other_values, read_at, write_at
from peft import LoraConfig
from sentence_files import write_modules

from fastqps.models import ModelError
from fastqps.models.adapters.adapter import ADAPTER_KEYS
from fastqps.models.files.keys import Rules
from fastqps.models.sentence_transformers import keys
from fastqps.models.sentence_transformers.pipeline import read_pipeline

pytestmark = [
    pytest.mark.compute,
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

TOLERANCE = 1e-4
RUNS = int(os.environ.get("FASTQPS_SENTENCE_RUNS", "2"))
STEPS = 10  # of a walk
Row = tuple[str, Place, str]  # form, place, key


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of a repository is no legal value: nothing is downloaded."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


EMPTY: list[Any] = ["", [], {}]
# Legal values that no other value of the key's type leads to.
LEGAL: dict[str, list[Any]] = {
    "activation_fn": [f"{ACTIVATION}Sigmoid", "torch.nn.modules.linear.Identity", f"{ACTIVATION}Tanh"],
    "activation_function": [f"{ACTIVATION}ReLU", "torch.nn.modules.linear.Identity", f"{ACTIVATION}SiLU", "log1p_relu"],
    "alpha_pattern": [{"query": 9}],
    "config_args": [{"hidden_act": "relu"}, {"num_hidden_layers": 2}],
    "config_kwargs": [{"hidden_act": "relu"}, {"layer_norm_eps": 0.5}],
    "default_prompt_name": ["query", "document", "other"],
    "document_length": [5, 9],
    "exclude_modules": [["layer.1"], r".*layer\.1\..*"],
    "init_lora_weights": ["gaussian", "eva", "olora", "pissa", "corda", "loftq", "orthogonal", "lora_ga", "mica"],
    "keep_only_token_ids": [[5, 6, 7]],
    "kwargs": [["task"], ["modality"]],
    "layers_pattern": ["layer", "layers"],
    "layers_to_transform": [0, [0, 1]],
    "max_active_dims": [1, 20],
    "max_seq_length": [4, 6, 1],
    "modality_config": [
        {"text": {"method": "forward", "method_output_name": name}} for name in ("last_hidden_state", "pooler_output")
    ],
    "model_args": [{"hidden_act": "relu"}],
    "model_kwargs": [{"attn_implementation": "sdpa"}, {"add_pooling_layer": False}],
    "model_type": ["SentenceTransformer", "CrossEncoder", "SparseEncoder", "MultiVectorEncoder", "ColBERT"],
    "module_input_name": ["token_embeddings", "sentence_embedding"],
    "module_output_name": ["token_embeddings", "sentence_embedding", "scores"],
    "modules_to_save": [["pooler"], ["LayerNorm"], ["query"], ["attention"]],
    "name": ["0", "x"],
    "padding_side": ["left"],
    "path": ["", "./1_Pooling"],
    "pooling_mode": ["cls", "max", "lasttoken", "weightedmean", "mean_sqrt_len_tokens", ["cls"], ["cls", "mean"]],
    "pooling_strategy": ["sum", "max"],
    "processing_kwargs": [{"text": {"max_length": 4}}, {"common": {"return_tensors": "pt"}}],
    "processor_kwargs": [{"model_max_length": 4}, {"padding_side": "left"}, {"do_lower_case": True}],
    "query_expansion": [{"strategy": name, "attend": True, "length": 9} for name in ("fixed", "min")],
    "query_length": [5, 9, 20],
    "query_prefix": ["[Q] ", "word "],
    "document_prefix": ["[D] ", "[Q] ", "word "],
    "rank_pattern": [{"query": 4}, {"query": 2}],
    "skiplist_tasks": ["query", ["query", "document"], []],
    "skiplist_words": [["word"], [".", ","]],
    "strategy": ["min", "fixed"],
    "target_modules": ["all-linear", ["query"], ["value"], ["query", "value", "word_embeddings"]],
    "task_type": ["FEATURE_EXTRACTION", "SEQ_CLS", "CAUSAL_LM", "TOKEN_CLS"],
    "token": ["a", "[SEP]"],
    "tokenizer_args": [{"model_max_length": 4}, {"padding_side": "left"}],
    "transformer_task": ["feature-extraction", "sequence-classification", "fill-mask", "text-generation"],
}
# What PyLate 1.6.0 writes into the model's file beside what sentence-transformers does (ColBERT.save and _load_modules
# in pylate/models/colbert.py). It needs older versions of sentence-transformers and transformers than are installed.
PYLATE = (
    *("query_prefix", "document_prefix", "query_length", "document_length", "attend_to_expansion_tokens"),
    *("skiplist_words", "do_query_expansion"),
)


# ---- the lists are whole


def arguments(kind: Any) -> set[str]:
    return set(inspect.signature(kind.__init__).parameters) - {"self", "model_name_or_path"}


def of_module(kind: Any) -> set[str]:
    """The keys of a module's file: what its class saves, renames, and takes."""
    return {*kind.config_keys, *kind.config_key_renames} | arguments(kind)


def read_from(variable: str) -> set[str]:
    """The keys that the code of sentence-transformers' models reads from a variable of this name."""
    files = [importlib.import_module(f"sentence_transformers.{each}.model") for each in PACKAGES]
    code = "".join(inspect.getsource(file) for file in files)
    found = re.findall(rf'{variable}(?:\.get\(|\[)"(\w+)"|"(\w+)" in {variable}\b(?!\[)', code)
    return {key for pair in found for key in pair if key}


def own_modules() -> dict[str, Any]:
    """The module classes of the installed sentence-transformers, by name."""
    packages = [importlib.import_module(f"sentence_transformers.{each}.modules") for each in PACKAGES]
    files = [each.name for where in packages for each in pkgutil.walk_packages(where.__path__, f"{where.__name__}.")]
    named = [each for file in files for each in vars(importlib.import_module(file)).items()]
    return {name: kind for name, kind in named if inspect.isclass(kind) and issubclass(kind, BASE)}


PACKAGES = ("base", "sentence_transformer", "cross_encoder", "sparse_encoder", "multi_vector_encoder")
BASE: Any = importlib.import_module("sentence_transformers.base.modules.module").Module
KINDS = own_modules()
POOLING_FILE = importlib.import_module("sentence_transformers.sentence_transformer.modules.pooling")
WANTED: list[tuple[str, set[str], Rules]] = [
    ("module", read_from("module_config"), keys.MODULE),
    ("model", read_from("model_config"), keys.MULTI_MODEL),
    ("pylate", set(PYLATE), keys.MULTI_MODEL),
    (
        "transformer",
        of_module(KINDS["Transformer"]) | {"model_args", "config_args", "tokenizer_args"},
        keys.MULTI_TRANSFORMER,
    ),
    ("pooling", of_module(KINDS["Pooling"]) | set(POOLING_FILE._LEGACY_POOLING_MODE_KWARGS), keys.POOLING),
    ("dense", of_module(KINDS["Dense"]), keys.DENSE),
    ("normalize", of_module(KINDS["Normalize"]), keys.NORMALIZE),
    ("splade", of_module(KINDS["SpladePooling"]), keys.SPLADE_POOLING),
    ("logit score", of_module(KINDS["LogitScore"]), keys.LOGIT_SCORE),
    ("mask", of_module(KINDS["MultiVectorMask"]), keys.TOKEN_MASK),
    ("adapter", {field.name for field in dataclasses.fields(LoraConfig)}, ADAPTER_KEYS),
]


@pytest.mark.parametrize(("wanted", "known"), [row[1:] for row in WANTED], ids=[row[0] for row in WANTED])
def test_rules_name_every_key_of_the_package(wanted: set[str], known: Rules) -> None:
    assert wanted, "the package keeps its keys elsewhere now"
    assert wanted - known.honoured - known.irrelevant - known.refused.keys() == set()


REFUSED_MODULES = {
    *("BoW", "CLIPModel", "CNN", "LSTM", "LayerNorm", "WeightedLayerPooling", "WordEmbeddings", "WordWeights"),
    *("Asym", "Router", "SparseAutoEncoder", "SparseStaticEmbedding"),
    *("BaseTokenPooling", "HierarchicalTokenPooling", "LambdaTokenPooling", "InputModule", "Module"),
}


def test_every_module_is_served_or_refused_by_name(tmp_path: Path) -> None:
    refused = set()
    for name, kind in KINDS.items():
        spelling = f"{kind.__module__}.{name}"
        write_modules(tmp_path, [(spelling, "none")] * 2)  # is nothing that is served
        with pytest.raises(ModelError) as caught:
            read_pipeline(tmp_path)
        if f"type {spelling!r} is not supported" in str(caught.value):
            refused.add(name)
    assert refused == REFUSED_MODULES


# ---- the values


def rows(form: str) -> list[Row]:
    found = []
    for place, known in FORMS[form].places.items():
        found += [(form, place, key) for key in sorted(known.honoured | known.irrelevant | known.refused.keys())]
    return found


def equal(found: Rows, wanted: Rows) -> bool:
    """Whether those that are answered are as wanted."""
    pairs = [(one, other) for one, other in zip(found, wanted, strict=True) if one is not None]
    return all(
        other is not None and one.shape == other.shape and np.allclose(one, other, atol=TOLERANCE)
        for one, other in pairs
    )


def differences(folder: Path, row: Row, values: list[Any] | None = None) -> list[str]:
    """The values of a key that are served and give other answers than the package; None: all other ones."""
    form, place, key = row
    made = folder / form
    if not made.exists():
        FORMS[form].write(made)
    path = folder / "changed"

    def write_value(value: Any) -> None:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(made, path)
        write_at(path, place, key, value)

    if values is None:
        now = read_at(made, place).get(key)
        values = [*other_values(now), *(value for value in [*EMPTY, *LEGAL.get(key, [])] if value != now)]
    found = differing(
        values,
        write_value,
        lambda: FORMS[form].reference(path),
        lambda wanted: equal(FORMS[form].answers(path), wanted),
    )
    return [f"{form}, {' '.join(map(str, place))}: {key} {value!r}" for value in found]


@pytest.mark.parametrize(
    ("form", "place", "key", "value"),
    [
        ("static", ("2_Normalize/config.json",), "module_input_name", None),
        *(
            ("adapter", ("adapter/adapter_config.json",), key, value)
            for key, value in (("kasa_config", {}), ("layers_to_transform", False))
        ),
    ],
)
def test_values_that_decide(form: str, place: Place, key: str, value: Any, tmp_path: Path) -> None:
    """Empty ones mean something else than no value at all."""
    assert differences(tmp_path, (form, place, key), [value]) == []


@pytest.mark.nightly  # a sample of the same rows runs always
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("form", FORMS)
def test_every_key_is_as_in_the_package(form: str, tmp_path: Path) -> None:
    assert [each for row in rows(form) for each in differences(tmp_path, row)] == []


@pytest.mark.parametrize("form", FORMS)
def test_some_keys_are_as_in_the_package(form: str, tmp_path: Path) -> None:
    assert [each for row in rows(form)[::83] for each in differences(tmp_path, row)] == []


@pytest.mark.parametrize("form", FORMS)
def test_random_values_in_company(form: str, tmp_path: Path) -> None:
    """Each beside those before it that were served. FASTQPS_SENTENCE_RUNS: so many walks."""
    drawn = [
        (place, key) for place, known in FORMS[form].places.items() for key in sorted(known.honoured & LEGAL.keys())
    ]
    served = 0
    for seed in range(RUNS):
        r, path, changes = random.Random(f"{form} {seed}"), tmp_path / f"{seed}", list[Any]()
        FORMS[form].write(path)
        for step in range(STEPS):
            changed, (place, key) = tmp_path / f"{seed}.{step}", r.choice(drawn)
            shutil.copytree(path, changed)
            write_at(changed, place, key, value := r.choice(LEGAL[key]))
            try:
                wanted = FORMS[form].reference(changed)
            except Exception:  # of any kind: not a legal value
                continue
            try:
                found = FORMS[form].answers(changed)
            except ModelError:
                continue
            changes.append((place, key, value))
            assert equal(found, wanted), (seed, changes)
            path = changed
        served += len(changes)
    assert served >= RUNS * STEPS // 6, "so few are served that the test says little"


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_served(form: str, tmp_path: Path) -> None:
    """Else the walk would compare nothing."""
    FORMS[form].write(tmp_path / "model")
    found = FORMS[form].answers(tmp_path / "model")
    assert found[0] is not None and equal(found, FORMS[form].reference(tmp_path / "model"))
