"""docs/settings.md and ``--print-config``, written from the table.

``python -m fastqps.config.document`` prints the page.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastqps.config.settings import OFF, SETTINGS, Setting
from fastqps.config.sources import Loaded

# Groups of settings in docs/settings.md and `fastqps serve --help`, common ones first.
_KEYS: dict[str, str] = {
    "Common": "model adapter device host port http-port admin-port dispatchers lanes max-batch-items max-input-tokens "
    "max-output-tokens dtype quantization",
    "Names of models": "any-model-name hub-offline",
    "Labels and rankings": "labels template allow-single-texts",
    "Edge": "upstream upstream-tls-ca upstream-tls-cert upstream-tls-key upstream-token-file",
    "Batching and memory": "max-batch-tokens max-batch-delay max-step-time max-running slots prefix async-steps "
    "share-weights kernels",
    "Limits of clients": "max-queue-items class-weights tenant-metadata tenant-weights "
    "max-message-bytes max-tokenize-bytes max-request-items max-stream-inflight auto-truncate default-timeout "
    "max-timeout stream-idle-timeout max-connection-age",
    "Start, stop and recovery": "allow-output-change drain-timeout lame-duck step-timeout canary-interval rerun",
    "Security": "tls-cert tls-key tls-client-ca auth-token-file admin-host cors",
    "Routes of a platform": "predict-route health-route",
    "Metrics, tracing and scaling": "capacity target-saturation queue-budget load-reports otlp-endpoint trace-ratio",
    "Log": "log-level log-format access-log",
    "Processes": "frontdoors pin mps",
}
_NAMES_FILES = ("FILE", "DIR", "NAME_OR_DIR")  # the metavars of such settings
_HEAD = """\
# Settings of `fastqps serve`

Written by `python -m fastqps.config.document > docs/settings.md`; change `fastqps/config/settings.py` instead.

Each setting is a flag, an environment variable and a key in a TOML file. The first of these that has a value counts:
flag, environment, file, default. The file is the one that `--config` or `FASTQPS_CONFIG` names, else `fastqps.toml` in
the working directory where it exists. An unknown flag or key is an error. `fastqps serve --print-config` prints what
would hold, in the file's form, and where each value came from.

Durations are written with a unit (`500us`, `10s`; ns us ms s m h), sizes with or without one (`4MiB`, `65536`).
A switch is `on` or `off`; in the file also `true` or `false`.
Exit codes: 0 clean, 1 failure at run time, 2 usage or configuration, 3 no usable device, 4 a model cannot be loaded or
verified, 5 drain incomplete.
"""
_TABLE = """
## {title}

| flag and key | environment | default | meaning |
|---|---|---|---|
"""


def grouped() -> dict[str, tuple[Setting, ...]]:
    """Every setting once, under the title of its group."""
    settings = {setting.key: setting for setting in SETTINGS}
    found = {title: tuple(settings.pop(key) for key in keys.split()) for title, keys in _KEYS.items()}
    if settings:
        raise AssertionError(f"settings without a group: {', '.join(settings)}")
    return found


def settings_page() -> str:
    """The text of docs/settings.md."""
    parts = (_TABLE.format(title=title) + "".join(map(_row, settings)) for title, settings in grouped().items())
    return _HEAD + "".join(parts)


def effective_toml(loaded: Loaded) -> str:
    """The whole configuration as a ``fastqps.toml`` that would give the same server, with each value's origin."""
    lines = []
    for setting in SETTINGS:
        value = getattr(loaded.config, setting.field)
        line = f"{setting.key} = {_toml(setting, value)}"
        lines.append(f"{line:<44}# {loaded.origin.get(setting.field, 'default')}")
    return "\n".join(lines) + "\n"


def settings_file(loaded: Loaded, head: Sequence[str]) -> str:
    """A ``fastqps.toml`` of the settings that were given. ``head`` are comment lines at its top. Paths are absolute:
    the file holds wherever the server is started."""
    given = [setting for setting in SETTINGS if setting.field in loaded.origin]
    lines = [f"# {' '.join(line.split())}" for line in head]
    lines += [f"{each.key} = {_toml(each, _absolute(each, getattr(loaded.config, each.field)))}" for each in given]
    return "\n".join(lines) + "\n"


def _toml(setting: Setting, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) and setting.meaning.kind in ("count", "ratio", "port") and value != OFF:
        return str(value)
    if setting.meaning.kind == "texts":
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(setting.format(value), ensure_ascii=False)


def _row(setting: Setting) -> str:
    meaning = setting.meaning
    default = f"auto: {meaning.auto}" if meaning.auto else f"`{setting.format(setting.default)}`"
    if default == "``":
        default = "none"
    notes = [meaning.help]
    if meaning.kind in ("count", "bytes", "duration", "port"):
        notes.append(f"{setting.format(meaning.least)} to {setting.format(meaning.most)}.")
    elif meaning.kind == "weights":
        notes.append(f"`{meaning.metavar}`, each {meaning.least} to {meaning.most}.")
    elif meaning.choices:
        notes.append("One of " + ", ".join(f"`{c}`" for c in meaning.choices) + ".")
    elif meaning.kind == "switch":
        notes.append("`on` or `off`.")
    return f"| `--{setting.key}` | `{setting.variable}` | {default} | {' '.join(notes)} |\n"


if __name__ == "__main__":
    print(settings_page(), end="")


def _absolute(setting: Setting, value: Any) -> Any:
    """``value`` with every path in it made absolute, relative to the working directory. Symbolic links are kept."""
    if setting.key == "device":
        return ",".join(_device(part.strip()) for part in value.split(","))
    if not value or setting.meaning.metavar not in _NAMES_FILES:
        return value
    return tuple(_named(part) for part in value) if isinstance(value, tuple) else os.path.abspath(value)


def _named(text: str) -> str:
    """PATH, NAME=PATH, or the name of a packaged model or of one at the hub."""
    from fastqps.models.hub import is_hub
    from fastqps.models.names import PACKAGED, explicit  # it reads checkpoints, which few commands do

    text = explicit(text)
    name, equals, path = text.partition("=") if "=" in text else ("", "", text)
    return f"{name}{equals}{path if path in PACKAGED or is_hub(path) else os.path.abspath(Path(path).expanduser())}"


def _device(text: str) -> str:
    """A modelled device may name the file of its profile."""
    kind, _, name = text.partition(":")
    return f"sim:{os.path.abspath(name)}" if kind == "sim" and ("/" in name or name.endswith(".toml")) else text
