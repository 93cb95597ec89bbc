"""Runs work that would block the event loop on a daemon thread, which does not delay the server's end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from fastqps.errors import FastqpsError

T = TypeVar("T")


class UnexpectedError(FastqpsError):
    """Work on a thread raised an unexpected exception, or its thread could not start."""


async def in_background(work: Callable[[], T]) -> T:
    """Runs ``work`` on a daemon thread, which never delays the server's end.

    Exceptions other than ``FastqpsError`` become ``UnexpectedError``, and so does a failure to start the thread.

    The loop's executor does not fit: if it cannot start a thread, it keeps the work and cannot be shut down.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server has ended
            loop.call_soon_threadsafe(lambda: None if done.done() else result())

    def run() -> None:
        try:
            value = work()
        except Exception as error:
            known = error if isinstance(error, FastqpsError) else UnexpectedError(f"{type(error).__name__}: {error}")
            tell(lambda: done.set_exception(known))
        else:
            tell(lambda: done.set_result(value))

    try:
        threading.Thread(target=run, name="background", daemon=True).start()
    except RuntimeError as error:
        raise UnexpectedError(f"no thread can be started: {error}") from None
    return await done
