"""``--adapter``: what is merged into each model's weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastqps.errors import ConfigError


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
