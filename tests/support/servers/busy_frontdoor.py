"""A front door with a thread that is in native code when its process ends, like one that loads a tokenizer."""

from __future__ import annotations

import threading
from typing import NoReturn

from fastqps import _front
from fastqps.frontdoor import process as frontdoor
from fastqps.frontdoor import rare_calls
from fastqps.process.children import DoorSettings


def main(settings: DoorSettings) -> NoReturn:
    serve = rare_calls.serve

    def work(door: _front.Door) -> None:
        while True:
            door.next_texts(False, 1, 10)

    def with_another(door: _front.Door, methods: list[rare_calls.RareMethod]) -> None:
        threading.Thread(target=work, args=(door,), daemon=True).start()
        serve(door, methods)

    rare_calls.serve = with_another
    frontdoor.main(settings)
