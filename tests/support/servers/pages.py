"""A server of HTTP/1.1 whose answers a test gives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def pages(answer: Callable[[bytes], tuple[int, Iterable[bytes]]], port: int = 0) -> Iterator[str]:
    """Its address. ``answer``: of a request's body makes the status, and the pieces of what is answered."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, pieces = answer(self.rfile.read(int(self.headers.get("content-length", 0))))
            self.send_response(status)
            self.end_headers()
            with suppress(OSError):
                for piece in pieces:
                    self.wfile.write(piece)

        do_POST = do_GET

        def log_message(self, *arguments: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
