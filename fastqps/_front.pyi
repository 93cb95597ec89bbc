"""The native front door (csrc/bind/front.cpp)."""

from collections.abc import Mapping, Sequence
from typing import Any

RARE_PATHS: tuple[str, ...]

class TlsError(ValueError): ...

def trim_memory() -> None: ...
def check_tls(certificate: bytes, key: bytes, client_ca: bytes) -> int: ...

class Door:
    def __init__(
        self,
        segment_fd: int,
        dispatcher_fds: Sequence[int],
        door_fds: Sequence[int],
        index: int,
        listener_fd: int,
        internal_fd: int,
        options: Mapping[str, Any],
    ) -> None: ...
    def set_route(
        self,
        route: int,
        *,
        generation: int,
        tokenizer: str,
        special_tokens: str,
        external: bool,
        labels: Sequence[str],
        version: str,
        detokenizer: str,
        pairs_only: bool,
    ) -> None: ...
    def drop_route(self, route: int) -> None: ...
    def set_tls(self, certificate: bytes, key: bytes, client_ca: bytes) -> None: ...
    def set_tokens(self, digests: Sequence[bytes]) -> None: ...
    def run(self) -> int: ...
    def stop(self) -> None: ...
    def next_rare(self, timeout_ms: int) -> tuple[tuple[int, int], int, int, bytes, bool] | None: ...
    def answer_rare(
        self, call: tuple[int, int], message: bytes | None, last: bool, code: int = 0, status: str = ""
    ) -> None: ...
    def next_texts(self, most: int, timeout_ms: int) -> list[tuple[int, int, str, str | None]]: ...
    def texts_done(self, results: Sequence[tuple[int, list[int] | None, int, int]]) -> None: ...
