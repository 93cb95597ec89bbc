"""AsyncClient with Client's face, so that one test is for both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import uvloop

import fastqps


class Blocking:
    """Each call runs in a loop of uvloop's until it is done."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.client = fastqps.AsyncClient(*arguments, **options)
        self.loop = uvloop.new_event_loop()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name)
        return lambda *arguments, **options: self.loop.run_until_complete(method(*arguments, **options))

    def predict_stream(self, items: Any, **options: Any) -> Iterator[Any]:
        return self._iterate(self.client.predict_stream(items, **options))

    def generate_stream(self, item: Any, **options: Any) -> Iterator[Any]:
        return self._iterate(self.client.generate_stream(item, **options))

    def _iterate(self, answers: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self.loop.run_until_complete(anext(answers))
                except StopAsyncIteration:
                    return
        finally:
            self.loop.run_until_complete(answers.aclose())

    def __enter__(self) -> Blocking:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.loop.close()
