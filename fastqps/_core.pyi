"""The C++ core. What is not listed here is typed Any."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

def __getattr__(name: str) -> Any: ...

# ---- csrc/bind/text.cpp

class NativeTokenizer:
    def __init__(self, source: str, special_tokens: str = "all") -> None: ...
    def encode(self, text: str, max_tokens: int | None = None) -> list[int]: ...
    def encode_pair(self, first: str, second: str, max_tokens: int | None = None) -> tuple[list[int], int]: ...
    def encode_batch(self, texts: Sequence[str], max_tokens: int | None = None) -> list[list[int]]: ...
    def encode_items(
        self, items: Sequence[str | tuple[str, str]], max_tokens: int | None = None
    ) -> list[tuple[list[int], int, int]]: ...
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

# ---- csrc/bind/core.cpp

STAGES: tuple[str, ...]
METHODS: tuple[str, ...]
REJECTS: tuple[str, ...]
IDLES: tuple[str, ...]
TRANSPORT_COUNTERS: tuple[str, ...]
COUNTERS: tuple[tuple[str, str, str, float], ...]  # name, metric or "", help, scale
DOORS_MAX: int
DISPATCHERS_MAX: int
MODELS_MAX: int
GENERATIONS: int

def now_ns() -> int: ...
def take_traces(segment: Segment, door: int, most: int) -> list[tuple[Any, ...]]: ...
def dropped_spans(segment: Segment, door: int) -> int: ...
def histogram_upper(i: int) -> int: ...
def plan(sizes: Sizes) -> dict[str, int]: ...
def create_segment(sizes: Sizes) -> int: ...

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
    ) -> None: ...
    doors: int
    dispatchers: int
    models: int
    devices: int
    slots: int
    max_tokens: int
    answer_bytes: int

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
    def model(self, i: int) -> dict[str, Any]: ...
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
    def route(self, i: int) -> dict[str, Any]: ...
    def card(self, i: int) -> str: ...
    def set_route_state(self, i: int, state: str) -> None: ...
    def set_route_dispatchers(self, i: int, mask: int) -> None: ...
    def serve(self, model: int, generation: int) -> None: ...
    def load(self) -> dict[str, Any]: ...
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
    def door(self, i: int) -> dict[str, Any]: ...
    def dispatcher(self, i: int) -> dict[str, Any]: ...
    def doors(self) -> list[dict[str, Any]]: ...
    def dispatchers(self) -> list[dict[str, Any]]: ...
    def waiting(self, route: int) -> int: ...
    def oldest_ns(self, route: int) -> int: ...
    def suspects_waiting(self, route: int) -> int: ...
    def stats(self, i: int) -> dict[str, Any]: ...

class BusyUnion:
    def __init__(self, segment: Segment) -> None: ...
    def update(self) -> None: ...
    def busy_ns(self, device: int) -> int: ...
    @property
    def missed(self) -> int: ...

class LoadWindow:
    def __init__(self, segment: Segment, busy: BusyUnion) -> None: ...
    def look(self) -> None: ...
    def long(self) -> dict[str, Any]: ...
    def short(self) -> dict[str, Any]: ...
    @property
    def items_waiting(self) -> int: ...
    @property
    def items_running(self) -> int: ...

class Heartbeat:
    def __init__(self, segment: Segment, role: str, i: int, parent_fd: int = -1) -> None: ...

# ---- csrc/bind/step.cpp

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

# ---- csrc/bind/decode.cpp

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

def decode_layout(max_tokens: int, max_runs: int) -> dict[str, int]: ...

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

# ---- csrc/bind/sim.cpp

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

# ---- csrc/bind/cuda.cpp: addresses, streams and graphs are those of the CUDA runtime, as integers

STAMP_WORDS: int  # 32-bit words in front of an output block: int64 start, end of the device's clock in ns, and padding

def encode_layout(max_tokens: int, max_items: int, width: int, token_types: bool = True) -> dict[str, int]: ...

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
    ) -> CudaLane: ...
    @staticmethod
    def decoder(
        api: CudaApi, *, stream: int, staging: int, output: int, max_tokens: int, max_runs: int
    ) -> CudaLane: ...
    def add_graph(self, graph: int, *, max_tokens: int, max_items: int) -> None: ...
    def graphs(self) -> list[dict[str, int]]: ...
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

# ---- csrc/bind/cpu_ops.cpp: arrays are given by address

def attend(
    out: int,
    qkv: int,
    bfloat16: bool,
    heads: int,
    head_dim: int,
    starts: int,
    n_items: int,
    positions: int = 0,
    rotary: int = 0,
    window: int = 0,
) -> None: ...
def normalize(
    out: int, rows: int, bfloat16: bool, n_rows: int, weight: int, bias: int, width: int, eps: float
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
) -> None: ...
def means(out: int, rows: int, bfloat16: bool, width: int, starts: int, n_items: int) -> None: ...

# ---- csrc/bind/cpu_decode.cpp: arrays are given by address

def rms_norm(out: int, rows: int, bfloat16: bool, n_rows: int, weight: int, width: int, eps: float) -> None: ...
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
    prefix: int = 0,
    prefix_len: int = 0,
    rotary: int = 0,
    q_norm: int = 0,
    k_norm: int = 0,
    eps: float = 0.0,
    last_rows_only: bool = False,
) -> None: ...
def gated_silu(out: int, rows: int, bfloat16: bool, n_rows: int, inner: int) -> None: ...
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
) -> None: ...
