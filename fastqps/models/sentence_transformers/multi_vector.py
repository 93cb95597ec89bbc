"""Models with a vector for each token, as sentence-transformers' MultiVectorEncoder and PyLate's ColBERT save them."""

from __future__ import annotations

import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.files.keys import Keys, read_keys
from fastqps.models.files.reading import optional_object
from fastqps.models.sentence_transformers.keys import EXPANSION, MODEL_FILE, TOKEN_MASK
from fastqps.models.sentence_transformers.prompts import Prompts

PYLATE = "ColBERT"
MULTI_TYPES = ("MultiVectorEncoder", PYLATE)
_LENGTH = 32  # tokens of an expanded query where PyLate's files do not say
_KNOBS = ("query_length", "document_length", "query_expansion")
# Any of these shows that PyLate wrote the file: then queries are expanded unless it says that they are not.
_MARKERS = (
    *_KNOBS,
    "do_query_expansion",
    "attend_to_expansion_tokens",
    "attend_to_mask_tokens",
    "query_prefix",
    "document_prefix",
    "skiplist_words",
)
_PREFIXES = (("query_prefix", "query"), ("document_prefix", "document"))


@dataclass(frozen=True)
class Expansion:
    """Queries are filled up to ``length`` tokens with ``token``, None: the mask token. ``fixed``: longer ones are cut.
    ``attend``: other tokens attend to those that are added."""

    length: int
    fixed: bool
    attend: bool
    token: str | None


@dataclass(frozen=True)
class SkipList:
    """The words whose tokens get no vector, in inputs of the roles ``tasks``."""

    words: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ("document",)


@dataclass(frozen=True)
class MultiVector:
    """How inputs are taken. Lengths in tokens, 0: the tokenizer's. ``scores_padding``: the list of modules has the
    mask that gives vectors to tokens of an expansion to which no other token attends."""

    query_length: int = 0
    document_length: int = 0
    expansion: Expansion | None = None
    skip_list: SkipList = SkipList()
    scores_padding: bool = True
    markers: tuple[str, ...] = ()  # prefixes that PyLate puts in as tokens


def model_type(root: Path) -> str:
    """The ``model_type`` that the checkpoint's own file names; "" where it names none."""
    return str(optional_object(root / MODEL_FILE).get("model_type") or "")


def read_skip_list(folder: Path) -> SkipList:
    """The configuration of a MultiVectorMask."""
    keys = read_keys(folder / "config.json", TOKEN_MASK)
    keys.check_known()
    tasks = keys.get("skiplist_tasks")
    tasks = ["document"] if tasks is None else [tasks] if isinstance(tasks, str) else tasks
    words = _words(keys.file, "skiplist_words", keys.get("skiplist_words"))
    return SkipList(words, _words(keys.file, "skiplist_tasks", tasks))


def read_multi_vector(model: Keys, own: Keys, skip_list: SkipList | None) -> MultiVector:
    """How a model takes inputs. ``own``: the transformer's file; ``skip_list``: its MultiVectorMask's.

    PyLate keeps in the model's file what sentence-transformers keeps in its modules. Raises ``ModelError``.
    """
    path = model.file
    knobs = _pylate_knobs(model) | {key: own[key] for key in _KNOBS if key in own}
    query_length, document_length = (_length(path, key, knobs.get(key)) for key in _KNOBS[:2])
    expansion = _expansion(path, knobs.get("query_expansion"))
    if expansion and 0 < query_length < expansion.length:
        raise ModelError(
            f"{path}: query_length {query_length} is below the length of query_expansion, {expansion.length}"
        )
    if model["model_type"] == PYLATE:
        words = model.get("skiplist_words")
        skip_list = SkipList(_words(path, "skiplist_words", list(string.punctuation) if words is None else words))
    return MultiVector(
        query_length,
        document_length,
        expansion,
        skip_list or SkipList(),
        scores_padding=skip_list is not None,
        markers=tuple(prefix for prefix in _prefixes(model).values() if prefix.strip()),
    )


def with_prefixes(model: Keys, prompts: Prompts) -> Prompts:
    """The prompts with the prefixes that PyLate keeps apart in front of them."""
    texts = dict(prompts.texts)
    for name, prefix in _prefixes(model).items():
        texts[name] = prefix + texts.get(name, "").removeprefix(prefix)
    return Prompts(tuple(texts.items()), prompts.default)


def _prefixes(model: Keys) -> dict[str, str]:
    prefixes = {name: model[key] or "" for key, name in _PREFIXES if key in model}
    for name, prefix in prefixes.items():
        if not isinstance(prefix, str):
            raise ModelError(f"{model.file}: {name}_prefix {prefix!r} is no text")
    return prefixes


def _pylate_knobs(model: Keys) -> dict[str, Any]:
    knobs = {key: model[key] for key in _KNOBS if key in model and (model[key] is not None or key == _KNOBS[2])}
    if _KNOBS[2] in knobs or not any(key in model for key in _MARKERS):
        return knobs
    if model.get("do_query_expansion") is False:
        return knobs | {_KNOBS[2]: None}
    attend = model.get("attend_to_expansion_tokens", model.get("attend_to_mask_tokens"))
    length = knobs.pop("query_length", None) or _LENGTH
    return knobs | {_KNOBS[2]: {"strategy": "fixed", "attend": bool(attend), "length": length}}


def _expansion(path: str, value: Any) -> Expansion | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ModelError(f"{path}: query_expansion is no object")
    keys = Keys(f"{path}: query_expansion", value, EXPANSION)
    keys.check_known()
    strategy, attend, token = keys.get("strategy"), keys.get("attend", False), keys.get("token")
    if strategy not in ("fixed", "min"):
        raise ModelError(f"{keys.file}: strategy {strategy!r} is neither 'fixed' nor 'min'")
    if not isinstance(attend, bool) or not isinstance(token, str | None):
        raise ModelError(f"{keys.file}: attend {attend!r} has to be true or false, and token {token!r} a text")
    length = _length(path, "length", keys.get("length"))
    if not length:
        raise ModelError(f"{keys.file}: there is no length")
    return Expansion(length, strategy == "fixed", attend, token)


def _length(path: str, key: str, value: Any) -> int:
    if value is not None and (type(value) is not int or value < 1):
        raise ModelError(f"{path}: {key} {value!r} is no number of tokens")
    return value or 0


def _words(path: str, key: str, value: Any) -> tuple[str, ...]:
    words = [] if value is None else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ModelError(f"{path}: {key} {value!r} is no list of texts")
    return tuple(words)
