"""A server of grpcio on a free port, with the services that a test gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc

Add = Callable[[grpc.Server], None]


@contextmanager
def grpc_server(*services: Add, port: int = 0) -> Iterator[str]:
    """Its address. ``services``: each puts its own into the server."""
    server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
    for add in services:
        add(server)
    address = f"127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
    server.start()
    try:
        yield address
    finally:
        server.stop(None).wait()


def of_bytes(name: str, methods: Mapping[str, Any]) -> Add:
    """A service whose handlers read and write bytes."""
    return lambda server: server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, methods)])
