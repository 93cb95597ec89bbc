"""What may happen to a deployment, as series that Prometheus has scraped, and which alarms ring then."""

from __future__ import annotations

# A deployment of two pods that is well: series → promtool's notation for its values. Scrapes are at other times than
# evaluations, as in life: only so `increase` has to guess what lies beyond the first scrape and the last.
SCRAPE_S = 16
POD = 'namespace="{namespace}", job="fastqps", pod="p{number}"'
WELL = "fastqps"  # the namespace that `absent` asks for
HEALTHY = {
    "up": "1+0x400",
    "fastqps_ready": "1+0x400",
    "fastqps_process_ready{role='dispatcher', index='0'}": "1+0x400",
    "fastqps_restarts_total{role='dispatcher'}": "0+0x400",
    "fastqps_start_time_seconds": "100+0x400",
    "fastqps_canary_age_seconds{dispatcher='0'}": "0.5+0x400",
    "fastqps_poisoned_total": "0+0x400",
    "fastqps_saturation_ratio": "0.65+0x400",
    "fastqps_advised_replicas": "1+0x400",
    "fastqps_items_total{model='m', code='OK'}": "0+15000x400",
    "fastqps_items_total{model='m', code='INVALID_ARGUMENT'}": "0+1500x400",
    "fastqps_items_total{model='m', code='INTERNAL'}": "0+1x400",
    "fastqps_rejected_total{reason='queue_full'}": "0+1x400",
    "fastqps_expired_total{stage='queue'}": "0+1x400",
    "fastqps_class_oldest_age_seconds{model='m', class='high'}": "0.01+0x400",
    "fastqps_class_oldest_age_seconds{model='m', class='low'}": "30+0x400",
    "fastqps_class_wait_seconds_bucket{model='m', class='high', le='0.1'}": "0+1500x400",
    "fastqps_class_wait_seconds_bucket{model='m', class='high', le='2'}": "0+1510x400",
    "fastqps_class_wait_seconds_bucket{model='m', class='high', le='+Inf'}": "0+1510x400",
    "fastqps_class_wait_seconds_bucket{model='m', class='low', le='0.1'}": "0+0x400",
    "fastqps_class_wait_seconds_bucket{model='m', class='low', le='+Inf'}": "0+1500x400",
    "fastqps_request_duration_seconds_bucket{le='0.01'}": "0+15000x400",
    "fastqps_request_duration_seconds_bucket{le='0.1'}": "0+15090x400",
    "fastqps_request_duration_seconds_bucket{le='1'}": "0+15100x400",
    "fastqps_request_duration_seconds_bucket{le='+Inf'}": "0+15100x400",
    "fastqps_device_busy_seconds_total{device='d', dispatcher='0'}": "0+12x400",
    "fastqps_device_idle_seconds_total{device='d', dispatcher='0', reason='no_work'}": "0+2x400",
    "fastqps_device_idle_seconds_total{device='d', dispatcher='0', reason='launch'}": "0+1x400",
    "fastqps_model_info{model='m', version='a', generation='0'}": "1+0x400",
    "fastqps_reloads_total{model='m', outcome='failed'}": "0+0x400",
    "fastqps_reloads_total{model='m', outcome='reloaded'}": "0+1x400",
    "fastqps_reload_failed{model='m'}": "0+0x400",
    "fastqps_tls_certificate_expiry_timestamp_seconds": "2592000+0x400",
    "fastqps_tls_reloads_total{outcome='failed'}": "0+0x400",
    "fastqps_credentials_refused{files='tls'}": "0+0x400",
    "fastqps_unauthenticated_total": "0+1x400",
    "fastqps_transport_events_total{event='made_room'}": "0+0x400",
    "fastqps_trace_spans_total{outcome='dropped'}": "0+0x400",
    "fastqps_upstream_state{upstream='u', state='serving'}": "2+0x400",
    "fastqps_upstream_state{upstream='u', state='mismatch'}": "0+0x400",
}
FAILING = {"fastqps_items_total{model='m', code='INTERNAL'}": "0+1500x400"}
# Alarm → what is different (in both pods; in the first alone where the name begins with "0:"), and what rings besides.
CASES: dict[str, tuple[dict[str, str], set[str]]] = {
    "FastqpsErrorBudgetBurnsFast": (FAILING, {"FastqpsErrorBudgetBurnsSlowly"}),
    "FastqpsErrorBudgetBurnsSlowly": (
        {"fastqps_items_total{model='m', code='UNAVAILABLE'}": "0+150x400"},
        set(),
    ),
    "FastqpsSlow": ({"fastqps_request_duration_seconds_bucket{le='0.1'}": "0+14000x400",
                     "fastqps_request_duration_seconds_bucket{le='0.01'}": "0+13000x400"}, set()),
    "FastqpsAbsent": ({}, set()),
    "FastqpsOutage": ({"fastqps_ready": "0+0x400"}, set()),
    "FastqpsDown": ({"0:up": "0+0x400"}, {"FastqpsTooFewPods"}),
    "FastqpsProcessDown": ({"0:fastqps_process_ready{role='dispatcher', index='0'}": "0+0x400"}, set()),
    "FastqpsRestarts": ({"0:fastqps_restarts_total{role='dispatcher'}": "0+0x190 1 2 3 3+0x200"}, set()),
    "FastqpsPodRestarts": ({"0:fastqps_start_time_seconds": "100+0x190 200 300 300+0x200"}, set()),
    "FastqpsCanaryLate": ({"0:fastqps_canary_age_seconds{dispatcher='0'}": "0+15x400"}, set()),
    "FastqpsPoison": ({"0:fastqps_poisoned_total": "0+0x195 1+0x200"}, set()),
    "FastqpsNoUpstream": ({"0:fastqps_upstream_state{upstream='u', state='serving'}": "0+0x400"}, set()),
    "FastqpsUpstreamRefuses": ({"0:fastqps_upstream_state{upstream='u', state='mismatch'}": "1+0x400"}, set()),
    "FastqpsSaturated": ({"fastqps_saturation_ratio": "0.95+0x400"}, set()),
    "FastqpsTooFewPods": ({"fastqps_advised_replicas": "1.5+0x400"}, set()),
    "FastqpsUnbalanced": ({"0:fastqps_saturation_ratio": "0.9+0x400",
                           "1:fastqps_saturation_ratio": "0.2+0x400"}, set()),
    "FastqpsRefuses": ({"0:fastqps_rejected_total{reason='queue_full'}": "0+300x400"}, set()),
    "FastqpsExpires": ({"0:fastqps_expired_total{stage='queue'}": "0+300x400"}, set()),
    "FastqpsQueueStands": (
        {"0:fastqps_class_oldest_age_seconds{model='m', class='high'}": "0+15x400"},
        set(),
    ),
    "FastqpsLowStarves": (
        {"0:fastqps_class_oldest_age_seconds{model='m', class='low'}": "0+15x400"},
        set(),
    ),
    "FastqpsHighWaits": (
        {"fastqps_class_wait_seconds_bucket{model='m', class='high', le='0.1'}": "0+1000x400"},
        set(),
    ),
    "FastqpsDeviceWaitsForHost": (
        {"fastqps_device_idle_seconds_total{device='d', dispatcher='0', reason='launch'}": "0+9x400"},
        set(),
    ),
    "FastqpsVersionsDiffer": ({"1:fastqps_model_info{model='m', version='a', generation='0'}": "",
                               "1:fastqps_model_info{model='m', version='b', generation='0'}": "1+0x400"}, set()),
    # Once, at the start: nobody has mended it since.
    "FastqpsReloadFailed": ({"0:fastqps_reloads_total{model='m', outcome='failed'}": "0 1+0x400",
                             "0:fastqps_reload_failed{model='m'}": "0 1+0x400"}, set()),
    "FastqpsCertificateExpires": ({"0:fastqps_tls_certificate_expiry_timestamp_seconds": "260000+0x400"}, set()),
    "FastqpsCertificateExpiresToday": ({"0:fastqps_tls_certificate_expiry_timestamp_seconds": "86400+0x400"},
                                       {"FastqpsCertificateExpires"}),
    "FastqpsCredentialsRefused": ({"0:fastqps_tls_reloads_total{outcome='failed'}": "0 1+0x400",
                                   "0:fastqps_credentials_refused{files='tls'}": "0 1+0x400"}, set()),
    "FastqpsUnauthenticated": ({"fastqps_unauthenticated_total": "0+300x400"}, set()),
    "FastqpsConnectionsFull": ({"0:fastqps_transport_events_total{event='made_room'}": "0+15x400"}, set()),
    "FastqpsSpansDropped": ({"fastqps_trace_spans_total{outcome='dropped'}": "0+300x400"}, set()),
}  # fmt: skip
# What else may happen → what is different, and what rings.
NOBODY_ANSWERS = {**dict.fromkeys(HEALTHY, ""), "up": "0+0x400"}
EXPIRED = {"fastqps_tls_certificate_expiry_timestamp_seconds": "1000+0x400"}
MORE: dict[str, tuple[dict[str, str], set[str]]] = {
    "nobody-answers": (NOBODY_ANSWERS, {"FastqpsOutage", "FastqpsDown"}),
    "expired": (EXPIRED, {"FastqpsCertificateExpires", "FastqpsCertificateExpiresToday"}),
}
# Of which nobody hears, then or at any time before.
QUIET: dict[str, dict[str, str]] = {
    # Nine minutes of an hour: graphs are captured, one device after the other. Again after one death.
    "quiet-slow-start": {
        "0:fastqps_ready": "0+0x34 1+0x400",
        "0:fastqps_process_ready{role='dispatcher', index='0'}": "0+0x34 1+0x60 0+0x34 1+0x400",
        "0:fastqps_restarts_total{role='dispatcher'}": "0+0x94 1+0x400",
    },
    # Servers are restarted with another version, and the edge follows.
    "quiet-mismatch": {
        "0:fastqps_upstream_state{upstream='u', state='serving'}": "2+0x100 1+0x20 2+0x400",
        "0:fastqps_upstream_state{upstream='u', state='mismatch'}": "0+0x100 1+0x20 0+0x400",
    },
    "quiet-two-deaths": {"0:fastqps_restarts_total{role='dispatcher'}": "0+0x190 1 2 2+0x200"},
}


def series(namespace: str, changes: dict[str, str]) -> list[dict[str, str]]:
    """Two healthy pods of that namespace, with changes; without values there is no such series."""
    found = []
    for number in (0, 1):
        own = dict(HEALTHY)
        for name, values in changes.items():
            for_pod, _, bare = name.rpartition(":") if name[1:2] == ":" else ("", "", name)
            if for_pod in ("", str(number)):
                own[bare] = values
        for name, values in own.items():
            metric, _, labels = name.partition("{")
            pod = POD.format(namespace=namespace, number=number)
            text = f"{metric}{{{pod}{', ' if labels else ''}{labels or '}'}"
            if values:
                found.append({"series": text.replace("'", '"'), "values": values})
    return found
