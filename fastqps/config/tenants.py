"""The settings of tenants: the header that names them, and their weights."""

from __future__ import annotations

import re

from fastqps.config.settings import Config
from fastqps.errors import ConfigError

WEIGHTS_MAX = 256
WEIGHT_MAX = 1000
_NAME_BYTES_MAX = 280  # of a tenant's name, or of a certificate's subject with what stands in front of it
_HEADER = re.compile(r"[a-z0-9._-]{1,64}")
# A name may hold commas and equals signs, as certificates' subjects do.
_WEIGHT = re.compile(r"(?P<name>.+?)=(?P<weight>\d{1,9})(?:,|$)")
# Headers that say something else, to the server or to HTTP.
_TAKEN = frozenset(
    [
        *("accept", "authorization", "connection", "content-encoding", "content-length", "content-type", "expect"),
        *("fastqps-group", "host", "inference-header-content-length", "keep-alive", "proxy-connection", "te"),
        *("traceparent", "tracestate", "transfer-encoding", "upgrade"),
    ]
)


def tenant_header(config: Config) -> str:
    """The header by which calls name their tenant, in lower case; "": none. Raises ``ConfigError``."""
    name = config.tenant_metadata.lower()
    if name and (not _HEADER.fullmatch(name) or name.endswith("-bin")):
        raise ConfigError(
            f"--tenant-metadata {config.tenant_metadata!r}: a header's name has 1 to 64 letters, digits, dots, dashes "
            "and underscores, and does not end with -bin"
        )
    if name in _TAKEN or name.startswith("grpc-"):
        raise ConfigError(f"--tenant-metadata {name}: this header has another meaning; take a name of your own")
    return name


def tenant_weights(config: Config) -> tuple[tuple[str, int], ...]:
    """Tenants and their weights, as ``--tenant-weights`` lists them. Raises ``ConfigError``."""
    found: dict[str, int] = {}
    at, text = 0, config.tenant_weights
    while at < len(text):
        match = _WEIGHT.match(text, at)
        if not match:
            raise ConfigError(f"--tenant-weights: {text[at:][:80]!r} is not NAME=WEIGHT")
        at, name, weight = match.end(), match["name"].strip(), int(match["weight"])
        if not 1 <= weight <= WEIGHT_MAX:
            raise ConfigError(f"--tenant-weights: the weight of {name!r} is {weight}, must be 1 to {WEIGHT_MAX}")
        if not name:
            raise ConfigError(f"--tenant-weights: the tenant with the weight {weight} has no name")
        if (length := len(name.encode())) > _NAME_BYTES_MAX:
            raise ConfigError(
                f"--tenant-weights: the name {name[:40]!r}... has {length} bytes, at most {_NAME_BYTES_MAX}"
            )
        if name in found:
            raise ConfigError(f"--tenant-weights: {name!r} is given twice")
        found[name] = weight
    if len(found) > WEIGHTS_MAX:
        raise ConfigError(f"--tenant-weights: {len(found)} tenants, at most {WEIGHTS_MAX}")
    return tuple(found.items())
