"""Settings of a server as flags of a command."""

from __future__ import annotations

import argparse
from collections.abc import Container
from typing import Any

from fastqps.config.document import grouped
from fastqps.config.settings import SETTINGS, Setting

CARD_KEYS = (
    *("adapter", "hub-offline", "max-input-tokens", "max-output-tokens", "prefix"),
    *("labels", "template", "allow-single-texts"),
)
_METAVARS = {"count": "N", "bytes": "SIZE", "duration": "DURATION", "ratio": "RATIO"}


def add_settings(parser: argparse._ActionsContainer, keys: Container[str]) -> None:
    """Adds the settings with these keys. Values stay text; config checks them."""
    for settings in grouped().values():
        for setting in settings:
            if setting.key in keys:
                add_setting(parser, setting)


def add_all_settings(parser: argparse.ArgumentParser) -> None:
    """Adds every setting of the table, in its groups."""
    for title, settings in grouped().items():
        group = parser.add_argument_group(title)
        for setting in settings:
            add_setting(group, setting)


def add_setting(group: argparse._ActionsContainer, setting: Setting) -> None:
    """Adds one setting."""
    meaning = setting.meaning
    default = f"auto: {meaning.auto}" if meaning.auto else setting.format(setting.default) or "none"
    help = f"{meaning.help} (default: {default})".replace("%", "%%")
    flag = f"--{setting.key}"
    if meaning.kind == "switch" or "on" in meaning.choices:
        group.add_argument(flag, nargs="?", const="on", metavar="|".join(meaning.choices or ("on", "off")), help=help)
    elif meaning.kind == "texts":
        group.add_argument(flag, action="append", metavar=meaning.metavar, help=help)
    else:
        metavar = meaning.metavar or "|".join(meaning.choices) or _METAVARS[meaning.kind]
        group.add_argument(flag, metavar=metavar, help=help)


def given_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that were given, by key, for ``fastqps.config.load``."""
    named = {setting.key: getattr(options, setting.key.replace("-", "_"), None) for setting in SETTINGS}
    return {key: value for key, value in named.items() if value is not None}
