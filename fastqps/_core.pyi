"""The C++ core. tests/project/test_stubs.py compares this file with the extension."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

# ---- csrc/bind/core/text.cpp

class NativeTokenizer:
    def __init__(self, source: str, special_tokens: str = "all") -> None: ...
    def encode(self, text: str, max_tokens: int | None = None) -> list[int]: ...
    def encode_pair(self, first: str, second: str, max_tokens: int | None = None) -> tuple[list[int], int]: ...
    def encode_batch(self, texts: Sequence[str], max_tokens: int | None = None) -> list[list[int]]: ...
    def encode_items(
        self,
        items: Sequence[str | tuple[str, str]],
        max_tokens: int | None = None,
        cut: Literal["counted", "longest", "first"] = "counted",
    ) -> list[tuple[list[int], int, int]]: ...
    def encode_spans(
        self, text: str, max_tokens: int | None = None
    ) -> tuple[list[int], int, list[tuple[int, int, bool] | None]]: ...
    def finds_spans(self, unknown_id: int) -> bool: ...
    def n_special(self, pair: bool) -> int: ...
    n_leading: Final[int]
    family: Final[str]
    second_type_id: Final[int]
    vocab_size: Final[int]
    file_truncation: Final[tuple[int, int] | None]

class Detokenizer:
    def __init__(self, source: str) -> None: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    def special_id(self, text: str) -> int | None: ...
    def stream(self) -> DetokenizerStream: ...

class DetokenizerStream:
    def append(self, ids: Sequence[int]) -> str: ...
    def finish(self) -> str: ...

class StopStrings:
    def __init__(self, strings: Sequence[str]) -> None: ...
    def feed(self, piece: str) -> tuple[str, bool]: ...
    def finish(self) -> str: ...

# ---- csrc/bind/core/core.cpp: the segment and what lies in it

STAGES: tuple[str, ...]
METHODS: tuple[str, ...]
REJECTS: tuple[str, ...]
CLASSES: tuple[str, ...]
IDLES: tuple[str, ...]
START_STAGES: tuple[str, ...]
TRANSPORT_COUNTERS: tuple[str, ...]
COUNTERS: tuple[CounterRow, ...]
DOORS_MAX: int
DISPATCHERS_MAX: int
MODELS_MAX: int
GENERATIONS: int
CALLER_BYTES: int  # of a request's tenant, group and span
UPSTREAM_STATES: tuple[str, ...]

TASKS: dict[str, TaskTraits]  # by their names

def answer_bytes(task: TaskTraits, *, dimensions: int, max_input_tokens: int, max_output_tokens: int) -> int: ...
def now_ns() -> int: ...
def take_traces(segment: Segment, door: int, most: int) -> list[TraceRecord]: ...
def dropped_spans(segment: Segment, door: int) -> int: ...
def histogram_upper(i: int) -> int: ...
def plan(sizes: Sizes) -> SegmentPlan: ...
def create_segment(sizes: Sizes) -> int: ...
def why_no_huge_pages() -> str: ...

class CounterRow:
    name: Final[str]  # a key of ProcessStats.counters
    metric: Final[str]  # without "fastqps_" and "_total"; empty: the metrics page has no such row
    help: Final[str]
    scale: Final[float]  # from the counter's unit to the metric's

class Sizes:
    def __init__(
        self,
        *,
        doors: int,
        dispatchers: int,
        models: int,
        slots: int,
        max_tokens: int,
        answer_bytes: int,
        devices: int = 1,
        large_answers: int = 0,
        large_answer_bytes: int = 0,
        class_weights: tuple[int, int, int] = (16, 4, 1),
        caller_bytes: int = 0,
        upstreams: int = 0,
    ) -> None: ...
    doors: Final[int]
    dispatchers: Final[int]
    models: Final[int]
    devices: Final[int]
    slots: Final[int]
    max_tokens: Final[int]
    answer_bytes: Final[int]
    large_answers: Final[int]
    large_answer_bytes: Final[int]
    class_weights: Final[tuple[int, int, int]]
    caller_bytes: Final[int]  # of an edge: CALLER_BYTES
    upstreams: Final[int]  # of an edge: 1

class SegmentPlan:
    total_bytes: Final[int]
    slot_stride: Final[int]
    slots_bytes: Final[int]
    rings_bytes: Final[int]
    layout_hash: Final[int]

class DoorState:
    tokenizers: Final[list[int]]
    pid: Final[int]
    live: Final[bool]
    ready: Final[bool]
    heartbeat_ns: Final[int]
    turn_started_ns: Final[int]
    flips_seen: Final[int]
    connections: Final[int]
    slots_used: Final[int]
    running: Final[int]

class DispatcherState:
    pid: Final[int]
    epoch: Final[int]
    dead_epoch: Final[int]
    route: Final[int]
    device: Final[int]
    ready: Final[bool]
    heartbeat_ns: Final[int]
    step_started_ns: Final[int]
    step_usual_ns: Final[int]
    items_done: Final[int]
    steps_done: Final[int]
    running: Final[int]
    canary_since_ns: Final[int]
    canaries: Final[int]

class TaskTraits:
    name: Final[str]
    number: Final[int]  # of fastqps.v1.Task
    does: Final[str]  # of a model, in messages: "'minilm' embeds texts"
    steps: Final[Literal["encode", "decode"]]
    form: Final[Literal["vector", "labels", "sparse", "tokens"]]
    by_token: Final[bool]  # an output row for each token, not one for each item
    spans: Final[bool]  # answers name places in a text
    takes_pairs: Final[bool]  # an item may be a pair of texts

class ModelView:
    name: Final[str]
    serving: Final[int]
    ready: Final[bool]

class RouteView:
    state: Final[Literal["empty", "warming", "serving", "draining"]]
    dispatchers: Final[int]  # one bit each
    generation: Final[int]
    dimensions: Final[int]
    max_input_tokens: Final[int]
    max_queue_items: Final[int]
    most_items: Final[int]
    max_batch_items: Final[int]
    max_batch_tokens: Final[int]
    max_batch_delay_ns: Final[int]
    max_output_tokens: Final[int]
    prefix_tokens: Final[int]
    cache_slots: Final[int]
    lanes: Final[int]  # 0: all
    async_steps: Final[bool]
    version: Final[str]

class Histogram:
    count: Final[int]
    sum: Final[int]
    buckets: Final[NDArray[np.uint64]]  # bucket i ends before histogram_upper(i)

class ProcessStats:
    stage: Final[dict[str, Histogram]]  # by STAGES; nanoseconds
    class_wait: Final[dict[str, Histogram]]  # by CLASSES; nanoseconds
    request: Final[list[list[Histogram]]]  # by model and METHODS; nanoseconds
    batch_items: Final[Histogram]
    batch_tokens: Final[Histogram]
    requests: Final[NDArray[np.uint64]]  # [MODELS_MAX, METHODS, codes]
    items: Final[NDArray[np.uint64]]  # [MODELS_MAX, codes]
    failed_ns: Final[list[int]]  # by model: the part of the sums of `request` of failed calls
    answered_at_ns: Final[list[int]]  # by model, by now_ns(); 0: no good answer yet
    rejected: Final[dict[str, int]]  # by REJECTS
    expired: Final[dict[str, int]]  # by STAGES
    idle_ns: Final[dict[str, int]]  # by IDLES
    start_ns: Final[dict[str, int]]  # by START_STAGES
    transport: Final[dict[str, int]]  # by TRANSPORT_COUNTERS
    counters: Final[dict[str, int]]  # by the names in COUNTERS

class UpstreamReading:
    """A server that a dispatcher of an edge sends to, as it knows it."""

    row: Final[int]
    name: Final[str]  # HOST:PORT
    reason: Final[str]  # of a state in which nothing is sent
    state: Final[str]  # one of UPSTREAM_STATES
    in_flight: Final[int]
    window: Final[int]
    utilization_thousandth: Final[int]
    waiting: Final[int]
    running: Final[int]
    rtt_ns: Final[int]
    heard_ns: Final[int]
    sent: Final[int]  # items, as the following ones, since the row has its name
    answered: Final[int]
    refused: Final[int]
    lost: Final[int]
    connects: Final[int]
    bytes_out: Final[int]
    bytes_in: Final[int]

class UpstreamTotals:
    resent: Final[int]
    unroutable: Final[int]
    wire: Final[Histogram]
    queue: Final[Histogram]
    device: Final[Histogram]

class LoadMeans:
    """Means over one window: items per second, items in flight, shares of 1."""

    seconds: Final[float]
    asked: Final[float]
    errors: Final[float]
    items: Final[float]
    in_flight: Final[float]
    slots: Final[float]
    dispatcher: Final[float]
    frontdoor: Final[float]
    device: Final[float]
    queue_wait_s: Final[list[float]]  # the p95, by model
    step_s: Final[list[float]]  # by model

class TraceRecord:
    """A call that has ended, or an item of one that has many. -1: no such thing is known."""

    is_item: Final[bool]
    trace_id: Final[bytes]
    parent_id: Final[bytes]  # all 0: no parent
    span_id: Final[bytes]
    state: Final[bytes]  # the client's tracestate
    method: Final[int]
    code: Final[int]
    model: Final[int]
    dispatcher: Final[int]
    items: Final[int]
    input_tokens: Final[int]
    output_tokens: Final[int]
    batch_items: Final[int]  # in the item's batch; 0: not known
    at_ns: Final[list[int]]  # stage k from at_ns[k] to at_ns[k + 1], by now_ns(); 0: it was not reached

class WakeFds:
    def __init__(self, *, dispatchers: Sequence[int], doors: Sequence[int]) -> None: ...

class Segment:
    def __init__(self, fd: int) -> None: ...
    sizes: Final[Sizes]
    total_bytes: Final[int]
    boot_id: Final[str]
    phase: Final[str]
    def lock(self) -> bool: ...
    def set_phase(self, phase: str, drain_deadline_ns: int = 0) -> None: ...
    def set_model(self, i: int, name: str) -> None: ...
    def model(self, i: int) -> ModelView: ...
    def set_route(
        self,
        i: int,
        generation: int,
        card: str,  # ModelCard.to_json()
        *,
        max_queue_items: int,
        max_batch_items: int,
        max_batch_tokens: int,
        max_batch_delay_ns: int,
        cache_slots: int,
    ) -> None: ...
    def route(self, i: int) -> RouteView: ...
    def set_batch_limits(self, i: int, *, items: int, tokens: int, cache_slots: int) -> None: ...
    def set_limits(self, i: int, *, items: int, lanes: int, async_steps: bool) -> None: ...
    def card(self, i: int) -> str: ...
    def set_route_state(self, i: int, state: str) -> None: ...
    def set_route_dispatchers(self, i: int, mask: int) -> None: ...
    def serve(self, model: int, generation: int) -> None: ...
    def set_load(
        self,
        *,
        utilization: float,
        cpu_utilization: float,
        memory_utilization: float,
        requests_per_second: float,
        errors_per_second: float,
        queue_wait_s: float,
        items_waiting: float,
        items_running: float,
    ) -> None: ...
    def flip(self, model: int, generation: int) -> int: ...
    def door_route(self, door: int, route: int) -> tuple[int, int, int]: ...
    def refuse_route(self, door: int, route: int, generation: int) -> None: ...
    def start_door(self, i: int, pid: int) -> None: ...
    def reap_door(self, i: int) -> None: ...
    def start_dispatcher(self, i: int, epoch: int, route: int, pid: int, device: int = 0) -> None: ...
    def vacate_dispatcher(self, i: int) -> None: ...
    def publish_death(self, wake_fds: WakeFds, dispatcher: int, epoch: int) -> None: ...
    def door(self, i: int) -> DoorState: ...
    def dispatcher(self, i: int) -> DispatcherState: ...
    def doors(self) -> list[DoorState]: ...
    def dispatchers(self) -> list[DispatcherState]: ...
    def waiting(
        self, route: int
    ) -> list[tuple[int, int]]: ...  # by CLASSES: items, and since when the oldest waits or 0
    def suspects_waiting(self, route: int) -> int: ...
    def tenants(self, door: int) -> tuple[list[tuple[int, int, str, int, int, int]], tuple[int, int, int]]: ...
    def record_start(self, i: int, seconds: Mapping[str, float]) -> None: ...
    def stats(self, i: int) -> ProcessStats: ...
    def upstreams(self, dispatcher: int) -> list[UpstreamReading]: ...
    def upstream_totals(self, dispatcher: int) -> UpstreamTotals: ...

class BusyUnion:
    def __init__(self, segment: Segment) -> None: ...
    def update(self) -> None: ...
    def busy_ns(self, device: int) -> int: ...
    missed: Final[int]

class LoadWindow:
    def __init__(self, segment: Segment, busy: BusyUnion) -> None: ...
    def look(self) -> None: ...
    def long(self) -> LoadMeans: ...
    def short(self) -> LoadMeans: ...
    items_waiting: Final[int]
    items_running: Final[int]

class Heartbeat:
    def __init__(self, segment: Segment, role: str, i: int, parent_fd: int = -1) -> None: ...

# ---- csrc/bind/core/step.cpp

def first_beyond(indexes: int, n: int, rows: int) -> int: ...

class Stepper:
    def gather(self, timeout_s: float) -> int | None: ...
    def rest(self, timeout_s: float) -> None: ...
    def launch(self, step: int) -> bool: ...
    def scatter(self, step: int) -> bool: ...
    def shape(self, step: int) -> tuple[int, int, int]: ...
    def set_ready(self) -> None: ...
    def leave(self) -> None: ...

class EncodeStepper(Stepper):
    def __init__(
        self,
        segment: Segment,
        wake_fds: WakeFds,
        me: int,
        *,
        epoch: int,
        route: int,
        max_items: int,
        max_tokens: int,
        delay_ns: int,
    ) -> None: ...
    def add(
        self,
        *,
        input_ids: int,
        position_ids: int,
        token_type_ids: int,
        cu_seqlens: int,
        output: int,
        stamps: int,
        max_items: int,
        max_tokens: int,
        width: int,
        lane: int = 0,
    ) -> int: ...

class DecodeStepper(Stepper):
    def __init__(
        self,
        segment: Segment,
        wake_fds: WakeFds,
        me: int,
        *,
        epoch: int,
        route: int,
        max_items: int,
        max_tokens: int,
        delay_ns: int,
    ) -> None: ...
    def add(self, *, staging: int, output: int, stamps: int, max_tokens: int, max_runs: int, lane: int = 0) -> int: ...

# ---- csrc/bind/core/options.cpp

OPTIONS: tuple[OptionRow, ...]

class OptionRow:
    path: Final[str]  # "generate." or "output.", and the name
    name: Final[str]
    number: Final[int]  # in the .proto
    kind: Final[Literal["uint32", "uint64", "enum", "float", "bool", "ids", "texts"]]
    high: Final[float]  # the most that it can be, or how many; inf: no limit
    above_zero: Final[bool]  # 0 is below its range, too
    checkpoint: Final[str | None]  # the member of LogitOptions whose value holds where a request gives none
    optional: Final[bool]  # as in the .proto
    zero_is_absent: Final[bool]
    by_name: Final[bool]  # OpenAI's API and the Open Inference Protocol take it
    all_is_minus_one: Final[bool]  # these take -1 for 0
    changes_logits: Final[bool]  # any value but the default does

# ---- csrc/bind/core/decode.cpp

HEADER_WORDS: int
ADMITTED_WORDS: int
PARAM_SLOT: int
PARAM_FLAGS: int
PARAM_IGNORE_EOS: int
PARAM_LOGPROBS: int
PARAM_LOGIT_OPTIONS: int
PARAM_WORDS: dict[str, int]  # the first word of each option's value
IDS_MAX: int

def sequence_params(kv: int, *, ignore_eos: bool = False, logprobs: bool = False, **options: Any) -> list[int]: ...

class DecodeLayout:
    def __init__(self, max_tokens: int, max_runs: int) -> None: ...
    token_ids: Final[int]
    positions: Final[int]
    kv_slots: Final[int]
    starts: Final[int]
    made: Final[int]
    admitted: Final[int]
    words: Final[int]
    out_tokens: Final[int]
    out_logprobs: Final[int]
    out_finish: Final[int]
    out_words: Final[int]

class DecodeBatch:
    def __init__(self, slots: int, prefix_len: int = 0) -> None: ...
    def add(self, *, staging: int, output: int, max_tokens: int, max_runs: int) -> int: ...
    def begin(self, step: int) -> None: ...
    def admit(
        self,
        step: int,
        ids: Sequence[int],
        *,
        user: int,
        ignore_eos: bool = False,
        logprobs: bool = False,
        **options: Any,  # of csrc/contract/options.h: Sampling
    ) -> bool: ...
    def seal(self, step: int) -> tuple[int, int, int]: ...
    def retire(self, step: int) -> list[tuple[int, int, float, int]]: ...
    def drop(self, user: int) -> None: ...
    running: Final[int]

# ---- csrc/bind/core/sim.cpp

class SimDevice:
    def __init__(
        self,
        *,
        fixed_ns: float,
        overlap: float,
        tokens: Sequence[tuple[float, float]],
        items: Sequence[tuple[float, float]],
        launch_ns: int = 0,
        segment: Segment | None = None,
        index: int = 0,
    ) -> None: ...
    def stream(self) -> SimStream: ...
    def step_ns(self, tokens: int, items: int) -> int: ...

class SimStream:
    def launch(self, tokens: int, items: int) -> tuple[int, int]: ...

def wait_until(ns: int) -> bool: ...

# ---- csrc/bind/core/cuda.cpp: addresses, streams and graphs are those of the CUDA runtime, as integers

STAMP_WORDS: int  # 32-bit words in front of an output block: int64 start, end of the device's clock in ns, and padding

class EncodeLayout:
    def __init__(
        self, max_tokens: int, max_items: int, width: int, token_types: bool = True, rows_by_token: bool = False
    ) -> None: ...
    input_ids: Final[int]
    token_type_ids: Final[int]
    cu_seqlens: Final[int]
    position_ids: Final[int]
    device_words: Final[int]
    words: Final[int]
    out_words: Final[int]

class CudaError(RuntimeError):
    call: str  # CUDA's name for it, also where the runtime is HIP; dlopen, dlsym
    code: int  # what it returned; -1: it could not be called

class CudaApi:
    def __init__(self, path: str | None = None) -> None: ...
    path: Final[str]
    def runtime_version(self) -> int: ...
    def device_count(self) -> int: ...
    def set_device(self, device: int) -> None: ...
    def memory(self) -> tuple[int, int]: ...
    def malloc(self, size_bytes: int) -> int: ...
    def free(self, pointer: int) -> None: ...
    def copy(self, to: int, source: int, size_bytes: int) -> None: ...
    def make_stream(self) -> int: ...
    def close_stream(self, stream: int) -> None: ...
    def synchronize(self, stream: int | None = None) -> None: ...
    def ipc_export(self, pointer: int) -> bytes: ...
    def ipc_open(self, handle: bytes) -> int: ...
    def ipc_close(self, pointer: int) -> None: ...
    def mark(self) -> None: ...
    def counts(self) -> dict[str, int]: ...

class CudaGraph:
    graph: Final[int]
    max_tokens: Final[int]
    max_items: Final[int]
    steps: Final[int]
    usual_ns: Final[int]

class CudaLane:
    @staticmethod
    def encoder(
        api: CudaApi,
        *,
        stream: int,
        staging: int,
        output: int,
        max_tokens: int,
        max_items: int,
        width: int,
        token_types: bool,
        rows_by_token: bool = False,
    ) -> CudaLane: ...
    @staticmethod
    def decoder(
        api: CudaApi, *, stream: int, staging: int, output: int, max_tokens: int, max_runs: int
    ) -> CudaLane: ...
    def add_graph(self, graph: int, *, max_tokens: int, max_items: int) -> None: ...
    def graphs(self) -> list[CudaGraph]: ...
    stream: Final[int]

class CudaStep:
    def __init__(self, lane: CudaLane) -> None: ...
    staging: Final[NDArray[np.int32]]
    output: Final[NDArray[np.int32]]
    stamps: Final[NDArray[np.int64]]
    graph: Final[tuple[int, int]]
    def launch(self, n_items: int, n_tokens: int, n_new: int) -> None: ...
    def pack(
        self, n_items: int, n_tokens: int, n_new: int, *, max_tokens: int, max_items: int
    ) -> NDArray[np.int32]: ...
    def unpack(self, n_items: int, *, max_tokens: int, max_items: int) -> None: ...
    def due_s(self) -> float: ...
    def wait(self) -> None: ...

# ---- csrc/bind/core/cpu.cpp: arrays are given by address

def has_team() -> bool: ...
def attend(
    out: int,
    qkv: int,
    bfloat16: bool,
    heads: int,
    head_dim: int,
    starts: int,
    n_items: int,
    threads: int,
    positions: int = 0,
    rotary: int = 0,
    n_rotary: int = 0,
    window: int = 0,
    bias: int = 0,
    relative: int = 0,
    reach: int = 0,
    kv_heads: int = 0,
    causal: bool = False,
    q_norm: int = 0,
    k_norm: int = 0,
    eps: float = 0.0,
) -> None: ...
def normalize(
    out: int,
    rows: int,
    bfloat16: bool,
    n_rows: int,
    weight: int,
    bias: int,
    width: int,
    eps: float,
    threads: int,
) -> None: ...
def embed(
    out: int,
    bfloat16: bool,
    n_tokens: int,
    ids: int,
    positions: int,
    types: int,
    words: int,
    n_words: int,
    places: int,
    n_places: int,
    kinds: int,
    n_kinds: int,
    weight: int,
    bias: int,
    width: int,
    eps: float,
    threads: int,
) -> None: ...
def means(out: int, rows: int, bfloat16: bool, width: int, starts: int, n_items: int, threads: int) -> None: ...
def maxima(out: int, rows: int, bfloat16: bool, width: int, starts: int, n_items: int, threads: int) -> None: ...
def project(
    out: int, rows: int, n_rows: int, weight: int, bias: int, inputs: int, outputs: int, threads: int
) -> None: ...
def mean_bags(
    out: int,
    ids: int,
    starts: int,
    n_items: int,
    table: int,
    number: Literal["float32", "float16", "bfloat16", "int8"],
    width: int,
    n_ids: int,
    mapping: int = 0,
    weights: int = 0,
    skipped_id: int = 0xFFFFFFFF,
) -> None: ...

INT8_MULTIPLE: int
INT8_INPUTS_MAX: int

class Int8Matrix:
    def __init__(self, weight: int, bias: int, outputs: int, inputs: int) -> None: ...
    def multiply(
        self,
        out: int,
        x: int,
        bfloat16: bool,
        n_rows: int,
        threads: int,
        activation: Literal["none", "gelu", "gelu_tanh", "relu", "silu"] = "none",
        gated: bool = False,
        residual: int = 0,
    ) -> None: ...

def rms_norm(
    out: int, rows: int, bfloat16: bool, n_rows: int, weight: int, width: int, eps: float, threads: int
) -> None: ...
def embed_tokens(
    out: int,
    bfloat16: bool,
    n_tokens: int,
    ids: int,
    kv_slots: int,
    last_token: int,
    table: int,
    n_rows: int,
    width: int,
    positions: int = 0,
    history: int = 0,
    history_len: int = 0,
) -> None: ...
def attend_slots(
    out: int,
    qkv: int,
    cache: int,
    bfloat16: bool,
    heads: int,
    kv_heads: int,
    head_dim: int,
    starts: int,
    n_runs: int,
    positions: int,
    kv_slots: int,
    n_slots: int,
    max_len: int,
    scale: float,
    threads: int,
    prefix: int = 0,
    prefix_len: int = 0,
    rotary: int = 0,
    q_norm: int = 0,
    k_norm: int = 0,
    eps: float = 0.0,
    last_rows_only: bool = False,
) -> None: ...
def gated_silu(out: int, rows: int, bfloat16: bool, n_rows: int, inner: int, threads: int) -> None: ...
def admit(params: int, admitted: int, n_admitted: int) -> None: ...

RULE_FORCED: int
RULE_FORBIDDEN: int
RULE_NOT_FIRST: int
RULE_WORDS: int

def any_logit_options(starts: int, kv_slots: int, n_runs: int, params: int) -> bool: ...
def change_logits(
    logits: int,
    n_runs: int,
    vocab: int,
    starts: int,
    kv_slots: int,
    positions: int,
    made: int,
    params: int,
    history: int,
    history_len: int,
    eos_ids: int,
    n_eos: int,
    rules: int,
    rule_ids: int,
    n_rules: int,
    n_forced: int,
    threads: int,
) -> None: ...
def sample(
    tokens: int,
    logprobs: int,
    finish: int,
    last_token: int,
    logits: int,
    bfloat16: bool,
    n_runs: int,
    vocab: int,
    starts: int,
    kv_slots: int,
    made: int,
    params: int,
    eos_ids: int,
    n_eos: int,
    threads: int,
) -> None: ...
