"""What an edge looks at again and again: the addresses of its servers, which come and go behind a name, and the files
of its token and certificates."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence

from fastqps.errors import ConfigError
from fastqps.process.credentials import UpstreamFiles

INTERVAL_S = 5.0
DOWN_INTERVAL_S = 0.5  # while no server answers: one that has moved is found soon
_POLL_S = 0.25

Pem = tuple[bytes, bytes, bytes]
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


class UpstreamCredentials:
    """Connections that are opened later use what ``files`` hold now. ``use`` gets (token, PEM texts) when that has
    changed.

    Files that are no use change nothing; ``say`` gets a line if that lasts for two looks. They may be written one after
    the other.
    """

    def __init__(
        self, files: UpstreamFiles, use: Callable[[str, Pem | None], None], say: Callable[[str], None]
    ) -> None:
        self._files = files
        self._use = use
        self._say = say
        self._now = files.token(), files.pem()
        self._fault, self._told = "", ""

    def start(self) -> None:
        """Starts the thread, which ends with the process. Without files there is nothing to follow."""
        if any(self._now):
            threading.Thread(target=self._run, name="credentials", daemon=True).start()

    def look(self) -> None:
        """Reads the files once."""
        try:
            credentials = self._files.token(), self._files.pem()
            if credentials != self._now:
                self._use(*credentials)
                self._now = credentials
                self._say("upstreams: connections are opened with the new token and certificates from now on")
            self._fault = self._told = ""
        except (ConfigError, ValueError) as error:  # TlsError is a ValueError
            fault = str(error)
            if fault == self._fault != self._told:
                self._told = fault
                self._say(f"upstreams: the old token and certificates stay in use: {fault}")
            self._fault = fault

    def _run(self) -> None:
        while True:
            time.sleep(INTERVAL_S)
            self.look()
