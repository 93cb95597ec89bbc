"""The native front door (csrc/bind/front). tests/project/test_stubs.py compares this file with the extension."""

from collections.abc import Sequence
from types import ModuleType
from typing import Final, Literal

from fastqps._core import Segment, WakeFds
from fastqps.models.tokenizers.tokenizer import SpecialTokens

wire: ModuleType  # the wire format's functions, for tests

class TlsError(ValueError): ...

def trim_memory() -> None: ...
def check_tls(certificate: bytes, key: bytes, client_ca: bytes) -> int: ...

# ---- csrc/bind/front/edge.cpp

class EdgeDispatcher:
    def __init__(
        self,
        segment: Segment,
        wake_fds: WakeFds,
        index: int,
        *,
        epoch: int,
        route: int,
        max_items: int,
        connections: int,
        model: str,
        version: str,
        max_input_tokens: int,
        max_output_tokens: int,
        token: str,
        tls: tuple[bytes, bytes, bytes] | None,  # authorities, certificate, key
    ) -> None: ...
    def set_upstreams(
        self,
        addresses: Sequence[tuple[str, str, int, str]],  # name, IP address, port, name in the certificate
    ) -> None: ...
    def set_credentials(self, token: str, tls: tuple[bytes, bytes, bytes] | None) -> None: ...
    def turn(self, timeout_s: float) -> bool: ...
    def drain(self) -> bool: ...
    def set_ready(self) -> None: ...
    def leave(self) -> None: ...
    def news(self) -> list[str]: ...

class ProbeAnswer:
    state: Final[str]  # one of UPSTREAM_STATES; serving: it would take an edge's items
    reason: Final[str]  # of any other state
    server: Final[str]  # its version of fastqps
    max_input_tokens: Final[int]
    max_output_tokens: Final[int]
    max_inflight: Final[int]
    rtt_ns: Final[int]
    utilization_thousandth: Final[int]
    waiting: Final[int]
    running: Final[int]

def probe(
    address: tuple[str, str, int, str],
    *,
    model: str,
    version: str,
    max_input_tokens: int,
    max_output_tokens: int,
    token: str,
    tls: tuple[bytes, bytes, bytes] | None,
    timeout_s: float,
) -> ProbeAnswer: ...

class Door:
    max_request_items: Final[int]
    auto_truncate: Final[bool | None]
    aliases: Final[list[tuple[str, int]]]
    def number_of(self, model: str) -> int: ...
    def __init__(
        self,
        segment: Segment,
        wake_fds: WakeFds,
        index: int,
        settings: str,  # DoorSettings.native
    ) -> None: ...
    def set_route(
        self,
        route: int,
        generation: int,
        card: str,  # ModelCard.to_json()
        *,
        tokenizer: str,
        special_tokens: SpecialTokens,
        external: bool,
        detokenizer: str,
        specials: tuple[int, int],
    ) -> None: ...
    def drop_route(self, route: int) -> None: ...
    def set_tls(self, certificate: bytes, key: bytes, client_ca: bytes) -> None: ...
    def set_tokens(self, digests: Sequence[bytes]) -> None: ...
    def run(self) -> int: ...
    def stop(self) -> None: ...
    def add_rare_method(self, path: str, unary: bool, texts: bool, number: int) -> None: ...
    def add_rare_route(self, verb: str, pattern: str, protocol: str, texts: bool, number: int) -> None: ...
    def http_routes(self) -> list[tuple[str, str]]: ...
    def answer_rare_route(self, call: tuple[int, int], body: bytes, status: int, content_type: str) -> None: ...
    def next_rare(
        self, timeout_ms: int
    ) -> tuple[tuple[int, int], int, int, bytes, bool, tuple[str, list[str]] | None] | None: ...
    def answer_rare(
        self, call: tuple[int, int], message: bytes | None, last: bool, code: int = 0, status: str = ""
    ) -> None: ...
    def next_texts(
        self, long_ones: bool, most: int, timeout_ms: int
    ) -> list[tuple[int, int, int, int, Literal["counted", "longest", "first"], str, str | None]]: ...
    def defer_text(
        self,
        slot: int,
        route: int,
        connection: int,
        tokens_max: int,
        cut: Literal["counted", "longest", "first"],
        first: str,
        second: str | None,
    ) -> None: ...
    def text_dropped(self, slot: int) -> bool: ...
    def texts_done(self, results: Sequence[tuple[int, bytes, bytes, int, int, str]]) -> None: ...
    def count_tokenizer_restart(self) -> None: ...
    def set_tokenizer_pid(self, which: int, pid: int) -> None: ...
