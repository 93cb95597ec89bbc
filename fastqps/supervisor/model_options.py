"""Options by model: ``--prefix``, the text in front of every prompt, and ``--adapter``, merged into the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fastqps.errors import ConfigError
from fastqps.files.regular import read_regular
from fastqps.models import ModelCard

BYTES_MAX = 1 << 20  # far more than any model's context
ALL = ""


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


def adapters_of(named: Sequence[str], models: Sequence[str]) -> Mapping[str, str]:
    """The adapter of each model that has one. ``named``: DIR, where one model is served, or NAME=DIR.

    Raises ``ConfigError`` for a model that is not served, and for a second adapter of one.
    """
    found: dict[str, str] = {}
    for each in named:
        model, equals, adapter = each.partition("=")
        if not equals:
            if len(models) > 1:
                raise ConfigError(f"--adapter {each}: {len(models)} models are served; say for which: NAME={each}")
            model, adapter = models[0], each
        elif model not in models or not adapter:
            raise ConfigError(f"--adapter {each!r}: write NAME=DIR with the name of a model: {', '.join(models)}")
        if model in found:
            raise ConfigError(
                f"--adapter: two adapters for {model}; a model has one. Serve the base under another name, too: "
                "--model NAME=DIR"
            )
        found[model] = adapter
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
