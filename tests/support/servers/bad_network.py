"""A network between an edge and a server that a test can harm: a relay of TCP connections in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from types import TracebackType

CHUNK = 4096


class BadNetwork:
    """Relays to ``server`` ("host:port") from ``address``. Its faults are attributes.

    ``delay_s``: of each chunk of bytes. ``silent``: connections are accepted, and no byte goes on. ``flip``: the share
    of chunks in which one bit is turned, in both directions. ``bytes_per_s``: 0 without a limit.
    """

    def __init__(self, server: str, seed: int = 0) -> None:
        self.delay_s = 0.0
        self.silent = False
        self.flip = 0.0
        self.bytes_per_s = 0
        self.flipped = 0
        self._server = server
        self._chance = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._open: set[asyncio.StreamWriter] = set()
        self._cut_after: int | None = None

    def __enter__(self) -> BadNetwork:
        self._thread.start()
        self._listener = self._call(asyncio.start_server(self._relay, "127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.sockets[0].getsockname())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def to_cut(self) -> bool:
        """Whether the last ``cut`` is still to come."""
        return self._cut_after is not None

    def cut(self, after_bytes: int = 0) -> None:
        """Cuts the next connection on which so many more bytes have come, in the middle of a chunk."""
        self._cut_after = after_bytes

    def _call(self, work: object) -> object:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)  # type: ignore[arg-type]

    async def _close(self) -> None:
        self._listener.close()
        for writer in self._open:
            writer.transport.abort()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _relay(self, from_edge: asyncio.StreamReader, to_edge: asyncio.StreamWriter) -> None:
        host, port = self._server.rsplit(":", 1)
        try:
            from_server, to_server = await asyncio.open_connection(host, int(port))
        except OSError:
            to_edge.transport.abort()
            return
        writers = {to_edge, to_server}
        self._open |= writers
        try:
            ways = [self._pass(from_edge, to_server), self._pass(from_server, to_edge)]
            tasks = [asyncio.create_task(way) for way in ways]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
        finally:
            self._open -= writers
            for writer in writers:
                writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if self.bytes_per_s:
                    await asyncio.sleep(len(data) / self.bytes_per_s)
                while self.silent:
                    await asyncio.sleep(0.01)
                if self._cut_after is not None:
                    self._cut_after -= len(data)
                    if self._cut_after < 0:
                        self._cut_after = None
                        writer.write(data[: len(data) // 2])
                        await writer.drain()
                        return
                writer.write(self._harmed(data))
                await writer.drain()

    def _harmed(self, data: bytes) -> bytes:
        if self._chance.random() >= self.flip:
            return data
        self.flipped += 1
        at = self._chance.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << self._chance.randrange(8)]) + data[at + 1 :]
