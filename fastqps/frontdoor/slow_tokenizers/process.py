"""``python -m fastqps.frontdoor.slow_tokenizers.process FD PARENT NAME``: loads tokenizers and forks their workers.

It encodes nothing that a client sent: what a text can break is a worker, and another is forked in milliseconds, with
every tokenizer there. One thread alone runs in here, so that it can fork. Its parent sends messages of JSON,
``["load", route, card]``, ``["drop", route]``, ``["fork", title, nice]`` with the worker's socket, ``["end", pid]``.
Each has one answer: ``[value, error]``.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import setproctitle

from fastqps.frontdoor.slow_tokenizers.limits import MESSAGE_BYTES
from fastqps.frontdoor.slow_tokenizers.worker import RouteTokens, serve
from fastqps.models.card import ModelCard
from fastqps.models.card_tokenizer import load_tokenizer
from fastqps.models.chat.tokens import ChatTokens
from fastqps.process.prctl import die_with_parent


class _Template:
    def __init__(self, control: socket.socket, name: str) -> None:
        self._control = control
        self._name = name
        self._routes: dict[int, RouteTokens | str] = {}
        self._workers: set[int] = set()  # pids of children that are not yet reaped

    def run(self) -> None:
        """Serves the front door until it closes the connection."""
        while True:
            data, fds, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 1)
            if not data:
                return
            try:
                answer = [self._do(*json.loads(data), *fds), ""]
            except Exception as error:  # a file may raise anything in its parser
                answer = [None, str(error) or type(error).__name__]
            for fd in fds:
                os.close(fd)
            self._control.send(json.dumps(answer).encode())

    def _do(self, what: str, *arguments: Any) -> Any:
        known: dict[str, Callable[..., Any]] = {
            "load": self._load,
            "drop": self._drop,
            "fork": self._fork,
            "end": self._end,
        }
        return known[what](*arguments)

    def _load(self, route: int, card: str) -> None:
        """Loads a tokenizer. Where it cannot be, workers refuse the route's texts with the reason."""
        try:
            self._routes[route] = self._tokens(ModelCard.from_json(card))
        except Exception as error:  # a file may raise anything in its parser
            self._routes[route] = str(error) or type(error).__name__
            raise
        finally:
            gc.collect()
            gc.freeze()  # collections in workers must not write to these pages, which forks share

    @staticmethod
    def _tokens(loaded: ModelCard) -> RouteTokens:
        tokenizer = load_tokenizer(loaded)
        assert tokenizer is not None, "a model without a tokenizer needs none of us"
        for item in ("a", ("a", "a"), "a" * 4096):  # loads everything that is imported lazily before the first fork
            with suppress(ValueError):
                tokenizer.encode_items([item])
        chat = ChatTokens(loaded.chat, tokenizer) if loaded.chat else None
        if chat:
            with suppress(ValueError):
                tokenizer.encode_fixed(b"a", [])
            chat.template  # noqa: B018 - compiled before the first fork. Nothing is rendered: it may take for ever
        return RouteTokens(tokenizer, chat)

    def _drop(self, route: int) -> None:
        self._routes.pop(route, None)
        gc.unfreeze()
        gc.collect()
        gc.freeze()

    def _fork(self, title: str, nice: int, fd: int) -> int:
        parent = os.getpid()
        if not (pid := os.fork()):
            self._become_worker(parent, title, nice, fd)
        self._workers.add(pid)
        return pid

    def _become_worker(self, parent: int, title: str, nice: int, fd: int) -> NoReturn:
        try:
            die_with_parent(parent)
            self._control.close()
            os.nice(nice)
            setproctitle.setproctitle(f"fastqps: tokenizer of {self._name}, {title}")
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), sys.stderr.fileno())  # a panic writes there, as often as a client causes one
            serve(Connection(os.dup(fd)), self._routes)
        finally:
            os._exit(1)

    def _end(self, pid: int) -> int:
        """Kills a worker, if it lives; the signal that ended it, or 0. One of an earlier process of this kind has died
        with it."""
        if pid not in self._workers:
            return 0
        self._workers.remove(pid)
        os.kill(pid, signal.SIGKILL)
        return max(0, -os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def main(argv: list[str]) -> None:
    """Serves one front door."""
    fd, parent, name = argv
    die_with_parent(int(parent))
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # only the supervisor ends its processes
        signal.signal(number, signal.SIG_IGN)
    setproctitle.setproctitle(f"fastqps: tokenizers of {name}")
    _Template(socket.socket(fileno=int(fd)), name).run()


if __name__ == "__main__":
    main(sys.argv[1:])
