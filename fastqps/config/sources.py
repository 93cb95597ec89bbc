"""Where settings come from: flags, then the environment, then the file, then the defaults."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastqps.config.settings import SETTINGS, Config
from fastqps.config.values import parse_value
from fastqps.errors import ConfigError
from fastqps.files.documents import parse_toml
from fastqps.files.regular import read_regular

FILE_NAME = "fastqps.toml"
FILE_VARIABLE = "FASTQPS_CONFIG"
_FILE_BYTES_MAX = 1 << 20
# Kubernetes sets these in every pod beside a Service called "fastqps"; they are not settings.
_SERVICE_LINKS = ("FASTQPS_SERVICE_", "FASTQPS_PORT_")
# By these, Vertex AI, Cloud Run and others name the one port that they send requests to.
PLATFORM_PORTS = ("AIP_HTTP_PORT", "PORT")
# And by these Vertex AI names the paths.
_PLATFORM_ROUTES = {"AIP_PREDICT_ROUTE": "predict-route", "AIP_HEALTH_ROUTE": "health-route"}


@dataclass(frozen=True)
class Loaded:
    """The configuration, and for each field where its value came from (for people)."""

    config: Config
    origin: Mapping[str, str]


def load(flags: Mapping[str, Any], environ: Mapping[str, str], config_file: str | None = None) -> Loaded:
    """Merges all sources. ``flags``: by key (``max-batch-items``), only those that were given. The last source of the
    port, and of routes, is a platform's variable.

    The file is ``config_file``, else what FASTQPS_CONFIG names, else ./fastqps.toml where it exists. Raises
    ``ConfigError``.
    """
    sources = [
        ("flag", dict(flags)),
        ("environment", _from_environment(environ)),
        _from_file(config_file or environ.get(FILE_VARIABLE)),
        *((name, {key: environ[name]}) for name, key in _PLATFORM_ROUTES.items() if name in environ),
    ]
    if not any("port" in found for _, found in sources):
        sources.append(_from_platform(environ))
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for setting in SETTINGS:
        for source, found in sources:
            if setting.key not in found:
                continue
            try:
                values[setting.field] = parse_value(setting, found[setting.key])
            except ValueError as error:
                name = {"flag": f"--{setting.key}", "environment": setting.variable}.get(source, setting.key)
                where = "" if source in ("flag", "environment") else f" (in {source})"
                raise ConfigError(f"{name}{where}: {error}") from None
            origin[setting.field] = source
            break
    return Loaded(Config(**values), origin)


def suggestion(unknown: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing where nothing is close."""
    bare = {name.lstrip("-"): name for name in known}  # dashes are in all of them, and would make anything look alike
    close = difflib.get_close_matches(unknown.lstrip("-"), list(bare), n=1, cutoff=0.6)
    return f"; did you mean {bare[close[0]]}?" if close else ""


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    known = {setting.variable: setting.key for setting in SETTINGS}
    found: dict[str, Any] = {}
    for variable, value in environ.items():
        if variable in known:
            if not (variable == "FASTQPS_PORT" and value.startswith("tcp://")):  # a service link again
                found[known[variable]] = value
        elif close := _misspelt(variable, known):
            raise ConfigError(f"unknown environment variable {variable}; did you mean {close}?")
    return found


def _from_platform(environ: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """The port that a platform gives. It is the only one, unless the user gives a second one."""
    variable = next(filter(environ.get, PLATFORM_PORTS), "")
    return variable, {"port": environ[variable], "http-port": "off"} if variable else {}


def _misspelt(variable: str, known: Iterable[str]) -> str | None:
    """The setting that was meant. Other tools may use the prefix: only what looks like a setting is an error."""
    if not variable.startswith("FASTQPS_") or variable == FILE_VARIABLE or variable.startswith(_SERVICE_LINKS):
        return None
    return next(iter(difflib.get_close_matches(variable, list(known), n=1, cutoff=0.85)), None)


def _from_file(named: str | None) -> tuple[str, dict[str, Any]]:
    path = Path(named) if named else Path(FILE_NAME)
    if not named and not path.is_file():
        return FILE_NAME, {}
    try:
        found = parse_toml(read_regular(path, _FILE_BYTES_MAX))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    known = [setting.key for setting in SETTINGS]
    for key in found:
        if key not in known:
            raise ConfigError(f"{path}: unknown key {key!r}{suggestion(key.replace('_', '-'), known)}")
    return str(path), found
