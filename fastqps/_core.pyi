"""The C++ core. tests/project/test_stubs.py compares this file with the extension."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

# ---- csrc/bind/core/text.cpp

class NativeTokenizer:
    def __init__(self, source: str, special_tokens: str = "all") -> None: ...
    def encode(self, text: str, max_tokens: int | None = None) -> list[int]: ...
    def encode_pair(self, first: str, second: str, max_tokens: int | None = None) -> tuple[list[int], int]: ...
    def encode_batch(self, texts: Sequence[str], max_tokens: int | None = None) -> list[list[int]]: ...
    def encode_items(
        self, items: Sequence[str | tuple[str, str]], max_tokens: int | None = None
    ) -> list[tuple[list[int], int, int]]: ...
    def encode_spans(
        self, text: str, max_tokens: int | None = None
    ) -> tuple[list[int], int, list[tuple[int, int, bool] | None]]: ...
    def finds_spans(self, unknown_id: int) -> bool: ...
    def n_special(self, pair: bool) -> int: ...
    @property
    def family(self) -> str: ...
    @property
    def second_type_id(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def cuts_left(self) -> bool: ...
    @property
    def splits_at_spaces(self) -> bool: ...
    @property
    def file_truncation(self) -> tuple[int, int] | None: ...

class Detokenizer:
    def __init__(self, source: str) -> None: ...
    def decode(self, ids: Sequence[int]) -> str: ...
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
TRANSPORT_COUNTERS: tuple[str, ...]
COUNTERS: tuple[CounterRow, ...]
DOORS_MAX: int
DISPATCHERS_MAX: int
MODELS_MAX: int
GENERATIONS: int

def now_ns() -> int: ...
def take_traces(segment: Segment, door: int, most: int) -> list[TraceRecord]: ...
def dropped_spans(segment: Segment, door: int) -> int: ...
def histogram_upper(i: int) -> int: ...
def plan(sizes: Sizes) -> SegmentPlan: ...
def create_segment(sizes: Sizes) -> int: ...

class CounterRow:
    @property
    def name(self) -> str: ...  # a key of ProcessStats.counters
    @property
    def metric(self) -> str: ...  # without "fastqps_" and "_total"; empty: the metrics page has no such row
    @property
    def help(self) -> str: ...
    @property
    def scale(self) -> float: ...  # from the counter's unit to the metric's

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
    ) -> None: ...
    @property
    def doors(self) -> int: ...
    @property
    def dispatchers(self) -> int: ...
    @property
    def models(self) -> int: ...
    @property
    def devices(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...
    @property
    def answer_bytes(self) -> int: ...
    @property
    def large_answers(self) -> int: ...
    @property
    def large_answer_bytes(self) -> int: ...
    @property
    def class_weights(self) -> tuple[int, int, int]: ...

class SegmentPlan:
    @property
    def total_bytes(self) -> int: ...
    @property
    def slot_stride(self) -> int: ...
    @property
    def slots_bytes(self) -> int: ...
    @property
    def rings_bytes(self) -> int: ...
    @property
    def layout_hash(self) -> int: ...

class DoorState:
    @property
    def tokenizers(self) -> list[int]: ...
    @property
    def pid(self) -> int: ...
    @property
    def live(self) -> bool: ...
    @property
    def ready(self) -> bool: ...
    @property
    def heartbeat_ns(self) -> int: ...
    @property
    def turn_started_ns(self) -> int: ...
    @property
    def flips_seen(self) -> int: ...
    @property
    def connections(self) -> int: ...
    @property
    def slots_used(self) -> int: ...
    @property
    def running(self) -> int: ...

class DispatcherState:
    @property
    def pid(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def dead_epoch(self) -> int: ...
    @property
    def route(self) -> int: ...
    @property
    def device(self) -> int: ...
    @property
    def ready(self) -> bool: ...
    @property
    def heartbeat_ns(self) -> int: ...
    @property
    def step_started_ns(self) -> int: ...
    @property
    def step_usual_ns(self) -> int: ...
    @property
    def items_done(self) -> int: ...
    @property
    def steps_done(self) -> int: ...
    @property
    def running(self) -> int: ...
    @property
    def canary_since_ns(self) -> int: ...
    @property
    def canaries(self) -> int: ...

class ModelView:
    @property
    def name(self) -> str: ...
    @property
    def serving(self) -> int: ...
    @property
    def ready(self) -> bool: ...

class RouteView:
    @property
    def state(self) -> Literal["empty", "warming", "serving", "draining"]: ...
    @property
    def dispatchers(self) -> int: ...  # one bit each
    @property
    def generation(self) -> int: ...
    @property
    def dimensions(self) -> int: ...
    @property
    def max_input_tokens(self) -> int: ...
    @property
    def max_queue_items(self) -> int: ...
    @property
    def max_batch_items(self) -> int: ...
    @property
    def max_batch_tokens(self) -> int: ...
    @property
    def max_batch_delay_ns(self) -> int: ...
    @property
    def max_output_tokens(self) -> int: ...
    @property
    def prefix_tokens(self) -> int: ...
    @property
    def cache_slots(self) -> int: ...
    @property
    def version(self) -> str: ...

class Histogram:
    @property
    def count(self) -> int: ...
    @property
    def sum(self) -> int: ...
    @property
    def buckets(self) -> NDArray[np.uint64]: ...  # bucket i ends before histogram_upper(i)

class ProcessStats:
    @property
    def stage(self) -> dict[str, Histogram]: ...  # by STAGES; nanoseconds
    @property
    def class_wait(self) -> dict[str, Histogram]: ...  # by CLASSES; nanoseconds
    @property
    def request(self) -> list[list[Histogram]]: ...  # by model and METHODS; nanoseconds
    @property
    def batch_items(self) -> Histogram: ...
    @property
    def batch_tokens(self) -> Histogram: ...
    @property
    def requests(self) -> NDArray[np.uint64]: ...  # [MODELS_MAX, METHODS, codes]
    @property
    def items(self) -> NDArray[np.uint64]: ...  # [MODELS_MAX, codes]
    @property
    def rejected(self) -> dict[str, int]: ...  # by REJECTS
    @property
    def expired(self) -> dict[str, int]: ...  # by STAGES
    @property
    def idle_ns(self) -> dict[str, int]: ...  # by IDLES
    @property
    def transport(self) -> dict[str, int]: ...  # by TRANSPORT_COUNTERS
    @property
    def counters(self) -> dict[str, int]: ...  # by the names in COUNTERS

class LoadMeans:
    """Means over one window: items per second, items in flight, shares of 1."""

    @property
    def seconds(self) -> float: ...
    @property
    def asked(self) -> float: ...
    @property
    def errors(self) -> float: ...
    @property
    def items(self) -> float: ...
    @property
    def in_flight(self) -> float: ...
    @property
    def slots(self) -> float: ...
    @property
    def dispatcher(self) -> float: ...
    @property
    def frontdoor(self) -> float: ...
    @property
    def device(self) -> float: ...
    @property
    def queue_wait_s(self) -> list[float]: ...  # the p95, by model
    @property
    def step_s(self) -> list[float]: ...  # by model

class TraceRecord:
    """A call that has ended, or an item of one that has many. -1: no such thing is known."""

    @property
    def is_item(self) -> bool: ...
    @property
    def trace_id(self) -> bytes: ...
    @property
    def parent_id(self) -> bytes: ...  # all 0: no parent
    @property
    def span_id(self) -> bytes: ...
    @property
    def state(self) -> bytes: ...  # the client's tracestate
    @property
    def method(self) -> int: ...
    @property
    def code(self) -> int: ...
    @property
    def model(self) -> int: ...
    @property
    def dispatcher(self) -> int: ...
    @property
    def items(self) -> int: ...
    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def batch_items(self) -> int: ...  # in the item's batch; 0: not known
    @property
    def at_ns(self) -> list[int]: ...  # stage k from at_ns[k] to at_ns[k + 1], by now_ns(); 0: it was not reached

class WakeFds:
    def __init__(self, *, dispatchers: Sequence[int], doors: Sequence[int]) -> None: ...

class Segment:
    def __init__(self, fd: int) -> None: ...
    @property
    def sizes(self) -> Sizes: ...
    @property
    def total_bytes(self) -> int: ...
    @property
    def boot_id(self) -> str: ...
    @property
    def phase(self) -> str: ...
    def set_phase(self, phase: str, drain_deadline_ns: int = 0) -> None: ...
    def set_model(self, i: int, name: str) -> None: ...
    def model(self, i: int) -> ModelView: ...
    def set_route(
        self,
        i: int,
        *,
        generation: int,
        task: str,
        activation: str,
        normalize: bool,
        dimensions: int,
        vocab_size: int,
        max_input_tokens: int,
        max_queue_items: int,
        max_batch_items: int,
        max_batch_tokens: int,
        max_batch_delay_ns: int,
        pair_type_id: int,
        position_offset: int,
        version: str,
        card_json: str,
        max_output_tokens: int = 0,
        prefix_tokens: int = 0,
        cache_slots: int = 0,
    ) -> None: ...
    def route(self, i: int) -> RouteView: ...
    def set_batch_limits(self, i: int, *, items: int, tokens: int, cache_slots: int) -> None: ...
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
    def stats(self, i: int) -> ProcessStats: ...

class BusyUnion:
    def __init__(self, segment: Segment) -> None: ...
    def update(self) -> None: ...
    def busy_ns(self, device: int) -> int: ...
    @property
    def missed(self) -> int: ...

class LoadWindow:
    def __init__(self, segment: Segment, busy: BusyUnion) -> None: ...
    def look(self) -> None: ...
    def long(self) -> LoadMeans: ...
    def short(self) -> LoadMeans: ...
    @property
    def items_waiting(self) -> int: ...
    @property
    def items_running(self) -> int: ...

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

# ---- csrc/bind/core/decode.cpp

HEADER_WORDS: int
ADMITTED_WORDS: int
PARAM_SLOT: int
PARAM_MAX_TOKENS: int
PARAM_FLAGS: int
PARAM_LOGPROBS: int
PARAM_LOGIT_OPTIONS: int
PARAM_STOP_IDS: int
PARAM_REPETITION_PENALTY: int
PARAM_NO_REPEAT_NGRAM_SIZE: int
PARAM_MIN_TOKENS: int
PARAM_SUPPRESS_IDS: int
STOP_IDS_MAX: int
SUPPRESS_IDS_MAX: int

class DecodeLayout:
    def __init__(self, max_tokens: int, max_runs: int) -> None: ...
    @property
    def token_ids(self) -> int: ...
    @property
    def positions(self) -> int: ...
    @property
    def kv_slots(self) -> int: ...
    @property
    def starts(self) -> int: ...
    @property
    def made(self) -> int: ...
    @property
    def admitted(self) -> int: ...
    @property
    def words(self) -> int: ...
    @property
    def out_tokens(self) -> int: ...
    @property
    def out_logprobs(self) -> int: ...
    @property
    def out_finish(self) -> int: ...
    @property
    def out_words(self) -> int: ...

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
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        max_tokens: int,
        stop_ids: Sequence[int] = (),
        ignore_eos: bool = False,
        logprobs: bool = False,
        repetition_penalty: float = 1.0,
        no_repeat_ngram_size: int = 0,
        min_tokens: int = 0,
        min_length: int = 0,
        suppress_ids: Sequence[int] = (),
    ) -> bool: ...
    def seal(self, step: int) -> tuple[int, int, int]: ...
    def retire(self, step: int) -> list[tuple[int, int, float, int]]: ...
    def drop(self, user: int) -> None: ...
    @property
    def running(self) -> int: ...

# ---- csrc/bind/core/sim.cpp

class SimDevice:
    def __init__(
        self,
        *,
        fixed_ns: float,
        per_token_ns: float,
        per_item_ns: float,
        overlap: float,
        table: Sequence[tuple[float, float]] = (),
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
    @property
    def input_ids(self) -> int: ...
    @property
    def token_type_ids(self) -> int: ...
    @property
    def cu_seqlens(self) -> int: ...
    @property
    def position_ids(self) -> int: ...
    @property
    def device_words(self) -> int: ...
    @property
    def words(self) -> int: ...
    @property
    def out_words(self) -> int: ...

class CudaError(RuntimeError):
    call: str  # CUDA's name for it, also where the runtime is HIP; dlopen, dlsym
    code: int  # what it returned; -1: it could not be called

class CudaApi:
    def __init__(self, path: str | None = None) -> None: ...
    @property
    def path(self) -> str: ...
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
    @property
    def graph(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...
    @property
    def max_items(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def usual_ns(self) -> int: ...

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
    @property
    def stream(self) -> int: ...

class CudaStep:
    def __init__(self, lane: CudaLane) -> None: ...
    @property
    def staging(self) -> NDArray[np.int32]: ...
    @property
    def output(self) -> NDArray[np.int32]: ...
    @property
    def stamps(self) -> NDArray[np.int64]: ...
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
