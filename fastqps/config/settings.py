"""Every setting of ``fastqps serve``, once: its name, kind, default, range and meaning.

The command line, the environment, the file, ``--print-config`` and docs/settings.md all follow from this table.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from fastqps.config.units import format_bytes, format_duration

Kind = Literal["text", "texts", "count", "bytes", "duration", "ratio", "switch"]


@dataclass(frozen=True)
class Meaning:
    """A field of ``Config`` as a user sees it. ``only``: the values that this version supports; ``reason``: why."""

    kind: Kind
    help: str
    least: int = 0
    most: int = (1 << 31) - 1
    choices: tuple[str, ...] = ()
    auto: str = ""  # what `auto` means; "": the setting has no such value
    floor: float = 0.0  # of a ratio, which is at most 1: the least
    metavar: str = ""  # for the command line; "": the choices, else the kind's


def _setting(default: Any, kind: Kind, help: str, **more: Any) -> Any:
    return dataclasses.field(default=default, metadata={"meaning": Meaning(kind, help, **more)})


@dataclass(frozen=True)
class Config:
    """All settings of one server, checked. None in a field that has an ``auto``: not decided yet (``decide``; of
    the queue's budget never, it follows the steps)."""

    model: tuple[str, ...] = _setting(
        (),
        "texts",
        "Model to serve: minilm, grammar, a checkpoint directory, or NAME=DIR. Repeat the flag for more; in the "
        "environment separate with commas. The first is the default model of requests that name none.",
        auto="minilm, if its weights are installed",
        metavar="NAME_OR_DIR",
    )
    device: str = _setting(
        "auto",
        "text",
        "Where models run: auto (cuda where there is a GPU that torch can use, else cpu), cuda (every GPU that "
        "CUDA_VISIBLE_DEVICES leaves) or cuda:0,1 (these), cpu, null (computes nothing), or sim:PROFILE (a modelled "
        "device; several, separated by commas, are served side by side). See docs/devices.md and docs/gpu.md.",
        metavar="DEVICE",
    )
    host: str = _setting(
        "127.0.0.1", "text", "Address to listen on. 0.0.0.0 or :: for all interfaces.", metavar="ADDRESS"
    )
    port: int = _setting(50051, "count", "gRPC port. 0: any free one, printed at start.", most=65535, metavar="PORT")
    admin_port: int = _setting(
        9464, "count", "Port of metrics and health. 0: any free one.", most=65535, metavar="PORT"
    )
    frontdoors: int | None = _setting(
        None, "count", "Front door processes.", least=1, most=32, auto="one for each 4 cores, at least 1"
    )
    dispatchers: int | None = _setting(
        None,
        "count",
        "Dispatcher processes of each model and device.",
        least=1,
        most=64,
        auto="half of the cores, divided among the models, at least 1; on cuda and sim 1",
    )
    lanes: int | None = _setting(
        None,
        "count",
        "Steps that a dispatcher runs side by side, each with another one prepared behind it; on cpu they share its "
        "threads, and of a generator each lane runs --max-running sequences.",
        least=1,
        most=8,
        auto="2 on cuda, else 1",
    )
    max_batch_items: int | None = _setting(
        None,
        "count",
        "Most requests in a batch; a generator's steps hold --max-running instead.",
        least=1,
        most=4096,
        auto="64 on cpu, 1024 on cuda, 256 on null and sim",
    )
    max_batch_tokens: int | None = _setting(
        None,
        "count",
        "Most tokens in a batch; at least --max-input-tokens. A generator's steps have room for its longest prompt and "
        "one token of each of --max-running sequences.",
        least=1,
        most=1 << 20,
        auto="4096 on cpu, 16384 elsewhere, and never less than --max-input-tokens and --max-running (or 1024) "
        "together",
    )
    max_batch_delay_ns: int = _setting(
        0, "duration", "How long an idle dispatcher waits for more requests before it runs a small batch.", most=10**9
    )
    max_queue_items: int = _setting(
        4096, "count", "Most requests of a model that wait; more are refused.", least=1, most=1 << 22
    )
    max_input_tokens: int | None = _setting(
        None,
        "count",
        "Longest input; a model's own limit holds if it is smaller, a generator's less --max-output-tokens and "
        "the prefix. It must have room for the tokenizer's special tokens and a token of each text of a pair.",
        least=1,
        most=8192,
        auto="an encoder's own limit, 8192 at most; 512 of a generator",
    )
    max_output_tokens: int = _setting(
        128, "count", "Most tokens that a request can have generated.", least=1, most=8192
    )
    slots: int | None = _setting(
        None,
        "count",
        "Requests that a front door can hold, waiting and running. A power of two. (Not a generator's places in its KV "
        "cache: those are --max-running.)",
        least=16,
        most=1 << 20,
        auto="8192, or as many, 1024 at least, as hold the longest inputs in 64 MiB",
    )
    max_running: int | None = _setting(
        None,
        "count",
        "Most sequences that a generator's dispatcher runs at a time; each has its place in the KV cache.",
        least=1,
        most=1 << 16,
        auto="1024, or as many as --max-batch-tokens and --slots have room for and a quarter of the memory holds (on "
        "cuda half of the GPU's)",
    )
    async_steps: bool = _setting(
        True,
        "switch",
        "Prepare the next step while one runs. off: one step after the other, with the same answers, for comparison.",
    )
    preparation: str = _setting(
        "native",
        "text",
        "What prepares a step's tensors: native (C++), or python, as other runtimes do it, with the same answers, for "
        "comparison.",
        choices=("native", "python"),
    )
    max_stream_inflight: int = _setting(
        1024, "count", "Most requests of one PredictStream call in flight; then it is not read.", least=1, most=1 << 16
    )
    max_message_bytes: int = _setting(4 << 20, "bytes", "Longest request message.", least=1 << 10, most=1 << 28)
    default_timeout_ns: int = _setting(
        10 * 10**9,
        "duration",
        "Longest time allowed for a request; a deadline of its own that is earlier holds. 0: no limit.",
        most=3600 * 10**9,
    )
    step_timeout_ns: int = _setting(
        30 * 10**9,
        "duration",
        "A dispatcher whose batch takes longer, or a front door whose event loop stands still as long, is killed and "
        "restarted. 0: never.",
        most=86400 * 10**9,
    )
    drain_timeout_ns: int = _setting(
        30 * 10**9, "duration", "Time to finish open requests at SIGTERM; then exit code 5.", most=86400 * 10**9
    )
    lame_duck_ns: int = _setting(
        0,
        "duration",
        "How long the server still serves after SIGTERM, already not ready, before it drains: time for load balancers "
        "to look and for Kubernetes to spread the word. It comes on top of --drain-timeout. 0: none.",
        most=3600 * 10**9,
    )
    canary_interval_ns: int = _setting(
        10**9,
        "duration",
        "A dispatcher that has finished no step for so long gets a request of the server's own, one token long, to "
        "show that it would; see docs/operations.md. 0: never.",
        most=3600 * 10**9,
    )
    max_connection_age_ns: int = _setting(
        30 * 60 * 10**9,
        "duration",
        "After so long (10 % more or less) a client connection gets a GOAWAY, its calls are finished, and its client "
        "connects again, perhaps to a newer server. 0: never.",
        most=7 * 86400 * 10**9,
    )
    stream_idle_timeout_ns: int = _setting(
        5 * 60 * 10**9,
        "duration",
        "A PredictStream call without a message for so long, and without an answer to come, ends with UNAVAILABLE. "
        "While nearly all calls of a front door are in use, the oldest idle ones end after a second. 0: never.",
        most=7 * 86400 * 10**9,
    )
    allow_single_texts: bool = _setting(
        False,
        "switch",
        "Cross-encoders, which score pairs of texts, take single texts, too. off: they are refused, as a pair was "
        "probably meant.",
    )
    allow_output_change: bool = _setting(
        False,
        "switch",
        "A reload may change a model's number of dimensions, or its labels. off: it is refused, and what serves goes "
        "on serving: clients may have stored what they got.",
    )
    dtype: str = _setting(
        "auto",
        "text",
        "Number format of the computation; auto takes bfloat16 where the device computes it natively. float16 is for "
        "cuda.",
        choices=("auto", "float32", "bfloat16", "float16"),
    )
    quantization: str = _setting(
        "none",
        "text",
        "Matrix products of a model's inner layers in FP8, on cpu and cuda: fp8, all but attention's output "
        "projection; auto, those for which FP8 is faster, as the first start measures it and stores beside the model. "
        "See docs/quantization.md.",
        choices=("none", "fp8", "auto"),
    )
    kernels: str = _setting(
        "auto",
        "text",
        "What computes on cuda between the matrix products: auto tries each own kernel at start and takes torch's "
        "operation where it fails or gives other numbers; own and torch take one of them, unchecked. See "
        "docs/kernels.md.",
        choices=("auto", "own", "torch"),
    )
    pin: str = _setting(
        "auto",
        "text",
        "CPUs for the server's processes: auto gives each its own where there are enough, the dispatchers of a GPU "
        "some that are near it, and pins nothing otherwise; "
        "off never pins; a LIST (0-3,8) confines the server to these CPUs and then does as auto.",
        metavar="auto|off|LIST",
    )
    mps: str = _setting(
        "auto",
        "text",
        "Whether dispatchers that share a GPU run on it at the same time, under an MPS daemon that the server starts "
        "for itself: auto starts one where two or more share a GPU and, where it cannot be had, warns and lets them "
        "take turns; on ends the start then (exit code 3); off never starts one.",
        choices=("off", "auto", "on"),
    )
    share_weights: bool = _setting(
        False,
        "switch",
        "One copy of a model's weights for all of its dispatchers on a GPU, held by a process of its own. It saves "
        "memory; when that process ends, all of them start again.",
    )
    prefix: tuple[str, ...] = _setting(
        (),
        "texts",
        "UTF-8 text file, put in front of every prompt of the models that generate, as it is to the last byte; its "
        "part of the KV cache is computed once. NAME=FILE for one of several models; repeat the flag for more.",
        metavar="FILE",
    )
    capacity: str = _setting(
        "",
        "text",
        "What this deployment can do, as measured: the capacity.json that fastqps bench find-max writes. Its metrics "
        "then say how much of that is used. For a server of one model.",
        metavar="FILE",
    )
    rerun: bool = _setting(
        True, "switch", "Run a request again whose dispatcher died while it ran. off: it is answered INTERNAL."
    )
    tls_cert: str = _setting(
        "",
        "text",
        "PEM file with the server's certificate, and behind it those that lead to its issuer: clients must then use "
        "TLS. Read again when it changes, as the next two and the tokens are. See docs/security.md.",
        metavar="FILE",
    )
    tls_key: str = _setting("", "text", "PEM file with the key of --tls-cert, without a password.", metavar="FILE")
    tls_client_ca: str = _setting(
        "",
        "text",
        "PEM file with certificate authorities: a client must then show a certificate that one of them has signed.",
        metavar="FILE",
    )
    auth_token_file: str = _setting(
        "",
        "text",
        "File with one token a line, lines with # left out: every call but health, and every POST on the admin port, "
        "must then carry one of them (authorization: Bearer TOKEN).",
        metavar="FILE",
    )
    admin_host: str = _setting(
        "127.0.0.1",
        "text",
        "Address of the admin port. 0.0.0.0 or :: for all interfaces; it has no TLS.",
        metavar="ADDRESS",
    )
    load_reports: bool = _setting(
        False,
        "switch",
        "Whether answers carry the server's load (ORCA) for clients and proxies that balance on it: at most one answer "
        "of a connection in 100 ms. Streams of reports are served in any case. See docs/load-balancing.md.",
    )
    target_saturation: float = _setting(
        0.65,
        "ratio",
        "How much of its capacity a server should use; the metrics advise as many servers as that takes. 0.05 to 1. "
        "See docs/operations.md.",
        floor=0.05,
    )
    queue_budget_ns: int | None = _setting(
        None,
        "duration",
        "How long requests may wait before the server counts as saturated (p95 of 10 s); a capacity file with an SLO "
        "of its p99 says it instead.",
        least=1000,
        most=3600 * 10**9,
        auto="four usual steps, 5ms at the least, beyond the one that every request may find running and "
        "`--max-batch-delay`",
    )
    otlp_endpoint: str = _setting(
        "",
        "text",
        "Where spans of traced calls go: the URL of an OpenTelemetry collector that takes OTLP over gRPC, "
        "http://collector:4317. Without it OTEL_EXPORTER_OTLP_ENDPOINT holds, and without both nothing is traced. See "
        "docs/tracing.md.",
        metavar="URL",
    )
    trace_ratio: float = _setting(
        0.001,
        "ratio",
        "Of the calls whose clients say nothing about it (no traceparent), the share that is traced. 0: none of them.",
    )


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    field: str
    default: Any
    meaning: Meaning

    @property
    def key(self) -> str:
        """The name in the file; the flag is ``--key``."""
        return self.field.removesuffix("_ns").replace("_", "-")

    @property
    def variable(self) -> str:
        """The name in the environment."""
        return "FASTQPS_" + self.key.upper().replace("-", "_")

    def format(self, value: Any) -> str:
        """``value`` as a user would write it on the command line."""
        if value is None:
            return "auto"
        match self.meaning.kind:
            case "duration":
                return format_duration(value)
            case "bytes":
                return format_bytes(value)
            case "ratio":
                return repr(value)
            case "switch":
                return "on" if value else "off"
            case "texts":
                return ",".join(value)
        return str(value)


SETTINGS: tuple[Setting, ...] = tuple(
    Setting(f.name, f.default, f.metadata["meaning"]) for f in dataclasses.fields(Config)
)
