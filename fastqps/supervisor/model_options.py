"""Options by model: ``--prefix``, the text in front of every prompt, ``--adapter``, merged into the weights,
``--labels``, the tokens that are its labels, and ``--template``, the text around what it scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastqps.config.settings import Config
from fastqps.errors import ConfigError
from fastqps.files.regular import read_regular
from fastqps.models import ModelCard

BYTES_MAX = 1 << 20  # far more than any model's context
ALL = ""
_PLACES = {"adapter": "DIR", "template": "FILE"}


@dataclass(frozen=True)
class ModelOptions:
    """What the settings say of one model."""

    prefix: str = ""
    adapter: str = ""
    labels: tuple[str, ...] = ()
    template: str = ""


def model_options(config: Config, models: Sequence[str]) -> Mapping[str, ModelOptions]:
    """The options of each of the ``models``. ``ConfigError`` for a file that cannot be read, or a wrong model."""
    prefixes = read_prefixes(config.prefix, models)
    adapters = one_for_each("adapter", config.adapter, models)
    templates = one_for_each("template", config.template, models)
    labels = labels_of(config.labels, models)
    return {
        name: ModelOptions(
            prefix_of(name, prefixes), adapters.get(name, ""), labels.get(name, ()), templates.get(name, "")
        )
        for name in models
    }


def labels_of(named: Sequence[str], models: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """The labels of each model that has some. ``named``: LABEL,... where one model is served, or NAME=LABEL,...;
    commas may have separated them already. ``ConfigError`` for a model that is not served."""
    found: dict[str, list[str]] = {}
    model = models[0] if len(models) == 1 else ""
    for each in (part for text in named for part in text.split(",")):
        name, equals, label = each.partition("=")
        if equals:
            model = name
        if model not in models:
            raise ConfigError(f"--labels {each!r}: write NAME=LABEL,... with the name of a model: {', '.join(models)}")
        found.setdefault(model, []).append((label if equals else each).strip())
    return {name: tuple(labels) for name, labels in found.items()}


def read_prefixes(named: Sequence[str], models: Sequence[str]) -> Mapping[str, str]:
    """Reads the files' texts by model name; ``ALL`` is the key of a file without a name. ``named``: FILE or NAME=FILE.

    Raises ``ConfigError`` for a file that cannot be read or is no text, and for a model that is not served.
    """
    found: dict[str, str] = {}
    for each in named:
        model, equals, file = each.partition("=")
        if not equals:
            model, file = ALL, each
        elif model not in models:
            raise ConfigError(f"--prefix {each!r}: no model named {model!r} is served; there are: {', '.join(models)}")
        if model in found:
            raise ConfigError(f"--prefix: two files for {model or 'all models'}; name one of them NAME=FILE")
        found[model] = _read(file)
    return found


def prefix_of(model: str, prefixes: Mapping[str, str]) -> str:
    """The prefix of one model; "" if it has none."""
    return prefixes.get(model, prefixes.get(ALL, ""))


def check_used(prefixes: Mapping[str, str], cards: Sequence[ModelCard]) -> None:
    """Raises ``ConfigError`` if a prefix would have no effect."""
    generators = {card.name for card in cards if card.generates}
    if prefixes and not generators:
        raise ConfigError("--prefix: none of the served models generates text")
    if other := next((name for name in prefixes if name != ALL and name not in generators), None):
        raise ConfigError(f"--prefix {other}=…: {other} does not generate text")


def one_for_each(flag: str, named: Sequence[str], models: Sequence[str]) -> Mapping[str, str]:
    """The place of each model that has one. ``named``: PLACE, where one model is served, or NAME=PLACE.

    Raises ``ConfigError`` for a model that is not served, and for a second place of one.
    """
    found: dict[str, str] = {}
    for each in named:
        model, equals, place = each.partition("=")
        if not equals:
            if len(models) > 1:
                raise ConfigError(f"--{flag} {each}: {len(models)} models are served; say for which: NAME={each}")
            model, place = models[0], each
        elif model not in models or not place:
            where = _PLACES[flag]
            raise ConfigError(f"--{flag} {each!r}: write NAME={where} with the name of a model: {', '.join(models)}")
        if model in found:
            raise ConfigError(
                f"--{flag}: two {flag}s for {model}; a model has one. Serve the base under another name, too: "
                "--model NAME=DIR"
            )
        found[model] = place
    return found


def _read(file: str) -> str:
    try:
        data = read_regular(Path(file).expanduser(), BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"--prefix {file}: cannot read it: {error.strerror}") from None
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"--prefix {file}: not UTF-8 at byte {error.start}") from None
    if not text:
        raise ConfigError(f"--prefix {file}: the file is empty")
    return text
