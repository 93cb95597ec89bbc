"""mosec answers each body with itself, at ``/inference``: ``serve_mosec --port PORT --address 127.0.0.1``."""

from __future__ import annotations

from mosec import Server, Worker

BATCH = 64


class Echo(Worker):  # type: ignore[misc]
    """Bytes in, the same bytes out: JSON in Python would cost several times as much as mosec itself."""

    def deserialize(self, data: bytes) -> bytes:
        return data

    def serialize(self, data: bytes) -> bytes:
        return data

    def forward(self, data: list[bytes]) -> list[bytes]:
        return data


if __name__ == "__main__":
    server = Server()
    server.append_worker(Echo, num=1, max_batch_size=BATCH)
    server.run()
