"""The settings of an edge, a server that computes nothing itself: ``--device remote`` sends its steps to upstreams."""

from __future__ import annotations

import re

from fastqps.config.settings import SETTINGS, Config
from fastqps.errors import ConfigError

REMOTE = "remote"
DISPATCHERS_CORES = 4  # from so many on, an edge has two dispatchers of each model
MESSAGE_ITEMS = 256  # of one message: longer ones save little, and the last item waits for the first
MESSAGE_ITEMS_MOST = 1024  # that a server reads (kStepItemsMax in csrc/edge/messages/step_message.h)
UPSTREAMS_MAX = 64  # names; each may have several addresses
_DNS = "dns:///"
_HOST = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")
_PORT_MAX = 65535
# They say how steps are computed, which is the upstreams' matter.
_OF_STEPS = (
    *("dtype", "quantization", "kernels", "share_weights", "mps", "async_steps", "max_running"),
    *("max_batch_tokens", "max_batch_delay_ns", "max_step_time_ns"),
)
_OF_UPSTREAMS = ("upstream", "upstream_tls_ca", "upstream_tls_cert", "upstream_tls_key", "upstream_token_file")

Address = tuple[str, int]  # host, as a name or an IP address without brackets; port


def check_edge(config: Config, device: str) -> None:
    """Raises ``ConfigError`` for settings that do not go with the device, and for addresses that are none."""
    if device != REMOTE:
        if given := _given(config, _OF_UPSTREAMS):
            raise ConfigError(f"--{given}: only --device {REMOTE} sends to upstreams, and the device is {device}")
        return
    if given := _given(config, _OF_STEPS):
        raise ConfigError(f"--{given}: an edge computes no steps; set it on the servers that --upstream names")
    upstreams(config)
    if (config.max_batch_items or 0) > MESSAGE_ITEMS_MOST:
        raise ConfigError(
            f"--max-batch-items {config.max_batch_items}: a message of an edge holds at most {MESSAGE_ITEMS_MOST} "
            "requests"
        )
    if bool(config.upstream_tls_cert) != bool(config.upstream_tls_key):
        have, lack = ("cert", "key") if config.upstream_tls_cert else ("key", "cert")
        raise ConfigError(f"--upstream-tls-{have} needs --upstream-tls-{lack} too: a certificate and its key")
    if config.upstream_tls_cert and not config.upstream_tls_ca:
        raise ConfigError("--upstream-tls-cert needs --upstream-tls-ca: certificates are shown under TLS")


def upstreams(config: Config) -> tuple[Address, ...]:
    """The names and ports that ``--upstream`` lists. Raises ``ConfigError``."""
    if not config.upstream:
        raise ConfigError(f"--device {REMOTE} needs --upstream HOST:PORT, the server that computes")
    found = tuple(map(parse_upstream, config.upstream))
    if len(found) > UPSTREAMS_MAX:
        raise ConfigError(f"--upstream: {len(found)} names; at most {UPSTREAMS_MAX}, each of which may have addresses")
    if twice := next((host for host, port in found if found.count((host, port)) > 1), None):
        raise ConfigError(f"--upstream: {twice} is given twice with the same port")
    return found


def parse_upstream(text: str) -> Address:
    """HOST:PORT, [IPv6]:PORT, or the same behind dns:///, which changes nothing: every name is looked up again and
    again. Raises ``ConfigError``."""
    host, colon, port = text.removeprefix(_DNS).rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    number = int(port) if port.isdecimal() and len(port) < 6 else 0
    if not colon or not 1 <= number <= _PORT_MAX or not (":" in host if bracketed else _HOST.fullmatch(host)):
        raise ConfigError(
            f"--upstream {text[:300]!r}: write HOST:PORT, [IPv6]:PORT, or a name with several addresses as "
            f"{_DNS}HOST:PORT"
        )
    return host, number


def upstream_files(config: Config) -> tuple[str, str, str, str]:
    """The paths of the authorities, the certificate, its key and the token for upstreams; "" for what is not set."""
    return config.upstream_tls_ca, config.upstream_tls_cert, config.upstream_tls_key, config.upstream_token_file


def _given(config: Config, fields: tuple[str, ...]) -> str:
    """The key of the first of these settings that is not as it is by default; "": none."""
    settings = {setting.field: setting for setting in SETTINGS}
    return next((settings[field].key for field in fields if getattr(config, field) != settings[field].default), "")
