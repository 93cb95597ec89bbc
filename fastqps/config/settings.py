"""Every setting of ``fastqps serve``, once: its name, kind, default, range and meaning.

The command line, the environment, the file, ``--print-config`` and docs/settings.md all follow from this table.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from fastqps.config.units import format_bytes, format_duration

Kind = Literal["text", "texts", "count", "bytes", "duration", "ratio", "switch", "weights", "port", "route"]


OFF = -1
UNIX = "unix:"  # a port that begins with it is the path of a socket


@dataclass(frozen=True)
class Meaning:
    """A field of ``Config`` as a user sees it. ``only``: the values that this version supports; ``reason``: why."""

    kind: Kind
    help: str
    least: int = 0
    most: int = (1 << 31) - 1
    choices: tuple[str, ...] = ()
    has_off: bool = False  # a count: `off` is a value, too, OFF in the configuration
    auto: str = ""  # what `auto` means; "": the setting has no such value
    floor: float = 0.0  # of a ratio, which is at most 1: the least
    door: bool = False  # each front door has the value as it is: csrc/contract/settings.h lists it
    has_names: bool = False  # of texts: NAME,ALIAS= may stand before a value
    metavar: str = ""  # for the command line; "": the choices, else the kind's


def _setting(default: Any, kind: Kind, help: str, **more: Any) -> Any:
    least = int(kind in ("count", "weights"))  # where a setting says nothing else
    return dataclasses.field(default=default, metadata={"meaning": Meaning(kind, help, **{"least": least, **more})})


@dataclass(frozen=True)
class Config:
    """All settings of one server, checked. None in a field that has an ``auto``: not decided yet (``decide``; never of
    the queue's budget, which follows the steps, nor of what a start measures)."""

    model: tuple[str, ...] = _setting(
        (),
        "texts",
        "Model to serve: minilm, grammar, a checkpoint directory, OWNER/NAME@REVISION of the Hugging Face hub (hub: in "
        "front says so even where there is such a folder), or NAME= and one of these; NAME,ALIAS= gives it more names. "
        "Repeat the flag for more; in the environment separate with commas. The first is the default model of requests "
        "that name none. See docs/getting-models.md.",
        has_names=True,
        auto="minilm, if its weights are installed",
        metavar="NAME_OR_DIR",
    )
    any_model_name: bool = _setting(
        False,
        "switch",
        "Answer requests for a model that is not served by the only one that is, as text-embeddings-inference does.",
        door=True,
    )
    adapter: tuple[str, ...] = _setting(
        (),
        "texts",
        "LoRA adapter of PEFT, a directory or OWNER/NAME@REVISION of the hub, that is merged into the model's weights. "
        "NAME=DIR is for one of several models; repeat the flag for more. See docs/getting-models.md.",
        metavar="DIR",
    )
    hub_offline: bool = _setting(
        False,
        "switch",
        "Download nothing: models and adapters of the hub are those in its cache. HF_HUB_OFFLINE=1 does the same.",
    )
    device: str = _setting(
        "auto",
        "text",
        "Where models run: auto (cuda where there is a GPU that torch can use, else cpu), cuda (every GPU that "
        "CUDA_VISIBLE_DEVICES leaves) or cuda:0,1 (these), cpu, null (computes nothing), sim:PROFILE (a modelled "
        "device; several, separated by commas, are served side by side), or remote (the servers that --upstream "
        "names). See docs/devices.md, docs/gpu.md and docs/edge.md.",
        metavar="DEVICE",
    )
    upstream: tuple[str, ...] = _setting(
        (),
        "texts",
        "With --device remote: a server that computes the steps. A name is looked up every 5 s, and each of its "
        "addresses is a server; dns:/// in front of it changes nothing. Repeat the flag for more. See docs/edge.md.",
        metavar="HOST:PORT",
    )
    upstream_tls_ca: str = _setting(
        "",
        "text",
        "Speak TLS with upstreams. PEM file with certificate authorities: one of them must have signed their "
        "certificate, which must name the HOST of --upstream. This file and the next three are read at the start.",
        metavar="FILE",
    )
    upstream_tls_cert: str = _setting(
        "", "text", "PEM file with the certificate to show to upstreams, followed by its chain.", metavar="FILE"
    )
    upstream_tls_key: str = _setting(
        "", "text", "PEM file with the key of --upstream-tls-cert, without a password.", metavar="FILE"
    )
    upstream_token_file: str = _setting(
        "",
        "text",
        "File in the form of --auth-token-file. Its first token is sent to upstreams.",
        metavar="FILE",
    )
    host: str = _setting(
        "127.0.0.1", "text", "Address to listen on. 0.0.0.0 or :: for all interfaces.", metavar="ADDRESS"
    )
    port: int | str = _setting(
        50051,
        "port",
        "Port of gRPC and HTTP. 0: any free one, printed at start. unix:PATH: a socket in the file system, for the "
        "server's user and group (mode 0660). See docs/http.md.",
        most=65535,
        metavar="PORT|unix:PATH",
    )
    http_port: int | str = _setting(
        8000,
        "port",
        "A second port, where users expect HTTP. off: none.",
        most=65535,
        has_off=True,
        metavar="PORT|unix:PATH|off",
    )
    admin_port: int = _setting(
        9464, "count", "Port of metrics and health. 0: any free one.", least=0, most=65535, metavar="PORT"
    )
    frontdoors: int | None = _setting(
        None,
        "count",
        "Front door processes.",
        most=32,
        auto="one for each 4 cores, on remote one for each that dispatchers leave; at least 1",
    )
    dispatchers: int | None = _setting(
        None,
        "count",
        "Dispatcher processes of each model and device.",
        most=64,
        auto="on cuda and sim 1; on remote 1, from 4 cores on 2; on null half of the cores; on cpu one for each core, "
        "or half as many with a generator of more than 96 MiB, with weights that would take more than a quarter of the "
        "memory, or with static models alone. Divided among the models, at least 1",
    )
    lanes: int | None = _setting(
        None,
        "count",
        "Steps that a dispatcher runs at the same time, each with another one prepared behind it. On cpu they share "
        "its threads. In a generator each lane runs --max-running sequences. On remote: connections to each upstream.",
        most=8,
        auto="on cuda 2 of encoders and 1 of generators; 2 on remote; else 1",
    )
    max_batch_items: int | None = _setting(
        None,
        "count",
        "Most requests in a batch, on remote in a message. A generator's steps hold --max-running sequences instead.",
        most=4096,
        auto="the smallest batch with 95 % of the best rate, of at most 64 on cpu, 1024 on cuda and sim; the first "
        "start of a model measures it and stores the choice in the user's cache. 256 on null and remote. See "
        "docs/step-size.md",
    )
    max_batch_tokens: int | None = _setting(
        None,
        "count",
        "Most tokens in a batch, at least --max-input-tokens. A generator's step has room for its longest prompt and "
        "for one token of each of --max-running sequences.",
        most=1 << 20,
        auto="4096 on cpu, 16384 elsewhere, and never less than --max-input-tokens and the most of --max-running "
        "together",
    )
    max_batch_delay_ns: int = _setting(
        0, "duration", "How long an idle dispatcher waits for more requests before it runs a small batch.", most=10**9
    )
    max_step_time_ns: int = _setting(
        0,
        "duration",
        "Longest time that a step may take. Limits --max-batch-items, --max-batch-tokens and --max-running to what the "
        "first start of a model measures to fit, at least one request. 0: no bound. See docs/step-size.md.",
        most=60 * 10**9,
    )
    max_queue_items: int = _setting(
        4096, "count", "Most requests of a model that may wait. More are refused.", most=1 << 22
    )
    class_weights: tuple[int, int, int] = _setting(
        (16, 4, 1),
        "weights",
        "Shares of the tokens that a dispatcher serves of high, normal and low priority while all of them wait. A "
        "class that has nothing waiting leaves its share to the others.",
        most=1000,
        metavar="HIGH:NORMAL:LOW",
    )
    max_input_tokens: int | None = _setting(
        None,
        "count",
        "Longest input. A smaller limit of the model has priority; a generator's limit is reduced by "
        "--max-output-tokens and the prefix. The limit must hold the tokenizer's special tokens and one token of each "
        "text of a pair.",
        most=8192,
        auto="an encoder's own limit, 8192 at most; 512 of a generator",
    )
    max_output_tokens: int | None = _setting(
        None,
        "count",
        "Most tokens that a request may generate.",
        most=8192,
        auto="1024, or what a smaller context leaves beside prompts of --max-input-tokens, but at least 128 or half of "
        "the context; down to 128 where a quarter of the memory (on cuda half of the GPU's) would hold fewer than 64 "
        "sequences, or --max-running",
    )
    slots: int | None = _setting(
        None,
        "count",
        "Requests that a front door can hold, waiting and running; a power of two. A generator's places in its KV "
        "cache are --max-running.",
        least=16,
        most=1 << 20,
        auto="8192, or as many, 1024 at least, as hold the longest inputs in 64 MiB",
    )
    max_running: int | None = _setting(
        None,
        "count",
        "Most sequences that a generator's dispatcher runs at a time. Each has a place in the KV cache.",
        most=1 << 16,
        auto="the fewest with 95 % of the best rate, measured as --max-batch-items is, of at most 1024 (4096 on cuda "
        "and sim, beyond 1024 only while a step of all lanes takes at most 20 ms), or as many as --max-batch-tokens "
        "and --slots have room for and a quarter of the memory holds (on cuda half of the GPU's)",
    )
    async_steps: bool = _setting(
        True,
        "switch",
        "Prepare the next step while one runs. off runs one step after the other, with the same answers, for "
        "comparison.",
    )
    max_stream_inflight: int = _setting(
        1024,
        "count",
        "Most unanswered items of one stream. Beyond that the server does not read its next message.",
        most=1 << 16,
        door=True,
    )
    max_message_bytes: int = _setting(
        4 << 20, "bytes", "Longest request message.", least=1 << 10, most=1 << 28, door=True
    )
    max_tokenize_bytes: int = _setting(
        2 << 20,
        "bytes",
        "Longest request that only tokenizes or decodes: /tokenize, /decode and their gRPC methods. Never more than "
        "--max-message-bytes.",
        least=1 << 10,
        most=1 << 28,
        door=True,
    )
    max_request_items: int = _setting(
        2048,
        "count",
        "Most inputs of a call: texts, pairs, documents or prompts. More are refused as invalid.",
        most=1 << 16,
        door=True,
    )
    cors: bool = _setting(
        False,
        "switch",
        "Let pages in a browser, of any site, call the server over HTTP and read the answers. With it, use tokens.",
        door=True,
    )
    predict_route: str = _setting(
        "",
        "route",
        "One more path of POST /vertex, whose requests and answers have the form of Vertex AI. Without it the path is "
        "that of AIP_PREDICT_ROUTE. See docs/http.md.",
        door=True,
        metavar="PATH",
    )
    health_route: str = _setting(
        "",
        "route",
        "One more path of GET /health. Without it the path is that of AIP_HEALTH_ROUTE.",
        door=True,
        metavar="PATH",
    )
    auto_truncate: str = _setting(
        "auto",
        "text",
        "Cut inputs that are too long, if the request's truncate is not given. auto cuts as each API does: HTTP of "
        "text-embeddings-inference and the rerank API cut, all others refuse. on cuts in every API, off in none.",
        choices=("auto", "on", "off"),
    )
    default_timeout_ns: int = _setting(
        10 * 10**9,
        "duration",
        "Longest time for a request that names no timeout. In a call of several requests, each answer begins the time "
        "of those that wait behind it anew. 0: no limit, for requests with a timeout neither.",
        most=3600 * 10**9,
        door=True,
    )
    max_timeout_ns: int = _setting(
        600 * 10**9,
        "duration",
        "Longest time for any request or call. A longer timeout or gRPC deadline of a client is lowered to it, and an "
        "error for lack of time says so. Never less than --default-timeout. 0: no limit.",
        most=86400 * 10**9,
        door=True,
    )
    step_timeout_ns: int = _setting(
        30 * 10**9,
        "duration",
        "Kill and restart a dispatcher whose batch takes longer, or a front door whose event loop stands still for "
        "longer. 0: never.",
        most=86400 * 10**9,
    )
    drain_timeout_ns: int = _setting(
        30 * 10**9,
        "duration",
        "Time to finish open requests after SIGTERM. Requests still open then are cut off (exit code 5).",
        most=86400 * 10**9,
    )
    lame_duck_ns: int = _setting(
        0,
        "duration",
        "Time after SIGTERM during which the server reports not ready but still serves, so that load balancers and "
        "Kubernetes notice. --drain-timeout begins afterwards. 0: none.",
        most=3600 * 10**9,
    )
    canary_interval_ns: int = _setting(
        10**9,
        "duration",
        "Send a request of one token to a dispatcher that has finished no step for this long, to test that it still "
        "works. See docs/operations.md. 0: never.",
        most=3600 * 10**9,
        door=True,
    )
    max_connection_age_ns: int = _setting(
        30 * 60 * 10**9,
        "duration",
        "Close a client connection of this age (10 % more or less) by GOAWAY after its open calls. The client "
        "connects again, perhaps to another server. 0: never.",
        most=7 * 86400 * 10**9,
        door=True,
    )
    stream_idle_timeout_ns: int = _setting(
        5 * 60 * 10**9,
        "duration",
        "End a stream of requests with UNAVAILABLE after this long without a message and without an open answer. "
        "While nearly all calls of a front door are in use, the oldest idle ones end after a second. 0: never.",
        most=7 * 86400 * 10**9,
        door=True,
    )
    allow_single_texts: bool = _setting(
        False,
        "switch",
        "Accept single texts for cross-encoders, which score pairs of texts. off refuses them, since a pair was "
        "probably meant.",
    )
    labels: tuple[str, ...] = _setting(
        (),
        "texts",
        "Make a classifier of a decoder: the words are its labels, and their probabilities behind a text its scores. "
        "Each must be one token. NAME=LABEL,... is for one of several models. See docs/labels.md.",
        metavar="LABEL,...",
    )
    template: tuple[str, ...] = _setting(
        (),
        "texts",
        "How a text, or a query and a document, are put to a classifier: a Jinja file, qwen3-reranker or "
        "bge-reranker-v2-gemma. Without it, the chat template of a decoder with --labels. NAME=FILE is for one of "
        "several models. See docs/labels.md.",
        metavar="FILE",
    )
    allow_output_change: bool = _setting(
        False,
        "switch",
        "Let a reload change a model's number of dimensions or its labels. off refuses such a reload, since clients "
        "may have stored earlier results.",
    )
    dtype: str = _setting(
        "auto",
        "text",
        "Number format of the computation. auto takes bfloat16 if the device computes it natively. float16 is for "
        "cuda only.",
        choices=("auto", "float32", "bfloat16", "float16"),
    )
    quantization: str = _setting(
        "none",
        "text",
        "8-bit formats for the matrix products of a model's inner layers. int8: all of them, on cpu. fp8: all except "
        "attention's output projection, on cuda, and on cpu to test it. auto: int8 on a CPU with AVX2, unless it "
        "computes in bfloat16 with AMX; on cuda FP8 for products of at least 768 inputs and outputs. "
        "See docs/quantization.md.",
        choices=("none", "fp8", "int8", "auto"),
    )
    kernels: str = _setting(
        "auto",
        "text",
        "Operations between the matrix products on cuda. auto tests each own kernel at the start and uses torch's "
        "operation if the kernel fails or computes other numbers. own and torch use one of them without a test. See "
        "docs/kernels.md.",
        choices=("auto", "own", "torch"),
    )
    pin: str = _setting(
        "auto",
        "text",
        "CPUs of the server's processes. auto gives each process its own if there are enough, and a GPU's dispatchers "
        "CPUs near it; otherwise it pins nothing. off never pins. A LIST (0-3,8) confines the server to these CPUs "
        "and then works as auto.",
        metavar="auto|off|LIST",
    )
    mps: str = _setting(
        "auto",
        "text",
        "Run dispatchers that share a GPU at the same time, under an MPS daemon that the server starts. auto starts "
        "one if two or more share a GPU; if it cannot, it warns and they take turns. on ends the start in that case "
        "(exit code 3). off never starts one.",
        choices=("off", "auto", "on"),
    )
    share_weights: bool = _setting(
        False,
        "switch",
        "Keep one copy of a model's weights for all of its dispatchers on a GPU, in a process of its own. This saves "
        "memory. If that process ends, all of these dispatchers restart.",
    )
    prefix: tuple[str, ...] = _setting(
        (),
        "texts",
        "UTF-8 text file whose exact content is put in front of every prompt of the generating models. Its part of "
        "the KV cache is computed once. NAME=FILE is for one of several models; repeat the flag for more.",
        metavar="FILE",
    )
    capacity: str = _setting(
        "",
        "text",
        "Measured capacity of this deployment: the capacity.json that fastqps bench find-max writes. The metrics then "
        "report the used share of it. For a server of one model.",
        metavar="FILE",
    )
    rerun: bool = _setting(
        True,
        "switch",
        "Run a request again if its dispatcher dies while it runs. off answers it INTERNAL.",
        door=True,
    )
    tls_cert: str = _setting(
        "",
        "text",
        "PEM file with the server's certificate, followed by its chain. Clients must then use TLS. This file, the "
        "next two and the tokens are read again when they change. See docs/security.md.",
        metavar="FILE",
    )
    tls_key: str = _setting("", "text", "PEM file with the key of --tls-cert, without a password.", metavar="FILE")
    tls_client_ca: str = _setting(
        "",
        "text",
        "PEM file with certificate authorities. A client must then present a certificate that one of them has signed.",
        metavar="FILE",
    )
    auth_token_file: str = _setting(
        "",
        "text",
        "File with one token a line; lines with # are comments. Every call except health, and every POST on the admin "
        "port, must then carry one of them (authorization: Bearer TOKEN).",
        metavar="FILE",
    )
    tenant_metadata: str = _setting(
        "fastqps-tenant",
        "text",
        "Metadata key or HTTP header by which a call names its tenant: whose share of the service it takes. Empty: "
        "clients name no tenants, neither so nor in their requests; each bearer token, client certificate or else "
        "connection is a tenant. See docs/security.md.",
        metavar="NAME",
    )
    tenant_weights: str = _setting(
        "",
        "text",
        "Shares of tenants beside others of the same class, 1 to 1000 each, as NAME=WEIGHT,NAME=WEIGHT for at most "
        "256 tenants. A tenant that is not listed has 1. A token's tenant is token:, and the first 8 hex digits of "
        "its SHA-256; a certificate's is certificate: and its subject.",
        metavar="NAME=WEIGHT,...",
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
        "Report the server's load (ORCA) in answers, for clients and proxies that balance on it: at most one answer "
        "of a connection in 100 ms. Streams of reports are served in any case. See docs/load-balancing.md.",
        door=True,
    )
    target_saturation: float = _setting(
        0.65,
        "ratio",
        "Share of its capacity that a server should use, 0.05 to 1. The metrics advise the number of servers for it. "
        "See docs/operations.md.",
        floor=0.05,
    )
    queue_budget_ns: int | None = _setting(
        None,
        "duration",
        "Longest wait of requests (p95 of 10 s) before the server counts as saturated. A capacity file with a p99 "
        "objective has priority.",
        least=1000,
        most=3600 * 10**9,
        auto="four usual steps, 5ms at the least, beyond the one that every request may find running and "
        "`--max-batch-delay`",
    )
    log_level: str = _setting(
        "info",
        "text",
        "Log events of this level and of more urgent ones. info includes the addresses of the start.",
        choices=("error", "warning", "info"),
    )
    log_format: str = _setting(
        "text",
        "text",
        "Form of the log on stderr. text: date, zone, level, process and event; on a terminal time, process and event. "
        "json: one object a line. See docs/operations.md.",
        choices=("text", "json"),
    )
    access_log: float = _setting(
        0.0,
        "ratio",
        "Share of the calls for predictions, and of refused requests, that the log has a line of, at most 500 a "
        "second. No line has a text or a token of a client. 0: none. See docs/operations.md.",
        door=True,
    )
    otlp_endpoint: str = _setting(
        "",
        "text",
        "URL of an OpenTelemetry collector that takes spans by OTLP over gRPC, http://collector:4317. Default: "
        "OTEL_EXPORTER_OTLP_ENDPOINT; without both nothing is traced. See docs/tracing.md.",
        metavar="URL",
    )
    trace_ratio: float = _setting(
        0.001,
        "ratio",
        "Share of the calls that are traced, among those whose clients send no traceparent. 0: none.",
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
        if self.meaning.has_off and value == OFF:
            return "off"
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
            case "weights":
                return ":".join(map(str, value))
        return str(value)


SETTINGS: tuple[Setting, ...] = tuple(
    Setting(f.name, f.default, f.metadata["meaning"]) for f in dataclasses.fields(Config)
)
