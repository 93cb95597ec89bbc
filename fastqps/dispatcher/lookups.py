"""Looks up the servers that an edge sends to, again and again: their addresses come and go behind a name."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence

INTERVAL_S = 5.0
DOWN_INTERVAL_S = 0.5  # while no server answers: one that has moved is found soon
_POLL_S = 0.25

Upstream = tuple[str, str, int, str]  # its name for people, IP address, port, the name in its certificate


class Lookups:
    """A thread that looks up ``names`` (host and port each) and passes all addresses to ``use`` where they change.

    ``serving``: whether any server answers; while none does, it looks more often. ``say`` gets a line when a name
    cannot be looked up, or can again. Then the addresses of its last good answer stay in use.
    """

    def __init__(
        self,
        names: Sequence[tuple[str, int]],
        use: Callable[[Sequence[Upstream]], None],
        serving: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        self._serving = serving
        self._use = use
        self._say = say
        self._found: dict[tuple[str, int], list[Upstream]] = {name: [] for name in names}
        self._failing: dict[tuple[str, int], str] = {}
        self._used: list[Upstream] | None = None

    def start(self) -> None:
        """Starts the thread, which ends with the process."""
        threading.Thread(target=self._run, name="lookups", daemon=True).start()

    def look(self) -> None:
        """Looks up all names once."""
        for host, port in self._found:
            try:
                self._found[host, port] = addresses_of(host, port)
                self._report(host, port, "")
            except (OSError, UnicodeError) as error:
                self._report(host, port, getattr(error, "strerror", None) or str(error))
            self._pass_on()

    def _pass_on(self) -> None:
        """One slow name does not keep back the others. Without any address there is an answer, too."""
        by_name = {each[0]: each for several in self._found.values() for each in several}  # two may lead to one
        addresses = list(by_name.values())
        if addresses != self._used:
            self._used = addresses
            self._use(addresses)

    def _report(self, host: str, port: int, fault: str) -> None:
        before = self._failing.get((host, port), "")
        self._failing[host, port] = fault
        if fault and fault != before:
            kept = len(self._found[host, port])
            known = f"its last {kept} addresses stay in use" if kept else "it has no address yet"
            self._say(f"upstream {host}:{port}: it cannot be looked up: {fault}; {known}")
        elif before and not fault:
            self._say(f"upstream {host}:{port}: it can be looked up again")

    def _run(self) -> None:
        while True:
            self.look()
            self._rest()

    def _rest(self) -> None:
        """Waits until the next look."""
        began_s, served = time.monotonic(), self._serving()
        while True:
            time.sleep(_POLL_S)
            waited_s, serves = time.monotonic() - began_s, self._serving()
            if waited_s >= INTERVAL_S or (not serves and (served or waited_s >= DOWN_INTERVAL_S)):
                return


def addresses_of(host: str, port: int) -> list[Upstream]:
    """The servers behind a name, in the order of their addresses. ``OSError`` if it cannot be looked up.

    A name with addresses of both kinds means its IPv4 ones: both would lead to the same servers.
    """
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    by_family = {family: {str(address[0]) for kind, *_, address in results if kind == family} for family, *_ in results}
    ips = by_family.get(socket.AF_INET) or by_family.get(socket.AF_INET6) or set()
    return [(f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}", ip, port, host) for ip in sorted(ips)]
