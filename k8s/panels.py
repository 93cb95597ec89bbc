"""The dashboard's panels, one table: title, unit, what to look for, and the queries with their legends.

In a query $pods stands for the filter of the dashboard's variables, and $window for the time that rates are taken over;
$window_ms is the same as a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["timeseries", "stat", "heatmap", "state-timeline", "table"]


@dataclass(frozen=True)
class Panel:
    """``queries``: (PromQL, legend). ``stack``: areas, not lines. ``red``: where a value begins to be bad."""

    title: str
    unit: str
    about: str
    queries: tuple[tuple[str, str], ...]
    kind: Kind = "timeseries"
    stack: bool = False
    width: int = 8
    most: float | None = None
    yellow: float | None = None
    red: float | None = None


@dataclass(frozen=True)
class Row:
    title: str
    panels: tuple[Panel, ...]
    folded: bool = False


def _quantiles(metric: str, *shares: float) -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{{$pods}}[$window])))", f"p{share * 100:g}")
        for share in shares
    )


_FAILED = (
    '1 - sum(rate(fastqps_items_total{$pods, code=~"OK|CANCELLED|INVALID_ARGUMENT|NOT_FOUND|OUT_OF_RANGE|'
    'FAILED_PRECONDITION|UNAUTHENTICATED|PERMISSION_DENIED|UNIMPLEMENTED"}[$window])) '
    "/ sum(rate(fastqps_items_total{$pods}[$window]))"
)

OVERVIEW = Row(
    "At a glance",
    (
        Panel("Items per second", "short", "Answered, whatever the code.",
              (("sum(rate(fastqps_items_total{$pods}[$window]))", "items/s"),), "stat", width=4),
        Panel("Failed", "percentunit", "Items whose code the client is not to blame for.",
              ((_FAILED, "failed"),), "stat", width=4, yellow=0.001, red=0.01),
        Panel("p99", "s", "Of calls, from their headers to their answer.",
              _quantiles("fastqps_request_duration_seconds", 0.99), "stat", width=4, yellow=0.05, red=0.1),
        Panel("Saturation", "percentunit", "Mean of the pods; 100 % is the measured knee.",
              (("avg(fastqps_saturation_ratio{$pods})", "mean"),), "stat", width=4, yellow=0.75, red=0.9),
        Panel("Pods that answer", "short", "Prometheus; and those that load balancers should send requests to.",
              (("sum(up{$pods})", "up"), ("sum(fastqps_ready{$pods})", "ready")), "stat", width=4),
        Panel("Pods that the load deserves", "short", "The sum of what each pod advises.",
              (("sum(fastqps_advised_replicas{$pods})", "advised"),), "stat", width=4),
    ),
)  # fmt: skip

TRAFFIC = Row(
    "Traffic and errors",
    (
        Panel("Items per second by code", "short", "Without traffic: are clients connected, below?",
              (('sum by (code) (rate(fastqps_items_total{$pods, model=~"$model"}[$window]))', "{{code}}"),),
              stack=True),
        Panel("Calls per second by method", "short", "A PredictBatch is one call and many items.",
              (("sum by (method) (rate(fastqps_requests_total{$pods}[$window]))", "{{method}}"),), stack=True),
        Panel("Items per second by pod", "short", "Far apart: connections are not spread.",
              (("sum by (pod) (rate(fastqps_items_total{$pods}[$window]))", "{{pod}}"),)),
        Panel("Share that failed", "percentunit", "Items whose code the client is not to blame for.",
              ((_FAILED, "failed"),)),
        Panel("Refused at admission, by reason", "short", "Shed before any work was done. Load, or too short a queue.",
              (("sum by (reason) (rate(fastqps_rejected_total{$pods}[$window]))", "{{reason}}"),), stack=True),
        Panel("Tokens per second by tenant", "short", "Those with the most. Others jump when a tenant gives way.",
              (("topk(10, sum by (tenant) (rate(fastqps_tenant_tokens_total{$pods}[$window])))", "{{tenant}}"),)),
        Panel("Refused by tenant", "short", "One alone sends more than its share. All: load.",
              (("topk(10, sum by (tenant) (rate(fastqps_tenant_refused_total{$pods}[$window])))", "{{tenant}}"),)),
        Panel("Deadlines that passed, by stage", "short", "In queue: too much load. In device: steps are too long.",
              (("sum by (stage) (rate(fastqps_expired_total{$pods}[$window]))", "{{stage}}"),), stack=True),
    ),
)  # fmt: skip

LATENCY = Row(
    "Latency",
    (
        Panel("Calls", "s", "From a call's headers to its answer; PredictStream and Generate are as long as they last.",
              _quantiles("fastqps_request_duration_seconds", 0.5, 0.9, 0.99, 0.999)),
        Panel("Calls, spread", "s", "Two bands: two kinds of requests, or two kinds of pods.",
              (("sum by (le) (rate(fastqps_request_duration_seconds_bucket{$pods}[$window]))", "{{le}}"),), "heatmap"),
        Panel("p99 of each stage", "s", "The stage that grew is where to look.",
              (("histogram_quantile(0.99, sum by (stage, le) "
                "(rate(fastqps_stage_duration_seconds_bucket{$pods}[$window])))", "{{stage}}"),)),
        Panel("Mean of each stage", "s", "Their sum is about the mean of an item.",
              (("sum by (stage) (rate(fastqps_stage_duration_seconds_sum{$pods}[$window])) "
                "/ sum by (stage) (rate(fastqps_stage_duration_seconds_count{$pods}[$window]))", "{{stage}}"),),
              stack=True),
        Panel("p99 by pod", "s", "One apart from the others: look at that pod's saturation and node.",
              (("histogram_quantile(0.99, sum by (pod, le) "
                "(rate(fastqps_request_duration_seconds_bucket{$pods}[$window])))", "{{pod}}"),)),
    ),
)  # fmt: skip

QUEUE = Row(
    "Queue",
    (
        Panel("Items that wait", "short", "A snapshot at each scrape.",
              (('sum by (model) (fastqps_requests_waiting{$pods, model=~"$model"})', "{{model}}"),)),
        Panel("Queue wait, p95", "s", "The last 10 s, the worst pod.",
              (('max by (model) (fastqps_queue_wait_p95_seconds{$pods, model=~"$model"})', "{{model}}"),)),
        Panel("Queue wait, mean", "s", "Exact: time waited over items answered.",
              (("sum(rate(fastqps_queue_wait_seconds_total{$pods}[$window])) "
                "/ sum(rate(fastqps_items_total{$pods}[$window]))", "mean"),)),
        Panel("Items that wait, by class", "short", "Of low while others are served: as the weights say.",
              (('sum by (class) (fastqps_queue_items{$pods, model=~"$model"})', "{{class}}"),), stack=True),
        Panel("Queue wait by class, p99", "s", "High waits no more than a step or two, or has more than its share.",
              (("histogram_quantile(0.99, sum by (class, le) "
                '(rate(fastqps_class_wait_seconds_bucket{$pods, model=~"$model"}[$window])))', "{{class}}"),)),
        Panel("Age of the oldest item", "s", "Grows without falling: a dispatcher hangs.",
              (('max by (pod) (fastqps_queue_oldest_age_seconds{$pods, model=~"$model"})', "{{pod}}"),)),
        Panel("Items in flight, mean", "short", "Exact: the integral's rate. What concurrency targets are about.",
              (("sum by (pod) (rate(fastqps_inflight_seconds_total{$pods}[$window]))", "{{pod}}"),)),
        Panel("Slots in use", "percentunit", "Of the items that the front doors can hold. Full: refused.",
              (("max by (pod) (fastqps_slots_used{$pods} / fastqps_slots{$pods})", "{{pod}}"),), most=1),
        Panel("Running in dispatchers", "short", "Items that a dispatcher holds.",
              (("sum by (pod) (fastqps_requests_running{$pods})", "{{pod}}"),)),
    ),
)  # fmt: skip

SATURATION = Row(
    "Saturation and scaling",
    (
        Panel("Saturation by pod", "percentunit", "100 % is the measured knee; the autoscaler aims at the target.",
              (("fastqps_saturation_ratio{$pods}", "{{pod}}"),
               ("max(fastqps_target_saturation_ratio{$pods})", "target"))),
        Panel("Its highest within 10 s", "percentunit", "Far above the mean: bursts.",
              (("fastqps_saturation_peak_ratio{$pods}", "{{pod}}"),)),
        Panel("Its terms", "percentunit", "The largest is the saturation; the worst pod.",
              (("max by (cause) (fastqps_saturation_term_ratio{$pods})", "{{cause}}"),)),
        Panel("What limits", "short", "Pods whose saturation is of this cause.",
              (("sum by (cause) (fastqps_saturation_cause{$pods})", "{{cause}}"),), stack=True),
        Panel("Pods", "short", "Advised far above those there: a late autoscaler, its maximum, or full nodes.",
              (("sum(fastqps_advised_replicas{$pods})", "advised"), ("sum(up{$pods})", "there"))),
        Panel("Capacity", "short", "With capacity files: items per second at the knee, and those that still fit.",
              (("sum(fastqps_capacity_requests_per_second{$pods})", "capacity"),
               ("sum(fastqps_headroom_requests_per_second{$pods})", "headroom"),
               ("sum(rate(fastqps_items_total{$pods}[$window]))", "load"))),
    ),
)  # fmt: skip

DEVICE = Row(
    "Batches and devices",
    (
        Panel("Duty cycle", "percentunit", "Time in which a step ran. Not how full it was.",
              (("avg by (device) (rate(fastqps_device_active_seconds_total{$pods}[$window]))", "{{device}}"),), most=1),
        Panel("What dispatchers' devices did", "percentunit",
              "Busy, and why not: no_work is spare; gather, launch and scatter are the host's; shared is a neighbour.",
              (("sum(rate(fastqps_device_busy_seconds_total{$pods}[$window])) "
                "/ (sum(rate(fastqps_device_busy_seconds_total{$pods}[$window])) "
                "+ sum(rate(fastqps_device_idle_seconds_total{$pods}[$window])))", "busy"),
               ("sum by (reason) (rate(fastqps_device_idle_seconds_total{$pods}[$window])) / on () group_left () "
                "(sum(rate(fastqps_device_busy_seconds_total{$pods}[$window])) "
                "+ sum(rate(fastqps_device_idle_seconds_total{$pods}[$window])))", "{{reason}}")), stack=True, most=1),
        Panel("Dispatchers' own busy share", "percentunit", "Of a core's time. Near 100 %: more dispatchers, or lanes.",
              (("max by (pod, dispatcher) (rate(fastqps_dispatcher_busy_seconds_total{$pods}[$window]))",
                "{{pod}} {{dispatcher}}"),), most=1),
        Panel("Items in a batch", "short", "Mean, and the median.",
              (("sum by (model) (rate(fastqps_batch_items_sum{$pods}[$window])) "
                "/ sum by (model) (rate(fastqps_batch_items_count{$pods}[$window]))", "{{model}} mean"),
               ("histogram_quantile(0.5, sum by (model, le) (rate(fastqps_batch_items_bucket{$pods}[$window])))",
                "{{model}} p50"))),
        Panel("How full batches are", "percentunit", "Tokens over their room, the last 10 s.",
              (("avg by (model) (fastqps_batch_fill_ratio{$pods})", "{{model}}"),), most=1),
        Panel("Steps per second", "short", "And the items in them, which a generator's sequences are in each step.",
              (("sum by (device) (rate(fastqps_steps_total{$pods}[$window]))", "{{device}}"),
               ("sum by (device) (rate(fastqps_step_items_total{$pods}[$window]))", "{{device}} items"))),
        Panel("Tokens in a batch", "short", "Mean.",
              (("sum by (model) (rate(fastqps_batch_tokens_sum{$pods}[$window])) "
                "/ sum by (model) (rate(fastqps_batch_tokens_count{$pods}[$window]))", "{{model}}"),)),
        Panel("Tokens generated per second", "short", "Of models that generate.",
              (("sum by (model) (rate(fastqps_generated_tokens_total{$pods}[$window]))", "{{model}}"),)),
        Panel("KV cache in use", "percentunit", "Of models that generate: sequences that run, of those that can.",
              (("sum by (model) (fastqps_cache_slots_used{$pods}) / sum by (model) (fastqps_cache_slots{$pods})",
                "{{model}}"),), most=1),
    ),
)  # fmt: skip

PROCESSES = Row(
    "Processes",
    (
        Panel("Processes that serve", "short", "Less than the line before: one is down or starts.",
              (("sum by (role) (fastqps_process_ready{$pods})", "{{role}}"),)),
        Panel("Processes started again", "short", "In each interval, by role. The pod's log says why.",
              (("sum by (role) (increase(fastqps_restarts_total{$pods}[$window]))", "{{role}}"),)),
        Panel("Starts of servers", "short", "1: the pod's server has just started. A rollout, or containers that end.",
              (("max by (pod) (time() - fastqps_start_time_seconds{$pods} < bool $window_ms / 1000)", "{{pod}}"),)),
        Panel("Since a dispatcher last finished something", "s", "Its canary, or real work. Beyond 15 s: stuck.",
              (("max by (pod) (fastqps_canary_age_seconds{$pods})", "{{pod}}"),)),
        Panel("Canaries", "short", "Per second, by outcome.",
              (("sum by (outcome) (rate(fastqps_canaries_total{$pods}[$window]))", "{{outcome}}"),)),
        Panel("Items run again", "short", "After a dispatcher's death; alone, when suspected; given up.",
              (("sum(increase(fastqps_requeued_total{$pods}[$window]))", "again"),
               ("sum(increase(fastqps_suspects_total{$pods}[$window]))", "alone"),
               ("sum(increase(fastqps_poisoned_total{$pods}[$window]))", "given up"))),
        Panel("Cores in use", "short", "By role, of all pods.",
              (("sum by (role) (rate(fastqps_cpu_seconds_total{$pods}[$window]))", "{{role}}"),), stack=True),
        Panel("Memory", "bytes", "By role, the largest pod.",
              (("max by (role) (sum by (pod, role) (fastqps_memory_bytes{$pods}))", "{{role}}"),), stack=True),
        Panel("Connections", "short", "By pod. Few ones cannot be spread over pods and front doors.",
              (("sum by (pod) (fastqps_connections{$pods})", "{{pod}}"),)),
        Panel("Bytes from and to clients", "Bps", "Of all pods.",
              (("sum(rate(fastqps_received_bytes_total{$pods}[$window]))", "received"),
               ("sum(rate(fastqps_sent_bytes_total{$pods}[$window]))", "sent"))),
        Panel("What the transport saw", "short", "Events per second of the HTTP/2 layer.",
              (("sum by (event) (rate(fastqps_transport_events_total{$pods}[$window])) > 0", "{{event}}"),)),
    ),
)  # fmt: skip

CHANGES = Row(
    "Versions and access",
    (
        Panel("Models", "short", "What pods answer with. Two versions of one: a rollout or reload under way.",
              (("count by (model, version) (fastqps_model_info{$pods})", "{{model}}@{{version}}"),), "table"),
        Panel("Reloads", "short", "In each interval, by outcome.",
              (("sum by (model, outcome) (increase(fastqps_reloads_total{$pods}[$window]))",
                "{{model}} {{outcome}}"),)),
        Panel("Server versions", "short", "Pods of each.",
              (("count by (version, device) (fastqps_build_info{$pods})", "{{version}} on {{device}}"),), "table"),
        Panel("Certificate", "s", "Time until it expires, the first pod.",
              (("min(fastqps_tls_certificate_expiry_timestamp_seconds{$pods} - time())", "left"),)),
        Panel("Certificates read again", "short", "In each interval, by outcome.",
              (("sum by (outcome) (increase(fastqps_tls_reloads_total{$pods}[$window]))", "{{outcome}}"),)),
        Panel("Changes that were refused", "short", "Pods that go on with old files or an old version.",
              (("sum by (files) (fastqps_credentials_refused{$pods})", "{{files}}"),
               ("sum by (model) (fastqps_reload_failed{$pods})", "{{model}}"))),
        Panel("Calls without a valid token", "short", "Per second.",
              (("sum(rate(fastqps_unauthenticated_total{$pods}[$window]))", "refused"),)),
        Panel("Trace spans", "short", "Per second, by outcome.",
              (("sum by (outcome) (rate(fastqps_trace_spans_total{$pods}[$window]))", "{{outcome}}"),)),
    ),
)  # fmt: skip

# From NVIDIA's DCGM exporter, where the cluster has it: what a busy device's parts do.
GPU = Row(
    "GPUs (DCGM exporter)",
    (
        Panel("Multiprocessors with work", "percentunit", "A duty cycle of 100 % says nothing of this.",
              (('DCGM_FI_PROF_SM_ACTIVE{namespace="$namespace", pod=~"$pod"}', "{{pod}} {{gpu}}"),), most=1),
        Panel("Tensor cores", "percentunit", "Time in which they worked.",
              (('DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{namespace="$namespace", pod=~"$pod"}', "{{pod}} {{gpu}}"),), most=1),
        Panel("Memory in use", "decmbytes", "Weights, KV caches, graphs.",
              (('DCGM_FI_DEV_FB_USED{namespace="$namespace", pod=~"$pod"}', "{{pod}} {{gpu}}"),)),
        Panel("Power", "watt", "At its limit, clocks fall.",
              (('DCGM_FI_DEV_POWER_USAGE{namespace="$namespace", pod=~"$pod"}', "{{pod}} {{gpu}}"),)),
        Panel("XID errors", "short", "The driver's last fault; 0 is none.",
              (('DCGM_FI_DEV_XID_ERRORS{namespace="$namespace", pod=~"$pod"}', "{{pod}} {{gpu}}"),)),
    ),
    folded=True,
)  # fmt: skip

ROWS = (OVERVIEW, TRAFFIC, LATENCY, QUEUE, SATURATION, DEVICE, PROCESSES, CHANGES, GPU)
