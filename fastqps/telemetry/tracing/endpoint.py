"""The destination of spans: ``--otlp-endpoint``, or OpenTelemetry's own environment variables."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from urllib.parse import urlsplit

from fastqps.errors import ConfigError

VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.grpc")
_INSTALL = "pip install 'fastqps[tracing]'"


def find_endpoint(flag: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """(the URL of a collector that takes OTLP over gRPC, or nothing for no tracing; what there is to say about that).

    ``ConfigError`` for a flag that cannot be followed. A variable is often set for all programs of a machine, so one
    that cannot be followed here only turns tracing off, with a note.
    """
    if flag:
        return _checked("--otlp-endpoint", flag), ""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return "", ""
    name = next((name for name in VARIABLES if environment.get(name)), None)
    if name is None:
        return "", ""
    try:
        return _checked(name, environment[name]), ""
    except ConfigError as error:
        return "", f"no tracing: {error}"


def _checked(name: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.path in ("", "/")
        good = good and not parts.query and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is no number, or too large
        good = False
    if not good:
        raise ConfigError(f"{name} {url!r}: not the URL of an OTLP collector such as http://collector:4317 (gRPC)")
    if not all(map(_installed, _PACKAGES)):
        raise ConfigError(f"{name}: OpenTelemetry is not installed; install it with: {_INSTALL}")
    return url if parts.port else f"{parts.scheme}://{parts.netloc}:4317"


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # its parent is not there
        return False
