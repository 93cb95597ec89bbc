"""The order in which ``fastqps serve --help`` and docs/settings.md show the settings: by purpose, common ones first."""

from __future__ import annotations

from fastqps.config.settings import SETTINGS, Setting

_KEYS: dict[str, str] = {
    "Common": "model adapter device host port http-port admin-port dispatchers lanes max-batch-items max-input-tokens "
    "max-output-tokens dtype quantization",
    "Models of the hub": "hub-offline",
    "Edge": "upstream upstream-tls-ca upstream-tls-cert upstream-tls-key upstream-token-file",
    "Batching and memory": "max-batch-tokens max-batch-delay max-step-time max-running slots prefix async-steps "
    "share-weights kernels",
    "Limits of clients": "allow-single-texts max-queue-items class-weights tenant-metadata tenant-weights "
    "max-message-bytes max-tokenize-bytes max-request-items max-stream-inflight auto-truncate default-timeout "
    "max-timeout stream-idle-timeout max-connection-age",
    "Start, stop and recovery": "allow-output-change drain-timeout lame-duck step-timeout canary-interval rerun",
    "Security": "tls-cert tls-key tls-client-ca auth-token-file admin-host cors",
    "Metrics, tracing and scaling": "capacity target-saturation queue-budget load-reports otlp-endpoint trace-ratio",
    "Processes": "frontdoors pin mps",
}


def grouped() -> dict[str, tuple[Setting, ...]]:
    """Every setting once, under the title of its group."""
    settings = {setting.key: setting for setting in SETTINGS}
    found = {title: tuple(settings.pop(key) for key in keys.split()) for title, keys in _KEYS.items()}
    if settings:
        raise AssertionError(f"settings without a group: {', '.join(settings)}")
    return found
