"""Work that would hold the loop up, on a thread that nobody waits for when the server ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from fastqps.errors import FastqpsError

T = TypeVar("T")


class UnexpectedError(FastqpsError):
    """What such work raised, and should not have, or why it was not begun."""


async def off_loop(work: Callable[[], T]) -> T:
    """On a thread that nobody waits for when the server ends. What it raises beside our own errors is one, too, and
    so it is where the system has no thread for it, as at the limit of a container's processes.

    Not by the loop's executor: one that cannot start its thread keeps the work, and cannot be shut down either.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server has ended
            loop.call_soon_threadsafe(lambda: None if done.done() else result())

    def run() -> None:
        try:
            found = work()
        except Exception as error:
            known = error if isinstance(error, FastqpsError) else UnexpectedError(f"{type(error).__name__}: {error}")
            tell(lambda: done.set_exception(known))
        else:
            tell(lambda: done.set_result(found))

    try:
        threading.Thread(target=run, name="off-loop", daemon=True).start()
    except RuntimeError as error:
        raise UnexpectedError(f"no thread can be started: {error}") from None
    return await done
